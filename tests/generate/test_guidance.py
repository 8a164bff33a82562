"""Guidance: off at weight 1 to the last bit, counted, and refused where there is no guide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.diffusion.inits import Source
from ablate.generate.draw import draw, draw_batch
from ablate.generate.guidance import check_guidance, load_guides, make_denoiser
from ablate.generate.plans import make_plan
from ablate.generate.settings import Settings
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle, build_model
from ablate.models.score_model import ScoreModel
from ablate.nets.config import Net
from ablate.samplers.registry import SAMPLERS
from tests.support.beds import normal

KNOBS = {"init": "class-gaussian", "sigma": 0.8, "levels": 6}


def settings_of(sampler: str = "pf-heun", **more: Any) -> Settings:
    return Settings.model_validate({"sampler": sampler, **KNOBS, **more})


@pytest.fixture(scope="module")
def conditional(tiny_bundle: Path) -> Bundle:
    """A bundle whose network knows ten classes, its output far from zero."""
    bundle = bundles.read(tiny_bundle)
    recipe = bundle.card.recipe.model_copy(update={"net": Net(widths=(8,), blocks=1, classes=10)})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = build_model(bundle.card.shape, recipe, bundle.moments).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    return bundle._replace(card=bundle.card.model_copy(update={"recipe": recipe}), model=model)


def drawn(bundle: Bundle, settings: Settings) -> Tensor:
    score = bundle.score_model._replace(guides={"weak": bundle.score_model})
    return draw_batch(score, Source(bundle.moments), settings, 5, range(4)).x


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_weight_one_is_no_guidance_to_the_last_bit(sampler: str, conditional: Bundle) -> None:
    """And another weight, or a scale of the score, changes the samples of every sampler."""
    plain = drawn(conditional, settings_of(sampler))
    assert torch.equal(drawn(conditional, settings_of(sampler, guidance=1.0)), plain)
    assert torch.equal(drawn(conditional, settings_of(sampler, score_scale=1.0)), plain)
    assert not torch.equal(drawn(conditional, settings_of(sampler, guidance=1.5)), plain)
    assert not torch.equal(drawn(conditional, settings_of(sampler, score_scale=0.99)), plain)


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0, 3.0])
def test_the_denoiser_is_extrapolated_from_its_guide(weight: float, conditional: Bundle) -> None:
    """D_guide + w (D - D_guide) for both kinds of guide; epsilon scaling is y + c (D - y).

    float32 rounds each of a few operations on numbers below 8 by 5e-7.
    """
    model, labels = conditional.model, torch.tensor([0, 3, 9])
    weak = bundles.build_model((1, 8, 8), conditional.card.recipe, conditional.moments).eval()
    other = ScoreModel(weak, conditional.moments, (1, 8, 8), 10)
    score = conditional.score_model._replace(guides={"weak": other})
    y, s = normal((3, 1, 8, 8), 2).float(), torch.full((3,), 0.5)
    with torch.no_grad():
        guides = {"unlabelled": model(y, s), "bundle:weak": weak(y, s, labels)}
        for guide, of_guide in guides.items():
            settings = settings_of(guidance=weight, guide=guide, score_scale=0.9)
            got = make_denoiser(score, settings, labels)(y, 0.5)
            both = of_guide + weight * (model(y, s, labels) - of_guide)
            expected = y + 0.9 * (both - y)
            torch.testing.assert_close(got, expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("sampler", ["pf-heun", "adls", "restart"])
def test_evaluations_of_both_networks_count(sampler: str, conditional: Bundle) -> None:
    """All of them without an interval; with one, two at the levels inside and one at the others."""
    source = Source(conditional.moments)

    def nfe(**more: Any) -> tuple[int, int]:
        settings = settings_of(sampler, **more)
        return draw(conditional.score_model, source, settings, 0, 2).nfe, settings.nfe

    plain, planned = nfe()
    assert plain == planned
    assert nfe(guidance=2.0) == (2 * plain, 2 * plain)
    counted, planned = nfe(guidance=2.0, guide_low=0.05, guide_high=0.3)
    assert plain < counted < planned == 2 * plain
    assert nfe(guidance=2.0, guide_low=5.0)[0] == plain


def test_the_interval_holds_its_upper_end(conditional: Bundle) -> None:
    """guide_low < s ≤ guide_high, by the labels that the network is called with."""
    settings = settings_of("pf-euler", guidance=2.0)
    levels = [level.s for level in make_plan(settings)]
    within = settings_of("pf-euler", guidance=2.0, guide_low=levels[3], guide_high=levels[1])
    assert [within.guided_at(s) for s in levels[:4]] == [False, True, True, False]


def test_cost_pays_for_the_guide_too() -> None:
    knobs = {k: v for k, v in KNOBS.items() if k != "levels"}
    plain = Settings.model_validate({"sampler": "pf-heun", "cost": 20, **knobs})
    guided = Settings.model_validate({"sampler": "pf-heun", "cost": 20, "guidance": 2, **knobs})
    assert plain.nfe in (19, 20)
    assert 18 <= guided.nfe <= 20
    assert guided.levels < plain.levels


def test_a_network_can_be_sampled_without_its_classes(conditional: Bundle) -> None:
    heard: list[Tensor | None] = []

    class Listening(torch.nn.Module):
        def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
            heard.append(labels)
            return y

    listening: Any = Listening()
    score = conditional.score_model._replace(model=listening)
    source = Source(conditional.moments)
    for init in ("class-gaussian", "gaussian", "lognormal"):
        draw(score, source, settings_of(**{"init": init, "label": "none"}), 0, 2)
    assert set(heard) == {None}
    draw(score, source, settings_of(label=3), 0, 2)
    assert heard[-1] is not None
    assert heard[-1].unique().tolist() == [3]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"guide_low": 0.1}, "guide_low = 0.1 has no meaning without guidance"),
        ({"guidance": 1.0, "guide": "unlabelled"}, "guide = unlabelled has no meaning without"),
        ({"guidance": 2.0, "guide": "weak"}, "must be 'unlabelled' or 'bundle:NAME'"),
        ({"guidance": 2.0, "guide": "bundle:"}, "must be 'unlabelled' or 'bundle:NAME'"),
        ({"guidance": 2.0, "guide_low": 0.5, "guide_high": 0.5}, "is not below guide_high"),
        ({"guidance": -1.0}, "greater than or equal to 0"),
        ({"guidance": float("nan")}, "finite"),
        ({"label": "some"}, "label = 'some' is not a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings_of(**knobs)


def test_a_guide_must_fit(conditional: Bundle, tiny_bundle: Path, tmp_path: Path) -> None:
    """A network without classes is no guide of its own, nor is one that is sampled without them;
    another bundle must be of the same images and noise levels, and must exist."""
    workspace = Workspace(tmp_path)
    plain = bundles.read(tiny_bundle)
    for bundle, more in ((plain, {}), (conditional, {"label": "none"})):
        with pytest.raises(UserError, match=r"cannot be its own guide"):
            check_guidance(settings_of(guidance=2.0, **more), bundle, {})
    settings = settings_of(guidance=2.0, guide=f"bundle:{tiny_bundle}")
    guides = load_guides([settings, settings_of()], workspace)
    assert [guide.hash for guide in guides.values()] == [plain.hash]
    check_guidance(settings, conditional, guides)
    check_guidance(settings_of(guidance=2.0), conditional, {})

    def changed(**update: Any) -> dict[str, Bundle]:
        return {
            name: guide._replace(card=guide.card.model_copy(update=update))
            for name, guide in guides.items()
        }

    with pytest.raises(UserError, match="of mnist, not of digits"):
        check_guidance(settings, conditional, changed(dataset="mnist"))
    with pytest.raises(UserError, match="trained for noise levels"):
        check_guidance(settings, conditional, changed(s_max=0.5))
    with pytest.raises(UserError, match="neither known"):
        load_guides([settings_of(guidance=2.0, guide="bundle:nothing")], workspace)


def test_a_drawing_says_which_class_each_sample_was_told(conditional: Bundle) -> None:
    """Even over the classes, from (seed, i) alone; none where the network is told none."""
    score, source = conditional.score_model, Source(conditional.moments)
    whole = draw(score, source, settings_of(), 0, 130)
    assert whole.labels is not None
    assert whole.labels.shape == (130,)
    assert set(whole.labels.tolist()) == set(range(10))
    few = draw(score, source, settings_of(), 0, 7)
    assert few.labels is not None
    assert torch.equal(few.labels, whole.labels[:7])
    assert draw(score, source, settings_of(label="none"), 0, 2).labels is None
    assert settings_of().told(10) == "its start's class, 0 to 9"
    assert settings_of(label=3).told(10) == "class 3"
    assert settings_of(label="none").told(10) == "no class"
