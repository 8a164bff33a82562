"""Neighbours, precision, recall, density and coverage, against brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ablate.metrics import coverage as coverages
from ablate.metrics import neighbours
from ablate.metrics.coverage import features_to_coverage, radii
from ablate.metrics.neighbours import nearest
from tests.support.beds import normal


@pytest.fixture(params=[3, 7, 1000], ids="pieces of {}".format)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many rows at a time: fewer than there are, not a divisor of them, and more."""
    rows: int = request.param
    for module in (neighbours, coverages):
        monkeypatch.setattr(module, "PIECE", rows)
    return rows


def distances(a: Tensor, b: Tensor) -> Tensor:
    table: Tensor = (a[:, None] - b[None]).double().norm(dim=2)
    return table


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


def means(samples: Tensor, real: Tensor, k: int = 5) -> dict[str, float]:
    found = features_to_coverage(samples, real, k).measured()
    return {name: each.value for name, each in found.items()}


def brute_force(samples: Tensor, real: Tensor, k: int) -> dict[str, float]:
    """By the definitions of the two papers, one pair at a time."""
    table = distances(samples, real)
    real_radius = distances(real, real).sort(1).values[:, k]  # 0 is itself
    sample_radius = distances(samples, samples).sort(1).values[:, k]
    inside = table <= real_radius[None, :]
    return {
        "precision": float(inside.any(1).double().mean()),
        "recall": float((table <= sample_radius[:, None]).any(0).double().mean()),
        "density": float(inside.double().sum() / (k * len(samples))),
        "coverage": float(inside.any(0).double().mean()),
    }


@pytest.mark.parametrize("k", [1, 3])
def test_coverage_by_its_definitions(piece: int, k: int) -> None:
    samples, real = 0.8 * normal((30, 5), 5) + 0.4, normal((41, 5), 6)
    found = means(samples, real, k)
    assert found == pytest.approx(brute_force(samples, real, k), abs=1e-12)
    assert 0.1 < found["precision"] < 1  # nothing here is decided by being all or none
    assert 0.1 < found["recall"] < 1


def test_what_they_tell_apart() -> None:
    """Real images themselves have all; one mode of two has precision and half the recall; noise
    far away has nothing."""
    two = torch.cat([normal((150, 4), 7), normal((150, 4), 8) + 20])
    again = torch.cat([normal((150, 4), 9), normal((150, 4), 10) + 20])
    whole = means(again, two)
    one = means(again[:150].repeat(2, 1) + 0.1 * normal((300, 4), 11), two)
    none = means(again + 500, two)
    assert whole["precision"] > 0.9
    assert whole["coverage"] > 0.9
    assert one["precision"] > 0.9
    assert 0.3 < one["coverage"] <= 0.5
    assert one["recall"] <= 0.5
    assert none == {"precision": 0.0, "recall": 0.0, "density": 0.0, "coverage": 0.0}


def test_known_radii_change_nothing() -> None:
    samples, real = normal((30, 5), 12), normal((41, 5), 13)
    known = features_to_coverage(samples, real, 3, radii(real, 3))
    pairs = zip(known, features_to_coverage(samples, real, 3), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_each_error_is_over_the_set_that_the_mean_is_over() -> None:
    found = features_to_coverage(normal((30, 5), 14), normal((41, 5), 15), 3).measured()
    assert [len(found[name].samples) for name in ("precision", "density")] == [30, 30]
    assert [len(found[name].reference) for name in ("recall", "coverage")] == [41, 41]
