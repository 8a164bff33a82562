"""Kernel distance (KID): unbiased squared MMD with the kernel (a·b/f + 1)³, in float64.

It uses all samples at once rather than random subsets: less variance, no random numbers, and the
standard error of the U-statistic. torchmetrics draws subsets from the global generator and reports
their spread, which is not a standard error; `kid_of_subsets` follows its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.data.tensor_cache import Tensors
from ablate.metrics.estimate import Estimate, Measured
from ablate.metrics.reference import Reference

PIECE = 1024
"""Rows of the kernel matrix at a time: 80 MB against 10,000 images."""

SUBSETS, SUBSET_SIZE = 100, 1000
"""torchmetrics' defaults."""


class Within(NamedTuple):
    """The kernel of a set with itself; compute a reference's only once."""

    rows: Tensor  # mean of k(a_i, a_j) over j ≠ i, [n]
    pairs: float  # part of the mean's variance that is due to pairs, not to single images

    @property
    def mean(self) -> Tensor:
        """The mean over all pairs, []."""
        return self.rows.mean()


def within(a: Tensor) -> Within:
    """The kernel of features, [n, f], with themselves."""
    a, n = a.double(), len(a)
    diagonal = ((a**2).sum(1) / a.shape[1] + 1) ** 3
    rows, squares = torch.empty(n, dtype=torch.float64), -(diagonal**2).sum()
    for piece, kernel in _pieces(a, a):
        rows[piece] = (kernel.sum(1) - diagonal[piece]) / (n - 1)
        squares += (kernel**2).sum()
    return Within(rows, float(2 * _of_pairs_alone(rows, squares) / (n * (n - 1)) ** 2))


def _of_pairs_alone(rows: Tensor, squares: Tensor) -> Tensor:
    """Σ over i ≠ j of (k_ij - m - c (d_i + d_j))² with d_i = r_i - m and c = (n - 1)/(n - 2).

    This is the kernel without the part due to single images; c is that of least squares.
    squares: Σ k_ij².
    """
    n, m = len(rows), rows.mean()
    apart = ((rows - m) ** 2).sum()
    explained = n * (n - 1) * m**2 + 2 * (n - 1) ** 2 / max(n - 2, 1) * apart
    return (squares - explained).clamp_min(0)  # below zero by rounding alone


def _pieces(a: Tensor, b: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of the kernel matrix of a, [n, f], and b, [m, f], some at a time."""
    for first in range(0, len(a), PIECE):
        piece = slice(first, first + PIECE)
        # in place: a copy is up to 80 MB
        yield piece, (a[piece] @ b.T).div_(a.shape[1]).add_(1).pow_(3)


def features_to_kid(
    samples: Tensor, reference: Tensor, reference_kernel: Within | None = None
) -> Measured:
    """Features [N, f] and [M, f] -> KID; negative values are within the noise of zero.

    reference_kernel: `within` of the reference, if it is computed already. The variance is that of
    Hoeffding's decomposition: 4 Var h(x)/N + 4 Var g(y)/M for single images, and for pairs
    2 Var k(x, x')/N² + 2 Var k(y, y')/M² + 4 Var k(x, y)/(N M), with centred kernels.
    """
    a, b = samples.double(), reference.double()
    of_a, of_b = within(a), reference_kernel or within(b)
    rows, columns = torch.empty(len(a), dtype=torch.float64), torch.zeros(len(b)).double()
    squares = torch.zeros((), dtype=torch.float64)
    for piece, kernel in _pieces(a, b):
        rows[piece] = kernel.mean(1)
        columns += kernel.sum(0)
        squares += (kernel**2).sum()
    columns, mean, count = columns / len(a), rows.mean(), len(a) * len(b)
    centred = squares / count - ((rows - mean) ** 2).mean() - ((columns - mean) ** 2).mean()
    mixed = 4 * float((centred - mean**2).clamp_min(0)) / count
    return Measured(
        value=float(of_a.mean + of_b.mean - 2 * mean),
        samples=2 * (of_a.rows - rows),
        reference=2 * (of_b.rows - columns),
        pairs=of_a.pairs + of_b.pairs + mixed,
    )


def kid_of_subsets(
    samples: Tensor,
    reference: Tensor,
    generator: torch.Generator,
    subsets: int = SUBSETS,
    size: int = SUBSET_SIZE,
) -> Estimate:
    """The mean of KID over random subsets of both sets, with the subsets' spread as `error`.

    The paper and most others report this. The spread shows how much subsets differ, not how far
    the mean is from the truth.
    """
    a, b = samples.double(), reference.double()
    values = torch.empty(subsets, dtype=torch.float64)
    for subset in range(subsets):
        of_a, of_b = (torch.randperm(len(x), generator=generator)[:size] for x in (a, b))
        values[subset] = features_to_kid(a[of_a], b[of_b]).value
    return Estimate(float(values.mean()), float(values.std(correction=0)))


def reference_within(reference: Reference) -> Within:
    """The kernel of the reference with itself, computed once."""

    def compute() -> Tensors:
        kernel = within(reference.features)
        return {"rows": kernel.rows, "pairs": torch.tensor(kernel.pairs, dtype=torch.float64)}

    tensors = reference.once("kernel", compute)
    return Within(tensors["rows"], float(tensors["pairs"]))


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `kid` of samples' features, [N, f]."""
    return {"kid": features_to_kid(samples, reference.features, reference_within(reference))}
