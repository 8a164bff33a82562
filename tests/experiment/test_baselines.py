"""Baselines of real images: no image stands in two of the sets that an interval is over."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from ablate.core.quantiles import Z95
from ablate.experiment.baselines import baselines, disjoint_sets
from ablate.experiment.prepare import Setup, prepare
from ablate.metrics.reference import measure
from ablate.study.resolve import parse
from tests.support.studies import TEXT, Workspace, make_root

HELD_OUT = 359  # images of digits


def setup_with(folder: Path, bundle: Path, samples: int, seeds: str = "0, 1") -> Setup:
    text = TEXT.format(method="grid", trials=4).replace("samples = 40", f"samples = {samples}")
    text = text.replace("seeds = [0, 1]", f"seeds = [{seeds}]")
    return prepare(parse(text, "t", "quick"), Workspace(make_root(folder, bundle)))


@pytest.mark.parametrize(
    ("samples", "seeds", "sizes"),
    [(40, 3, [40] * 3), (100, 5, [100] * 3), (256, 3, [256]), (359, 2, [359]), (400, 3, [359])],
)
def test_sets_are_disjoint_and_as_large_as_those_of_trials(
    samples: int, seeds: int, sizes: list[int]
) -> None:
    images = torch.arange(HELD_OUT)[:, None]
    sets = disjoint_sets(images, samples, range(seeds))
    assert [len(each) for each in sets] == sizes
    assert len(torch.cat(sets).unique()) == sum(sizes)


def test_the_first_set_is_that_of_the_first_seed() -> None:
    """So a baseline of one seed differs from another's."""
    images = torch.arange(HELD_OUT)[:, None]
    one, other = (disjoint_sets(images, 50, [seed])[0] for seed in (0, 1))
    assert not torch.equal(one, other)
    assert torch.equal(one, disjoint_sets(images, 50, [0, 1])[0])


@pytest.mark.parametrize(
    ("samples", "seeds", "name"),
    [
        (100, "0, 1, 2", "held-out images"),
        (100, "0, 1, 2, 3", "held-out images - only 300 in 3 sets"),
        (300, "0, 1", "held-out images - only 300 in one set"),
        (400, "0, 1", "held-out images - only 359"),
        (300, "0", "held-out images"),
    ],
)
def test_the_name_says_if_there_are_fewer(
    tiny_bundle: Path, tmp_path: Path, samples: int, seeds: str, name: str
) -> None:
    found = baselines(setup_with(tmp_path, tiny_bundle, samples, seeds))
    assert name in found
    assert found[name]["kid.interval"] > 0


def test_one_set_has_the_interval_of_its_standard_error(tiny_bundle: Path, tmp_path: Path) -> None:
    """Sets of 300 of 359 images share at least 241: their spread shows a part of the error only."""
    setup = setup_with(tmp_path, tiny_bundle, 300)
    found = baselines(setup)["held-out images - only 300 in one set"]
    images = setup.bundle.features["heldout"]
    (alone,) = disjoint_sets(images, 300, [0])
    for name, measured in measure(alone, setup.reference).items():
        assert found[name] == measured.value
        assert found[f"{name}.interval"] == pytest.approx(Z95 * measured.sampling_error)
        assert math.isfinite(found[f"{name}.interval"])
