"""Exact nearest neighbours, in pieces that fit in memory: 50,000 × 50,000 × 3,072 in 2 GB."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

PIECE = 4096
"""Rows of each side at a time: 64 MB of distances."""


class Nearest(NamedTuple):
    """The k nearest members of another set, for each row."""

    distances: Tensor  # ascending, [N, k]
    indices: Tensor  # into the other set, [N, k]


def nearest(queries: Tensor, others: Tensor, k: int = 1, same: bool = False) -> Nearest:
    """The k nearest of `others`, [M, d], to each of `queries`, [N, d], by Euclidean distance.

    same: whether the two are one set, so that a row is not its own neighbour.
    """
    if not k <= len(others) - same:
        raise ValueError(f"{k} neighbours of {len(others) - same}")
    parts = [
        _of_piece(rows, others, k, first if same else None)
        for first, rows in zip(range(0, len(queries), PIECE), queries.split(PIECE), strict=True)
    ]
    distances, indices = (torch.cat(part) for part in zip(*parts, strict=True))
    return Nearest(distances, indices)


def _of_piece(rows: Tensor, others: Tensor, k: int, first: int | None) -> Nearest:
    """The nearest of some rows; `first` is the index of the first of them in `others`, if same."""
    best = Nearest(
        torch.full((len(rows), k), torch.inf), torch.zeros(len(rows), k, dtype=torch.long)
    )
    for start, block in zip(range(0, len(others), PIECE), others.split(PIECE), strict=True):
        squares = squared_distances(rows, block)
        if first is not None:
            itself = torch.arange(len(rows)) + first - start
            inside = (itself >= 0) & (itself < len(block))
            squares[inside, itself[inside]] = torch.inf
        values, places = squares.topk(min(k, len(block)), largest=False)
        pool = torch.cat([best.distances, values], 1)
        indices = torch.cat([best.indices, places + start], 1)
        values, chosen = pool.topk(k, largest=False)
        best = Nearest(values, indices.gather(1, chosen))
    return Nearest(best.distances.sqrt(), best.indices)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Squared Euclidean distances of [N, d] and [M, d], [N, M], float32.

    By one matrix product of vectors centred on their common mean, because in float32 a large common
    part would not cancel exactly.
    """
    centre = (a.float().mean(0) * len(a) + b.float().mean(0) * len(b)) / (len(a) + len(b))
    a, b = a.float() - centre, b.float() - centre
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :]
    return torch.addmm(squares, a, b.T, alpha=-2).clamp_min_(0)
