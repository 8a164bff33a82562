"""A mixture of Gaussians in log space that differ in the leading directions of the data only.

Importing this module imports torch; it is fitted elsewhere, where the images are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ablate.diffusion.moments import Gaussian


class Mixture(NamedTuple):
    """k Gaussians with weights; their means and covariances along the first p data directions.

    In the other directions, and in their tail, each has the mean and the variances of all data.
    """

    weights: Tensor  # sum to 1, [k]
    means: Tensor  # coordinates from the mean of all data, [k, p]
    rotations: Tensor  # principal directions of each covariance as rows, [k, p, p]
    variances: Tensor  # along these, [k, p]
    classes: Tensor  # share of each class within each component, [k, K]

    def pick(self, u: Tensor) -> Tensor:
        """The component of each u, uniform on [0, 1), [B] -> [B]; by weight."""
        return torch.searchsorted(self._ends(), u.double(), right=True)

    def pick_class(self, u: Tensor) -> Tensor:
        """The class of each u, [B] -> [B]: by the shares within the component that u picks.

        Within a component u is uniform again, so the rest of it picks the class.
        """
        ends, chosen = self._ends(), self.pick(u)
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        rest = (u.double() - starts[chosen]) / (ends - starts)[chosen]
        shares = self.classes.double().cumsum(1)
        below = (shares / shares[:, -1:])[chosen] <= rest[:, None]  # [B, K]
        return below.sum(1).clamp_max(self.classes.shape[1] - 1)

    def _ends(self) -> Tensor:
        """The ends of the components' parts of [0, 1), the last one exactly 1, [k]."""
        ends = self.weights.double().cumsum(0)
        return ends / ends[-1]

    def component(self, j: int, everything: Gaussian) -> Gaussian:
        """Component j; `everything` is the Gaussian of all data whose directions it uses."""
        p, like = self.means.shape[1], everything.mean
        mean, rotation, variances = (
            part[j].to(like) for part in (self.means, self.rotations, self.variances)
        )
        leading, others = everything.basis[:p], everything.basis[p:]
        return Gaussian(
            everything.mean + mean @ leading,
            torch.cat([rotation @ leading, others]),
            torch.cat([variances, everything.variances[p:]]),
            everything.tail,
        )
