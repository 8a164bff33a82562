"""The two parametrisations and their losses, held against an exact law; and every kind of net."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ablate.data.datasets import Dataset
from ablate.diffusion.losses import mdsm
from ablate.diffusion.oracles import log_normal
from ablate.models import bundle as bundles
from ablate.models.bundle import build_model
from ablate.models.objectives import PAPER_N
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.nets.precondition import AsInPaper, Preconditioned
from ablate.training.loop import train
from tests.support.beds import generator, normal

LAW = log_normal(torch.full((4,), 0.3).double(), torch.full((4,), 0.2).double())


class ExactStein(nn.Module):
    """F with x ∘ F = hyvarinen, of the law noised to one level."""

    def forward(self, x: Tensor, log_s: Tensor) -> Tensor:
        return LAW.stein(x.flatten(1), float(log_s[0].exp())).view_as(x)


def test_the_papers_parametrisation_is_the_denoiser_of_its_score() -> None:
    y = normal((5, 1, 2, 2), 0)
    s = torch.full((5,), 0.7, dtype=torch.float64)
    expected = LAW.denoised(y.flatten(1), 0.7).view_as(y)
    assert torch.allclose(AsInPaper(ExactStein())(y, s), expected, rtol=0, atol=1e-12)


def test_the_papers_loss_is_mdsm_without_weights() -> None:
    y_0, z = normal((6, 1, 2, 2), 1), normal((6, 1, 2, 2), 2)
    s = torch.full((6,), 0.4, dtype=torch.float64)
    y_t = y_0 + 0.4 * z
    by_hand = mdsm(LAW.hyvarinen(y_t.exp().flatten(1), 0.4), y_t.flatten(1), y_0.flatten(1), 0.4)
    assert torch.allclose(AsInPaper(ExactStein()).losses(y_0, s, z).mean(), by_hand)


def test_the_papers_levels_are_its_steps() -> None:
    recipe = Recipe(dataset="digits", steps=1, batch=100_000, objective="paper")
    s = recipe.noise_levels(generator(0)).double()
    k = PAPER_N * (s / 0.8) ** 2
    assert torch.allclose(k, k.round(), atol=1e-3)  # float32 levels: 1e-7 of 1,000 and its square
    assert (int(k.round().min()), int(k.round().max())) == (1, PAPER_N - 1)
    # uniform on 1..999: spread 288.4, standard error of the mean 0.91
    assert abs(float(k.mean()) - 500) < 4 * 288.4 / 100_000**0.5


@pytest.mark.parametrize("focus", [0.3, 0.8])
def test_a_focus_draws_levels_to_the_middle(focus: float) -> None:
    """v = u + focus sin(2πu) / 2π is monotone and has v(½) = ½. Between the quarters of u, v is
    ¼ + focus/2π and ¾ - focus/2π, and half of the levels lie there."""
    recipe = Recipe(dataset="digits", steps=1, batch=4000, focus=focus)
    s = recipe.noise_levels(generator(0)).double()
    v = (s / 0.002).log() / math.log(3 / 0.002)
    assert float(s.min()) >= 0.002 * (1 - 1e-6)
    assert float(s.max()) <= 3 * (1 + 1e-6)
    low, high = 0.25 + focus / (2 * math.pi), 0.75 - focus / (2 * math.pi)
    inside = int(((v > low) & (v < high)).sum())
    assert abs(inside - 2000) <= 2  # one level in each of 4,000 strata: only those at the edges
    at_middle = int(((v - 0.5).abs() < 0.01).sum()) / 4000 / 0.02
    # v - ½ = (1 - focus) h + focus (2π)² h³/6 at u = ½ + h: the density's mean over ±0.01 is
    # h/0.01 with h = 0.01/(1 - focus) less the cubic part, 16 % of it at focus 0.8
    assert at_middle == pytest.approx(1 / (1 - focus), rel=0.2)


def test_without_a_focus_levels_are_log_uniform() -> None:
    recipe = Recipe(dataset="digits", steps=1, batch=4000)
    v = (recipe.noise_levels(generator(0)).double() / 0.002).log() / math.log(3 / 0.002)
    assert float((v.sort().values - (torch.arange(4000) + 0.5) / 4000).abs().max()) < 0.5001 / 4000


def test_levels_of_the_paper_are_those_it_draws() -> None:
    paper = Recipe(dataset="digits", steps=1, batch=100_000, objective="paper")
    s = paper.noise_levels(generator(0))
    assert paper.noise_range() == pytest.approx((float(s.min()), float(s.max())), rel=1e-6)
    assert Recipe(dataset="digits", steps=1, s_min=0.1, s_max=2.0).noise_range() == (0.1, 2.0)


def kinds() -> list[Net]:
    small = {"widths": (8, 16), "blocks": 1, "width": 16}
    return [Net(kind=kind, **small) for kind in ("compact", "ncsn-deeper", "ddpm++")]


@pytest.mark.parametrize("objective", ["preconditioned", "paper"])
@pytest.mark.parametrize("net", kinds(), ids=lambda net: net.kind)
def test_every_kind_of_network_goes_through_a_bundle(
    net: Net, objective: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    old = bundles.read(tiny_bundle)
    recipe = Recipe(dataset="digits", steps=1, net=net, rank=64, objective=objective)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(old.card.shape, recipe, old.moments)
    assert isinstance(model, AsInPaper if objective == "paper" else Preconditioned)
    card = old.card.model_copy(update={"recipe": recipe})
    bundles.write(tmp_path / "b.safetensors", card, model, old.moments, old.features)
    again = bundles.read(tmp_path / "b.safetensors")
    assert again.card.recipe == recipe
    y, s = normal((3, 1, 8, 8), 3).float(), torch.full((3,), 0.5)
    with torch.no_grad():
        # weights are kept in float16: relative 5e-4 each, over some tens of layers
        before, after = model.eval()(y, s), again.model(y, s)
        assert torch.allclose(before, after, rtol=0.02, atol=0.02 * float(before.abs().max()))
        loss = again.model.losses(y, s, normal((3, 1, 8, 8), 4).float()).mean()
    assert bool(loss.isfinite())


@pytest.mark.parametrize("objective", ["preconditioned", "class-preconditioned", "paper"])
def test_objectives_learn(objective: str, digits: Dataset, tmp_path: Path) -> None:
    """After a few steps D is nearer to y_0 than y is: its error at s = 0.4 is below s²."""
    net = Net(widths=(16,), blocks=1, classes=10 if objective == "class-preconditioned" else 0)
    sizes = {"steps": 100, "batch": 64, "rank": 64, "rate": 5e-3, "warmup": 10}
    recipe = Recipe(dataset="digits", objective=objective, net=net, **sizes)
    error = train(recipe, digits, tmp_path / "c.pt").heldout_error[0.4]
    assert error < 0.4**2


def test_class_gaussians_need_a_network_with_classes() -> None:
    with pytest.raises(ValueError, match=r"class-preconditioned needs net\.classes above 0"):
        Recipe(dataset="digits", steps=1, objective="class-preconditioned")
