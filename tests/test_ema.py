"""The power-function average against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ablate.ema import PowerEMA
from tests.beds import normal

STEPS = 40


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.full((3, 2), 99.0, dtype=torch.float64))
        self.second = nn.Parameter(torch.full((4,), -99.0, dtype=torch.float64))

    def put(self, step: int) -> dict[str, Tensor]:
        """New weights, as a step of training would leave them."""
        new = {"first": normal((3, 2), step), "second": normal((4,), 1000 + step)}
        self.load_state_dict(new)
        return new


def averaged(gamma: float) -> tuple[PowerEMA, list[dict[str, Tensor]]]:
    model = Weights()
    ema = PowerEMA(model, gamma)
    history = []
    for step in range(1, STEPS + 1):
        history.append(model.put(step))
        ema.update(model, step)
    return ema, history


@pytest.mark.parametrize("gamma", [1.0, 7.0, 16.0])
def test_average_has_power_function_weights(gamma):
    """Σ_τ w_τ θ_τ with w_τ = (τ^(γ+1) - (τ-1)^(γ+1)) / t^(γ+1): γ+1 times the integral of u^γ.

    From keep_t = ((t-1)/t)^(γ+1) the product over τ+1..t telescopes to (τ/t)^(γ+1). The weights
    before the first step (99) have none of it. float64: 40 roundings.
    """
    ema, history = averaged(gamma)
    step = torch.arange(1, STEPS + 1, dtype=torch.float64)
    share = (step ** (gamma + 1) - (step - 1) ** (gamma + 1)) / STEPS ** (gamma + 1)
    assert float(share.sum()) == pytest.approx(1, rel=1e-12)
    for name, value in ema.weights.items():
        stacked = torch.stack([weights[name] for weights in history])
        expected = torch.einsum("t,t...->...", share, stacked)
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("gamma", "width"), [(16.97, 0.05), (6.94, 0.10)])
def test_width_is_karrass(gamma, width):
    """Standard deviation of the profile as a share of the run: √((γ+1)/((γ+2)²(γ+3))).

    Karras et al. 2024: 16.97 and 6.94 have 5 % and 10 %. Measured here by what the average of
    weights θ_τ = τ and θ_τ = τ² gives; steps of 1/4,000 and the rounded γ leave 1e-3.
    """
    count = 4000
    model = nn.ParameterDict({"t": nn.Parameter(torch.zeros(2, dtype=torch.float64))})
    ema = PowerEMA(model, gamma)
    for step in range(1, count + 1):
        t = step / count
        model["t"].data = torch.tensor([t, t**2], dtype=torch.float64)
        ema.update(model, step)
    first, second = ema.weights["t"].tolist()
    assert (second - first**2) ** 0.5 == pytest.approx(width, rel=2e-3)


def test_constant_weights_are_a_fixed_point():
    """Whatever was there before: the first update takes the weights as they are."""
    model = Weights()
    ema = PowerEMA(model, 7.0)
    held = model.put(5)
    for step in range(1, 30):
        ema.update(model, step)
        assert all(torch.equal(ema.weights[name], held[name]) for name in held)


def test_average_is_a_copy_and_leaves_the_model_alone():
    ema, history = averaged(7.0)
    model = Weights()
    late = PowerEMA(model, 7.0)
    model.put(1)
    assert float(late.weights["first"][0, 0]) == 99.0
    late.load(ema.weights)
    model.put(3)
    late.update(model, STEPS + 1)
    assert torch.equal(model.first.detach(), history[2]["first"])
    assert not torch.equal(late.weights["first"], ema.weights["first"])


def test_loaded_average_continues_bit_for_bit():
    through, history = averaged(7.0)
    model = Weights()
    ema = PowerEMA(model, 7.0)
    for step in range(1, STEPS + 1):
        model.load_state_dict(history[step - 1])
        ema.update(model, step)
        if step == 17:
            saved = {name: value.clone() for name, value in ema.weights.items()}
            ema = PowerEMA(Weights(), 7.0)
            ema.load(saved)
    assert all(torch.equal(ema.weights[name], through.weights[name]) for name in ema.weights)
