"""The best linear denoiser of labelled images: each by the Gaussian of its class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ablate.diffusion.moments import Gaussian


class ClassGaussians(nn.Module):
    """A Gaussian for each of K classes, and the one of all images, which label K stands for.

    The classes' directions lie in the span of the shared ones, [R, d], and are stored as rotations
    of them, so that the two large products of a batch are done once for all classes.
    """

    means: Tensor  # [K + 1, d]
    basis: Tensor  # [R, d]
    rotations: Tensor  # [K, r, R]
    variances: Tensor  # [K, r]
    shared: Tensor  # variances of the shared directions, [R]
    tails: Tensor  # [K + 1]

    def __init__(self, everything: Gaussian, classes: Sequence[Gaussian]) -> None:
        super().__init__()
        every = [*classes, everything]
        parts = {
            "means": torch.stack([each.mean for each in every]),
            "basis": everything.basis,
            "rotations": torch.stack([each.basis @ everything.basis.T for each in classes]),
            "variances": torch.stack([each.variances for each in classes]),
            "shared": everything.variances,
            "tails": torch.stack([each.tail for each in every]),
        }
        for name, part in parts.items():
            self.register_buffer(name, part.float())

    def wiener(self, y: Tensor, s: Tensor, labels: Tensor) -> Tensor:
        """Each image's best linear denoiser; y: [B, d], s: [B, 1], labels: [B], up to K."""
        mean, tail = self.means[labels], self.tails[labels][:, None]
        centred = y - mean
        rest = tail / (tail + s**2)
        along = centred @ self.basis.T  # [B, R]
        changed = torch.empty_like(along)
        for label in range(len(self.means)):
            rows = labels == label
            changed[rows] = self._gained(along[rows], s[rows], label)
        return mean + rest * centred + changed @ self.basis

    def _gained(self, along: Tensor, s: Tensor, label: int) -> Tensor:
        """Coordinates of images of one label, [b, R], times their gains above the tail's."""
        tail = self.tails[label]
        rest = tail / (tail + s**2)
        if label == len(self.rotations):
            return along * (self.shared / (self.shared + s**2) - rest)
        variances, rotation = self.variances[label], self.rotations[label]
        gain = variances / (variances + s**2) - rest
        return ((along @ rotation.T) * gain) @ rotation

    def error(self, s: Tensor, labels: Tensor) -> Tensor:
        """The mean error variance per pixel of `wiener`: s is [B, 1], labels [B] -> [B, 1]."""
        tail, d = self.tails[labels][:, None], self.means.shape[1]
        of_class = self.variances[labels.clamp_max(len(self.variances) - 1)]  # [B, r]
        unlabelled = (labels == len(self.variances))[:, None]
        leading = torch.where(unlabelled, _summed(self.shared, s), _summed(of_class, s))
        rank = torch.where(unlabelled, self.shared.shape[0], self.variances.shape[1])
        return (leading + (d - rank) * tail * s**2 / (tail + s**2)) / d


def _summed(variances: Tensor, s: Tensor) -> Tensor:
    """The error variance of directions with these variances, [..., r], summed: [B, 1]."""
    return (variances * s**2 / (variances + s**2)).sum(-1, keepdim=True)
