"""Nearest neighbours, against brute force."""

from __future__ import annotations

import pytest
import torch

from ablate.metrics.neighbours import nearest
from tests.metrics.feature_sets import distances
from tests.support.beds import normal


def test_nearest_are_those_of_brute_force(piece: int) -> None:
    queries, others = normal((20, 6), 0), normal((33, 6), 1)
    expected = distances(queries, others).sort(1)
    found = nearest(queries, others, k=4)
    assert torch.equal(found.indices, expected.indices[:, :4])
    torch.testing.assert_close(found.distances.double(), expected.values[:, :4], rtol=1e-5, atol=0)


def test_a_row_is_not_its_own_neighbour(piece: int) -> None:
    rows = normal((25, 4), 2)
    rows[7] = rows[20]  # but may be a twin's
    table = distances(rows, rows).fill_diagonal_(torch.inf)
    found = nearest(rows, rows, k=3, same=True)
    assert int(found.indices[7, 0]) == 20
    assert float(found.distances[7, 0]) < 1e-3  # float32 about the centre: √(1e-7) at most
    others = [row for row in range(25) if row not in (7, 20)]
    assert torch.equal(found.indices[others, 0], table.min(1).indices[others])


def test_too_few_to_have_so_many_neighbours() -> None:
    with pytest.raises(ValueError, match="5 neighbours of 4"):
        nearest(normal((5, 2), 0), normal((5, 2), 0), k=5, same=True)


def test_far_from_the_origin_neighbours_are_still_found() -> None:
    """Pixels lie about some mean image far from 0; in float32 only differences are small."""
    others = normal((200, 50), 3) + 1000
    queries = others[:40] + 0.01 * normal((40, 50), 4)
    found = nearest(queries, others)
    assert torch.equal(found.indices[:, 0], torch.arange(40))
