"""From a network's output to the denoiser D(y; s) = E[y_0 | y_s] in log space."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ablate.moments import Gaussian


def _called(net: nn.Module, image: Tensor, log_s: Tensor, labels: Tensor | None) -> Tensor:
    """In the layout convolutions like; a network that is told no labels need not take any."""
    told = () if labels is None else (labels,)
    out: Tensor = net(image.contiguous(memory_format=torch.channels_last), log_s, *told)
    return out


class AsInPaper(nn.Module):
    """D(y; s) = y + s² (1 + x ∘ F(x; log s)): the network's output times x is the hyvarinen.

    Nothing is scaled, so F must grow as 1/s² towards low noise; kept to reproduce the paper.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def hyvarinen(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        """x ∘ F(x; log s); y: [B, C, H, W], s and labels: [B]."""
        x = y.exp()
        return x * _called(self.net, x, s.log(), labels)

    def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        return y + s[:, None, None, None] ** 2 * (1 + self.hyvarinen(y, s, labels))


class Preconditioned(nn.Module):
    """D(y; s) = D_lin(y; s) + c_out(s) F(y, D_lin; log s): Wiener preconditioning.

    D_lin is the best linear denoiser under the data's mean and covariance, c_out² its exact error
    variance, so F learns only what is not Gaussian, at unit size on every noise level. With a
    Gaussian of rank 0 this is EDM's scalar c_skip.
    """

    mean: Tensor
    basis: Tensor
    variances: Tensor
    tail: Tensor

    def __init__(self, net: nn.Module, gaussian: Gaussian) -> None:
        super().__init__()
        self.net = net
        for name, part in gaussian.to(torch.float32)._asdict().items():
            self.register_buffer(name, part)

    @property
    def gaussian(self) -> Gaussian:
        return Gaussian(self.mean, self.basis, self.variances, self.tail)

    def error_variance(self, s: Tensor) -> Tensor:
        """c_out², [B, 1]: what the loss is weighted by."""
        return self.gaussian.wiener_error(s[:, None])

    def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        """y: [B, C, H, W], s and labels: [B]."""
        gaussian = self.gaussian
        linear = gaussian.wiener(y.flatten(1), s[:, None]).view_as(y)
        mean = self.mean.view(y.shape[1:])
        variance = gaussian.pixel_variance()
        noisy_spread = (variance + s**2).sqrt()[:, None, None, None]
        inputs = torch.cat([(y - mean) / noisy_spread, (linear - mean) / variance.sqrt()], 1)
        correction = _called(self.net, inputs, s.log(), labels)
        out: Tensor = linear + self.error_variance(s).sqrt()[..., None, None] * correction
        return out
