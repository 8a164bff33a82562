"""Kernel distance (KID): unbiased squared MMD with the kernel (a·b/f + 1)³, in float64.

Over all samples at once rather than over random subsets: less variance, no random numbers, and a
standard error that is the U-statistic's own. torchmetrics draws subsets from the global generator
and tells their spread, which is neither; its protocol is here by the name `kid_of_subsets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.metrics.estimate import Estimate, Measured
from ablate.metrics.feature_cache import Tensors
from ablate.metrics.reference import Reference

PIECE = 1024
"""Rows of a kernel at a time: 80 MB against 10,000 images."""

SUBSETS, SUBSET_SIZE = 100, 1000
"""torchmetrics' defaults."""


class Within(NamedTuple):
    """A set against itself; a reference's is worth computing once."""

    rows: Tensor  # mean of k(a_i, a_j) over j ≠ i, [n]
    pairs: float  # variance of the mean that only pairs explain

    @property
    def mean(self) -> Tensor:
        return self.rows.mean()


def within(a: Tensor) -> Within:
    """Features, [n, f]."""
    a, n = a.double(), len(a)
    diagonal = ((a**2).sum(1) / a.shape[1] + 1) ** 3
    rows, squares = torch.empty(n, dtype=torch.float64), -(diagonal**2).sum()
    for piece, kernel in _pieces(a, a):
        rows[piece] = (kernel.sum(1) - diagonal[piece]) / (n - 1)
        squares += (kernel**2).sum()
    return Within(rows, float(2 * _of_pairs_alone(rows, squares) / (n * (n - 1)) ** 2))


def _of_pairs_alone(rows: Tensor, squares: Tensor) -> Tensor:
    """Σ over i ≠ j of (k_ij - m - c (d_i + d_j))² with d_i = r_i - m and c = (n - 1)/(n - 2), the
    least squares': the kernel less all that single images explain. `squares` is Σ k_ij²."""
    n, m = len(rows), rows.mean()
    apart = ((rows - m) ** 2).sum()
    explained = n * (n - 1) * m**2 + 2 * (n - 1) ** 2 / max(n - 2, 1) * apart
    return (squares - explained).clamp_min(0)  # below zero by rounding alone


def _pieces(a: Tensor, b: Tensor) -> Iterator[tuple[slice, Tensor]]:
    for first in range(0, len(a), PIECE):
        piece = slice(first, first + PIECE)
        yield piece, (a[piece] @ b.T / a.shape[1] + 1) ** 3


def features_to_kid(samples: Tensor, reference: Tensor, known: Within | None = None) -> Measured:
    """Features [N, f] and [M, f] -> KID; negative values are within the noise of zero.

    `known` is the reference's `within`, if it is at hand. The variance is that of Hoeffding's
    decomposition: 4 Var h(x)/N + 4 Var g(y)/M for what single images contribute, and for what only
    pairs do 2 Var k(x, x')/N² + 2 Var k(y, y')/M² + 4 Var k(x, y)/(N M), the kernels centred.
    """
    a, b = samples.double(), reference.double()
    own, other = within(a), known or within(b)
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
        value=float(own.mean + other.mean - 2 * mean),
        samples=2 * (own.rows - rows),
        reference=2 * (other.rows - columns),
        pairs=own.pairs + other.pairs + mixed,
    )


def kid_of_subsets(
    samples: Tensor,
    reference: Tensor,
    generator: torch.Generator,
    subsets: int = SUBSETS,
    size: int = SUBSET_SIZE,
) -> Estimate:
    """Mean of KID over random subsets of both, with their spread in the place of an error.

    What the paper and most others print. The spread says how far subsets differ, not how far the
    mean may be from the truth.
    """
    a, b = samples.double(), reference.double()
    found = []
    for _ in range(subsets):
        mine, theirs = (torch.randperm(len(x), generator=generator)[:size] for x in (a, b))
        found.append(features_to_kid(a[mine], b[theirs]).value)
    values = torch.tensor(found, dtype=torch.float64)
    return Estimate(float(values.mean()), float(values.std(correction=0)))


def reference_within(reference: Reference) -> Within:
    """The reference against itself, computed once."""

    def compute() -> Tensors:
        found = within(reference.features)
        return {"rows": found.rows, "pairs": torch.tensor(found.pairs, dtype=torch.float64)}

    found = reference.once("kernel", compute)
    return Within(found["rows"], float(found["pairs"]))


def measure(samples: Tensor, reference: Reference) -> dict[str, Measured]:
    """The registry's `kid` of samples' features, [N, f]."""
    return {"kid": features_to_kid(samples, reference.features, reference_within(reference))}
