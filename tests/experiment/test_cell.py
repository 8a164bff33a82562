"""Cells: the numbers of a configuration and a seed, and nothing else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.core.errors import UserError
from ablate.data import datasets as data
from ablate.data.datasets import load
from ablate.diffusion.inits import Source, class_average
from ablate.experiment.baselines import baselines
from ablate.experiment.cell import run_cell
from ablate.experiment.prepare import prepare
from ablate.generate.draw import BATCH, STRIP_FRAMES, STRIP_ROWS, Drawing, draw
from ablate.generate.settings import Settings
from ablate.models import bundle as bundles
from ablate.results import ERROR
from ablate.samplers.noise import start_numbers
from ablate.study.resolve import parse
from tests.support.studies import TEXT, Workspace, make_root, setup_of


@pytest.fixture(scope="module")
def bundle(tiny_bundle: Path) -> bundles.Bundle:
    return bundles.read(tiny_bundle)


def adls(**knobs: object) -> Settings:
    given = {"sampler": "adls", "init": "gaussian", "sigma": 0.8, "levels": 5, **knobs}
    return Settings.model_validate(given)


def drawn(bundle: bundles.Bundle, settings: Settings, samples: int, seed: int = 0) -> Drawing:
    return draw(bundle.score_model, Source(bundle.moments), settings, seed, samples)


def test_more_samples_begin_with_the_fewer(bundle: bundles.Bundle) -> None:
    """Padding to a fixed batch makes sample i the same to the last bit, however many are drawn."""
    few, many = (drawn(bundle, adls(), n).pixels for n in (3, BATCH + 5))
    assert many.shape == (BATCH + 5, 1, 8, 8)
    assert torch.equal(few, many[:3])
    assert not torch.equal(few, drawn(bundle, adls(), 3, seed=1).pixels)


def test_evaluations_are_counted_as_planned(bundle: bundles.Bundle) -> None:
    for settings in (adls(L=2, n=3), adls(sampler="pf-heun"), adls(sampler="dale-langevin")):
        assert drawn(bundle, settings, 2).nfe == settings.nfe


def test_the_strip_ends_with_the_result(bundle: bundles.Bundle) -> None:
    drawing = drawn(bundle, adls(levels=30), 8)
    strip = drawing.strip
    assert strip.shape == (STRIP_ROWS, STRIP_FRAMES, 1, 8, 8)
    assert torch.equal(strip[:, -1], drawing.pixels[:STRIP_ROWS])
    assert not torch.equal(strip[:, 0], strip[:, -1])


def test_a_diverged_cell_has_a_reason_and_no_distances(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    wild = adls(sampler="asams", r=60.0)
    result = run_cell(setup, wild, 0)
    assert result.reason is not None
    assert "fid" not in result.metrics
    assert result.metrics["nfe"] < wild.nfe
    tame = run_cell(setup, adls(), 0)
    assert tame.reason is None
    assert {name for name in tame.metrics if not name.endswith(ERROR)} == {
        *("fid", "kid", "precision", "recall", "density", "coverage"),
        *("nfe", "samples", "seconds", "clamp_rate", "flip_rate", "diverged"),
        *(f"nn_{space}_{name}" for space in ("feature", "pixel") for name in NEIGHBOURS),
    }


PLAIN = ("distance", "heldout", "suspects", "searched")
NEIGHBOURS = (*PLAIN, "closer", "authentic", "authentic_heldout", "c_t")


def test_neighbours_are_those_of_the_training_images(tiny_bundle: Path, tmp_path: Path) -> None:
    """In pixels by brute force; the panel shows the nearest samples, each beside its ten."""
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    result = run_cell(setup, adls(), 0)
    digits = load("digits").train.pixels
    flat = (result.drawing.pixels.flatten(1).double(), digits.flatten(1).double())
    distances, indices = torch.cdist(*flat).topk(10, largest=False)
    found = result.neighbours["pixel"].samples
    torch.testing.assert_close(found.distances.double(), distances, rtol=1e-4, atol=0)
    shown = setup.neighbourhood.panel(result.drawing.pixels, result.neighbours)
    nearest = int(distances[:, 0].argmin())
    assert torch.equal(shown[0, 0], result.drawing.pixels[nearest])
    assert torch.equal(shown[0, 1], digits[indices[nearest, 0]])
    assert shown.shape == (8, 11, 1, 8, 8)


def test_without_the_dataset_neighbours_are_found_by_features(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise UserError(f"dataset {name}: not here")

    monkeypatch.setattr(data, "load", missing)
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    result = run_cell(setup, adls(), 0)
    assert set(result.neighbours) == {"feature"}
    assert result.metrics["nn_feature_searched"] == 1  # a bundle of digits has all of them
    shown = setup.neighbourhood.panel(result.drawing.pixels, result.neighbours)
    assert shown.shape == (1, 8, 1, 8, 8)


def test_a_part_of_the_training_images_gives_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shipped bundle of Kuzushiji-MNIST carries, on a machine without the dataset and
    without the codes of all its training images."""
    monkeypatch.setenv("ABLATE_DATA", str(tmp_path))
    monkeypatch.setattr("ablate.metrics.image_codes.ZOO", tmp_path)
    text = TEXT.format(method="grid", trials=4).replace("tiny.safetensors", "kmnist")
    setup = prepare(
        parse(text.replace("samples = 40", "samples = 8"), "t", "quick"), Workspace(tmp_path)
    )
    result = run_cell(setup, adls(levels=3), 0)
    near = {name for name in result.metrics if name.startswith("nn_")}
    assert near == {f"nn_feature_{name}" for name in (*PLAIN, "distance.error")}
    assert result.metrics["nn_feature_searched"] == 5000 / 8000
    (space,) = setup.neighbourhood.spaces
    assert space.protocol()["share searched"] == "0.625"


def test_baselines_are_measured_like_trials(tiny_bundle: Path, tmp_path: Path) -> None:
    found = baselines(setup_of(make_root(tmp_path, tiny_bundle)))
    assert set(found) == {"held-out images", "class-gaussian without network"}
    real, fitted = found.values()
    assert real["kid"] < fitted["kid"]
    assert {"fid", "kid", "recall", "fid.interval", "kid.interval"} < set(real)


def test_baselines_with_few_images_or_another_reference(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle)
    text = TEXT.format(method="grid", trials=4)
    many = prepare(
        parse(text.replace("samples = 40", "samples = 400"), "t", "quick"), Workspace(root)
    )
    assert "held-out images - only 359" in baselines(many)
    other = text.replace("seeds = [0, 1]", 'seeds = [0, 1]\nreference = "test"')
    assert "training images" in baselines(prepare(parse(other, "t", "quick"), Workspace(root)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sigma = 0.8", "sigma = 3.5", r"trained for noise levels 0.002 to 3.0.* to 3\.5 "),
        ("levels = 6", "levels = 6\ns_min = 0.001", r"ask for 0\.001 to 0\.8"),
        ('"lognormal"', '"lognormal-paper"', "the paper has no fit for digits"),
        ("tiny.safetensors", "mnist-of-mars", "bundle 'mnist-of-mars' is neither known"),
    ],
)
def test_surroundings_are_checked_before_work(
    old: str, new: str, words: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle)
    text = TEXT.format(method="grid", trials=4).replace(old, new)
    with pytest.raises(UserError, match=words):
        prepare(parse(text, "tiny", "quick"), Workspace(root))


def test_a_conditional_network_gets_the_classes_of_the_starts(bundle: bundles.Bundle) -> None:
    """Sample i has the class of its class-average start, one of 10, for any initialisation."""
    received: list[torch.Tensor] = []

    class Listening(torch.nn.Module):
        def forward(self, y: torch.Tensor, s: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            received.append(labels)
            return y

    net = bundle.card.recipe.net.model_copy(update={"classes": 10})
    recipe = bundle.card.recipe.model_copy(update={"net": net})
    card = bundle.card.model_copy(update={"recipe": recipe})
    settings = adls(init="class-average", sampler="pf-heun")
    listening: Any = Listening()
    drawn(bundle._replace(card=card, model=listening), settings, BATCH, seed=3)
    u, z = start_numbers(3, range(BATCH), 64)
    start = class_average(Source(bundle.moments), 0.0, u, z)
    assert torch.equal(start, bundle.moments.class_averages[received[0]].log())
    assert len(received) == settings.nfe
    assert all(torch.equal(labels, received[0]) for labels in received)


def test_forward_data_starts_from_training_images(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle)
    text = TEXT.format(method="grid", trials=4).replace('"lognormal"', '"forward-data"')
    setup = prepare(parse(text, "tiny", "quick"), Workspace(root))
    assert setup.source.images is not None
    assert setup.source.images.shape == (1438, 64)
