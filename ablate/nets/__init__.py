"""Networks. Each takes images [B, C, H, W] and the log of the noise level, [B]."""
