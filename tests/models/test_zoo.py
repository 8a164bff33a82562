"""Every shipped bundle: whole, small enough, and better than what needs no network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ablate.core.workspace import Workspace
from ablate.data.registry import DATASETS
from ablate.diffusion.inits import Source
from ablate.experiment.showcase import showcase
from ablate.generate.draw import draw
from ablate.generate.presets import few_step_settings
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models.bundle import read, read_card, shipped
from ablate.models.recipe import Recipe
from ablate.study.find import find
from ablate.study.find import read as read_study
from tests.support.beds import generator

ACCURACY = {"digits": 0.99, "mnist": 0.99, "fashion": 0.91, "kmnist": 0.95, "cifar10": 0.80}


@pytest.mark.parametrize("name", shipped())
def test_a_bundle_is_whole_and_small(name: str) -> None:
    path = shipped()[name]
    card = read_card(path)
    assert card.name == name
    large = name.endswith("-large")  # for final figures: beside the one for quick studies
    assert path.stat().st_size < (24_000_000 if large else 12_000_000)
    assert (card.s_min, card.s_max) == (0.002, 3.0)
    assert card.licence
    before = card.provenance.get("images_seen_before", 0)  # by the bundle it started from
    start = f" --from {name}" * bool(before)
    few = " --features 500" * name.endswith("-guide")  # it guides another and is not studied
    assert card.provenance["command"] == f"ablate train {name}{start}{few}"
    assert card.provenance["images_seen"] - before == card.recipe.steps * card.recipe.batch


@pytest.mark.parametrize("name", shipped())
def test_its_training_file_made_it(name: str) -> None:
    from ablate.training.pack import read_recipe

    recipe: Recipe = read_recipe(Workspace(Path()).find_toml(name, "train"))
    assert recipe == read_card(shipped()[name]).recipe


@pytest.mark.parametrize("name", shipped())
def test_its_features_come_from_a_good_classifier(name: str) -> None:
    card = read_card(shipped()[name])
    extractor = load_extractor(shipped_path(card.dataset))
    assert extractor.hash == card.extractor
    assert extractor.card["dataset_hash"] == card.dataset_hash
    assert extractor.card["accuracy"] > ACCURACY[card.dataset]
    assert tuple(extractor.card["net"]["widths"]) == DATASETS[card.dataset].classifier.widths


@pytest.mark.parametrize("name", shipped())
def test_seventeen_evaluations_beat_gaussians(name: str, tmp_path: Path) -> None:
    """KID of 128 samples, so far below that of class Gaussians that no error bar is needed: an
    eighth, where the spread of either over seeds is within a fifth of the larger."""
    settings = few_step_settings(10, (0.002, 3.0))
    shown = showcase(Workspace(tmp_path), name, settings, 128, 0, tmp_path / "p.png", "cpu")
    without = shown.baselines["class-gaussian without network"]["kid"]
    assert shown.metrics["kid"] < without / 8
    assert (tmp_path / "p.png").exists()


@pytest.mark.parametrize("name", sorted((set(shipped()) & set(DATASETS)) - {"digits"}))
def test_every_dataset_has_its_two_studies(name: str) -> None:
    for sampler in ("adls", "asams"):
        study = read_study(find(Workspace(Path()), f"{name}-{sampler}"), "quick")
        assert study.fixed["sampler"] == sampler
        assert study.bundle == name


def test_float16_weights_draw_the_same_images() -> None:
    """The weights before rounding lay anywhere within half a unit in the last place; such others
    draw, from the same noise, pixels that differ by a fifth or less of what their rounding to 256
    grey levels does, which is a quarter of a level in the mean."""
    bundle = read(shipped()["digits"])
    settings = few_step_settings(10, (0.002, 3.0))
    kept = draw(bundle.score_model, Source(bundle.moments), settings, 0, 128).pixels.int()
    source = generator(0)
    with torch.no_grad():
        for weight in bundle.model.net.parameters():
            last_place = weight.abs().clamp_min(2**-14).log2().floor().sub(10).exp2()
            weight.add_(last_place * (torch.rand(weight.shape, generator=source) - 0.5))
    moved = draw(bundle.score_model, Source(bundle.moments), settings, 0, 128).pixels.int()
    assert 0 < float((moved - kept).abs().double().mean()) < 0.25 / 5
