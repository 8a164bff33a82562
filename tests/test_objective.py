"""The two parametrisations and their losses, held against an exact law; and every kind of net."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from ablate import bundle as bundles
from ablate.bundle import build_model
from ablate.data import Dataset
from ablate.losses import mdsm
from ablate.nets.precondition import AsInPaper, Preconditioned
from ablate.objective import PAPER_N, denoising_loss, noise_levels
from ablate.oracles import log_normal
from ablate.recipe import Net, Recipe
from ablate.train import train
from tests.beds import generator, normal

LAW = log_normal(torch.full((4,), 0.3).double(), torch.full((4,), 0.2).double())


class ExactStein(nn.Module):
    """F with x ∘ F = hyvarinen, of the law noised to one level."""

    def forward(self, x: Tensor, log_s: Tensor) -> Tensor:
        return LAW.stein(x.flatten(1), float(log_s[0].exp())).view_as(x)


def test_the_papers_parametrisation_is_the_denoiser_of_its_score():
    y = normal((5, 1, 2, 2), 0)
    s = torch.full((5,), 0.7, dtype=torch.float64)
    expected = LAW.denoised(y.flatten(1), 0.7).view_as(y)
    assert torch.allclose(AsInPaper(ExactStein())(y, s), expected, rtol=0, atol=1e-12)


def test_the_papers_loss_is_mdsm_without_weights():
    y_0, z = normal((6, 1, 2, 2), 1), normal((6, 1, 2, 2), 2)
    s = torch.full((6,), 0.4, dtype=torch.float64)
    y_t = y_0 + 0.4 * z
    by_hand = mdsm(LAW.hyvarinen(y_t.exp().flatten(1), 0.4), y_t.flatten(1), y_0.flatten(1), 0.4)
    assert torch.allclose(denoising_loss(AsInPaper(ExactStein()), y_0, s, z), by_hand)


def test_the_papers_levels_are_its_steps():
    recipe = Recipe(dataset="digits", steps=1, batch=100_000, objective="paper")
    s = noise_levels(recipe, generator(0)).double()
    k = PAPER_N * (s / 0.8) ** 2
    assert torch.allclose(k, k.round(), atol=1e-3)  # float32 levels: 1e-7 of 1,000 and its square
    assert (k.round().min(), k.round().max()) == (1, PAPER_N - 1)
    # uniform on 1..999: spread 288.4, standard error of the mean 0.91
    assert abs(float(k.mean()) - 500) < 4 * 288.4 / 100_000**0.5


def kinds() -> list[Net]:
    small = {"widths": (8, 16), "blocks": 1, "width": 16}
    return [Net(kind=kind, **small) for kind in ("compact", "ncsn-deeper", "ddpm++")]


@pytest.mark.parametrize("objective", ["preconditioned", "paper"])
@pytest.mark.parametrize("net", kinds(), ids=lambda net: net.kind)
def test_every_kind_of_network_goes_through_a_bundle(
    net: Net, objective: str, tiny_bundle: Path, tmp_path: Path
):
    old = bundles.read(tiny_bundle)
    recipe = Recipe(dataset="digits", steps=1, net=net, rank=64, objective=objective)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(old.card.shape, recipe, old.moments.everything)
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
        loss = denoising_loss(again.model, y, s, normal((3, 1, 8, 8), 4).float())
    assert bool(loss.isfinite())


@pytest.mark.parametrize("objective", ["preconditioned", "paper"])
def test_both_objectives_learn(objective: str, digits: Dataset, tmp_path: Path):
    """After a few steps D is nearer to y_0 than y is: its error at s = 0.4 is below s²."""
    net = Net(widths=(16,), blocks=1)
    sizes = {"steps": 100, "batch": 64, "rank": 64, "rate": 5e-3, "warmup": 10}
    recipe = Recipe(dataset="digits", objective=objective, net=net, **sizes)
    error = train(recipe, digits, tmp_path / "c.pt").heldout_error[0.4]
    assert error < 0.4**2
