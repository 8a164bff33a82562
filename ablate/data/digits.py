"""The 8×8 digits that scikit-learn ships, so nothing has to be downloaded."""

from __future__ import annotations

from pathlib import Path

import torch

from ablate.data.datasets import Dataset, Images


def load(folder: Path) -> Dataset:
    """All 1,797 digits, in 17 grey levels, with every fifth held out."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    pixels = torch.from_numpy(raw.images).mul(255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.from_numpy(raw.target).long()
    heldout = torch.arange(len(labels)) % 5 == 4
    return Dataset(
        "digits",
        Images(pixels[~heldout], labels[~heldout]),
        Images(pixels[heldout], labels[heldout]),
        licence="CC BY 4.0 (Alpaydin, Kaynak; UCI Optical Recognition of Handwritten Digits)",
    )
