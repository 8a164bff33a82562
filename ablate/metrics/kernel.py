"""Kernel distance (KID): unbiased squared MMD with the kernel (a·b/f + 1)³, in float64.

Over all samples at once rather than over random subsets: less variance, and no random numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.metrics.estimate import Estimate


def _cubic(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.T / a.shape[1] + 1) ** 3


def mean_of_pairs(a: Tensor) -> float:
    """Mean of k(a_i, a_j) over i ≠ j; a reference set's is worth computing once."""
    a = a.double()
    kernel = _cubic(a, a)
    return float((kernel.sum() - kernel.diagonal().sum()) / (len(a) * (len(a) - 1)))


def features_to_kid(samples: Tensor, reference: Tensor, within: float | None = None) -> float:
    """Features [N, f] and [M, f] -> KID; negative values are within the noise of zero.

    `within` is the reference's `mean_of_pairs`, if it is known already.
    """
    within = mean_of_pairs(reference) if within is None else within
    across = _cubic(samples.double(), reference.double()).mean()
    return mean_of_pairs(samples) + within - 2 * float(across)


class _Half:
    """What one of the two sets contributes to the variance of MMD².

    own: kernel within the set, [n, n]; across: with the other set, [n, m].
    """

    def __init__(self, own: Tensor, across: Tensor) -> None:
        n = len(own)
        off = own - torch.diag(own.diagonal())
        self.mean = off.sum() / (n * (n - 1))
        rows = off.sum(1) / (n - 1)
        influence = rows - across.mean(1)
        self.first = 4 * influence.var() / n
        # the kernel less all that single images explain: what only pairs do
        pairs = off - (rows[:, None] + rows[None, :] - self.mean) * n / (n - 1)
        pairs.fill_diagonal_(0)
        self.second = 2 * (pairs**2).sum() / (n * (n - 1)) ** 2


def features_to_kid_estimate(samples: Tensor, reference: Tensor) -> Estimate:
    """KID with its standard error, that of the U-statistic (Hoeffding's decomposition).

    4 Var h(x)/N + 4 Var g(y)/M for what single images contribute, and for what only pairs do
    2 Var k(x, x')/N² + 2 Var k(y, y')/M² + 4 Var k(x, y)/(N M), the kernels centred. The plain
    estimate of the first part holds as much of the second again, which is taken off once.
    """
    a, b = samples.double(), reference.double()
    cross = _cubic(a, b)
    first, second = _Half(_cubic(a, a), cross), _Half(_cubic(b, b), cross.T)
    centred = cross - cross.mean(0) - cross.mean(1, keepdim=True) + cross.mean()
    mixed = 4 * (centred**2).mean() / cross.numel()
    value = first.mean + second.mean - 2 * cross.mean()
    pairs = first.second + second.second + mixed
    variance = torch.maximum(first.first + second.first - pairs, pairs)
    return Estimate(float(value), float(variance.sqrt()))
