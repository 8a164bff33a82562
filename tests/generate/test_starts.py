"""Own knobs of starts, in settings, studies and commands, and the classes that networks get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

import ablate
from ablate.core.errors import UserError
from ablate.data import datasets
from ablate.data.datasets import Dataset
from ablate.diffusion.inits import pick
from ablate.experiment.image_sets import settings_of
from ablate.experiment.prepare import available, prepare
from ablate.generate.applicability import listens
from ablate.generate.draw import draw_batch
from ablate.generate.settings import Settings
from ablate.generate.source import make_source
from ablate.models import bundle as bundles
from ablate.models.score_model import ScoreModel
from ablate.samplers.noise import start_numbers
from ablate.study.resolve import parse
from tests.support.studies import TEXT, Workspace, make_root


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))


def flow(**knobs: object) -> Settings:
    return Settings.model_validate({"sampler": "pf-euler", "sigma": 0.8, "levels": 4, **knobs})


# --- classes ---


class Listening(torch.nn.Module):
    """A denoiser that keeps the first state it gets and every label."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[Tensor] = []
        self.labels: list[Tensor] = []

    def forward(self, y: Tensor, s: Tensor, labels: Tensor) -> Tensor:
        self.starts.append(y)
        self.labels.append(labels)
        return y


def heard(bundle: bundles.Bundle, settings: Settings) -> tuple[Tensor, Tensor]:
    """(starts, labels) of 64 samples that a network with ten classes gets."""
    listening: Any = Listening()
    score = ScoreModel(listening, bundle.moments, bundle.card.shape, classes=10)
    draw_batch(score, make_source(bundle, [settings.init]), settings, 3, range(64))
    assert all(torch.equal(each, listening.labels[0]) for each in listening.labels)
    return listening.starts[0].flatten(1), listening.labels[0]


def test_forward_data_has_the_labels_of_its_images(tiny_bundle: Path, digits: Dataset) -> None:
    """The image is found again from the start: next to no noise is added to it."""
    bundle = bundles.read(tiny_bundle)
    starts, labels = heard(bundle, flow(init="forward-data", sigma=0.003, s_min=0.002))
    images = (1 + digits.train.pixels.flatten(1) / 255).log()
    nearest = torch.cdist(starts, images).argmin(1)
    assert torch.equal(labels, digits.train.labels[nearest])


@pytest.mark.parametrize("init", ["class-average", "class-gaussian", "forward-data"])
def test_a_label_is_the_class_of_every_sample(init: str, tiny_bundle: Path) -> None:
    _, labels = heard(bundles.read(tiny_bundle), flow(init=init, label=7))
    assert labels.tolist() == [7] * 64


@pytest.mark.parametrize("init", ["lognormal", "gaussian", "class-average", "class-gaussian"])
def test_other_starts_keep_the_class_of_u(init: str, tiny_bundle: Path) -> None:
    _, labels = heard(bundles.read(tiny_bundle), flow(init=init))
    assert torch.equal(labels, pick(start_numbers(3, range(64), 64)[0], 10))


def test_a_mixture_has_classes_of_its_component(tiny_bundle: Path) -> None:
    bundle = bundles.read(tiny_bundle)
    assert bundle.mixture is not None
    _, labels = heard(bundle, flow(init="mixture"))
    parts = bundle.mixture.pick(start_numbers(3, range(64), 64)[0])
    assert float(bundle.mixture.classes[parts, labels].min()) > 0


# --- settings ---


def test_own_knobs_of_starts_have_defaults() -> None:
    assert flow(init="mixture").start_knobs == {"components": 10}
    assert flow(init="mixture", components=3).knobs()["components"] == 3
    assert flow(init="class-gaussian").start_knobs == {"label": None}
    assert "label" not in flow(init="class-gaussian").knobs()
    assert flow(init="class-gaussian", label=2).knobs()["label"] == 2
    assert flow(init="gaussian").start_knobs == {}


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"init": "gaussian", "label": 1}, "has no such knob, nor has init 'gaussian'"),
        ({"init": "class-gaussian", "components": 3}, "nor has init 'class-gaussian'"),
        ({"init": "mixture", "components": 0}, r"components = 0 is not a whole number in \[1,"),
        ({"init": "mixture", "components": 2.5}, "components = 2.5 is not a whole number"),
        ({"init": "class-average", "label": -1}, "label = -1 is not a whole number"),
        ({"init": "class-average", "label": "cat"}, "label = 'cat' is not a whole number"),
    ],
)
def test_own_knobs_of_starts_are_checked(knobs: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        flow(**knobs)


def test_own_knobs_apply_with_their_start_only() -> None:
    assert listens("label", {"sampler": "adls", "init": "class-gaussian"})
    assert not listens("label", {"sampler": "adls", "init": "mixture"})
    assert listens("components", {"sampler": "adls", "init": "mixture"})
    assert listens("components", {"sampler": "adls"})  # the start is not chosen yet


# --- studies, commands and notebooks ---

STUDY = TEXT.format(method="grid", trials=4)


def with_starts(starts: str) -> str:
    return STUDY.replace('init = ["class-average", "lognormal", "gaussian"]', starts)


def test_a_study_varies_own_knobs_of_starts() -> None:
    text = with_starts(
        'label = { low = 0, high = 2 }\ncomponents = [2, 5]\ninit = ["mixture", "class-average"]'
    )
    points = [
        {k: v for k, v in point.items() if k in ("init", "label", "components")}
        for point in parse(text, "s", "quick").grid()
    ]
    distinct = [point for i, point in enumerate(points) if point not in points[:i]]
    mixtures = [{"init": "mixture", "components": k} for k in (2, 5)]
    averages = [{"init": "class-average", "label": k} for k in (0, 1, 2)]
    assert distinct == [*mixtures, *averages]


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ('init = ["class-average"]\nlabel = [1, 12]', "label = 12: the classes are 0 to 9"),
        ('init = ["mixture"]\ncomponents = [1, 40]', "components = 40: 1438 training images"),
    ],
)
def test_a_study_checks_them_against_the_data(
    starts: str, words: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle)
    with pytest.raises(UserError, match=words):
        prepare(parse(with_starts(starts), "s", "quick"), Workspace(root))


def test_a_start_without_its_images_is_left_out(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a study has others. A mixture is drawn all the same if the bundle contains it."""

    def missing(name: str) -> Dataset:
        raise UserError(f"dataset {name}: not here")

    monkeypatch.setattr(datasets, "load", missing)
    root = Workspace(make_root(tmp_path, tiny_bundle))
    study = parse(with_starts('init = ["mixture", "forward-data", "gaussian"]'), "s", "quick")
    setup = prepare(study, root)
    assert setup.left_out
    assert setup.study.values("init") == ("mixture", "gaussian")
    bare = setup.bundle._replace(mixture=None)
    assert available(study, bare).values("init") == ("gaussian",)
    other = parse(with_starts('init = ["mixture"]\ncomponents = [3]'), "s", "quick")
    with pytest.raises(UserError, match="dataset digits: not here"):
        prepare(other, root)


def test_set_and_sample_take_them() -> None:
    card = bundles.read_card(bundles.shipped()["digits"])
    assert settings_of(card, ["label=3"]).start_knobs == {"label": 3}
    assert settings_of(card, ["init=mixture", "components=4"]).start_knobs == {"components": 4}
    one = ablate.sample("digits", label=3, samples=4, levels=4)
    assert one.knobs["label"] == 3
    mixed = ablate.sample("digits", init="mixture", components=4, samples=4, levels=4)
    assert mixed.knobs["components"] == 4
    with pytest.raises(UserError, match="label = 11: the classes are 0 to 9"):
        ablate.sample("digits", label=11, samples=4, levels=4)
