"""The power-function average against its closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ablate.core.errors import UserError
from ablate.training.ema import (
    TRACKED,
    PowerEMA,
    Snapshots,
    coefficients,
    gamma_of,
    length_of,
    profile,
)
from tests.support.beds import normal

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
def test_average_has_power_function_weights(gamma: float) -> None:
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
def test_width_is_karrass(gamma: float, width: float) -> None:
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


def test_constant_weights_are_a_fixed_point() -> None:
    """Whatever was there before: the first update takes the weights as they are."""
    model = Weights()
    ema = PowerEMA(model, 7.0)
    held = model.put(5)
    for step in range(1, 30):
        ema.update(model, step)
        assert all(torch.equal(ema.weights[name], held[name]) for name in held)


def test_average_is_a_copy_and_leaves_the_model_alone() -> None:
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


def test_loaded_average_continues_bit_for_bit() -> None:
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


# --- a length chosen after training -------------------------------------------------------------


def test_length_and_gamma_are_inverse() -> None:
    """Karras et al. 2024: 5 % is gamma = 16.97, 10 % is 6.94."""
    for gamma in (0.2, 1.0, 6.94, 16.97, 300.0):
        assert gamma_of(length_of(gamma)) == pytest.approx(gamma, rel=1e-9)
    assert gamma_of(0.05) == pytest.approx(16.97, abs=0.005)
    assert gamma_of(0.10) == pytest.approx(6.94, abs=0.005)
    for wrong in (0.0, -0.1, 0.29):
        with pytest.raises(UserError, match="ema-length"):
            gamma_of(wrong)


def test_profile_is_what_the_average_does() -> None:
    """Fed one 1 among zeros, the average after step 30 of 40 gives that step's share."""
    shares = profile(7.0, 30, STEPS)
    assert float(shares.sum()) == pytest.approx(1, rel=1e-12)
    for one in (1, 2, 17, 30, 31, 40):
        model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(1, dtype=torch.float64))})
        ema = PowerEMA(model, 7.0)
        for step in range(1, 31):
            model["w"].data = torch.tensor([float(step == one)], dtype=torch.float64)
            ema.update(model, step)
        assert float(ema.weights["w"]) == pytest.approx(float(shares[one - 1]), rel=1e-9, abs=1e-15)


def tracked(count: int, gamma: float) -> tuple[Snapshots, PowerEMA, Tensor]:
    """A random walk of weights; its snapshots, the average tracked directly, and the walk."""
    model = Weights()
    snapshots, direct = Snapshots(model, STEPS, count), PowerEMA(model, gamma)
    walk = normal((STEPS, 3, 2), 5).cumsum(0)
    for step in range(1, STEPS + 1):
        model.load_state_dict({"first": walk[step - 1], "second": normal((4,), step)})
        direct.update(model, step)
        snapshots.update(model, step)
    return snapshots, direct, walk


@pytest.mark.parametrize("gamma", TRACKED)
def test_the_tracked_lengths_come_back_exactly(gamma: float) -> None:
    """Their profile is one of the basis: one coefficient is 1, the others 0. float64."""
    snapshots, direct, _ = tracked(8, gamma)
    average = snapshots.average(length_of(gamma))
    for name, value in direct.weights.items():
        torch.testing.assert_close(average[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [0.05, 0.07, 0.10, 0.15, 0.20])
def test_a_chosen_length_is_the_average_tracked_directly(length: float) -> None:
    """With a snapshot of both at every step the profile is in their span: equal to rounding. With
    8, off by at most Σ|difference of profiles| times the largest weight; that sum is below a tenth
    (0.08 at the longest, 0 at 5 and 10 %, where two profiles alike would give 0 and apart 2)."""
    gamma = gamma_of(length)
    snapshots, direct, walk = tracked(STEPS, gamma)
    every = snapshots.average(length)["first"]
    torch.testing.assert_close(every, direct.weights["first"], rtol=1e-8, atol=1e-8)
    snapshots, direct, walk = tracked(8, gamma)
    taken = [(one.gamma, one.step) for one in snapshots.taken]
    x = coefficients(taken, gamma, STEPS)
    assert float(x.sum()) == pytest.approx(1, rel=1e-12)
    made = sum(a * profile(*one, STEPS) for a, one in zip(x, taken, strict=True))
    off = float((made - profile(gamma, STEPS, STEPS)).abs().sum())
    difference = snapshots.average(length)["first"] - direct.weights["first"]
    assert float(difference.abs().max()) <= off * float(walk.abs().max()) + 1e-12
    assert off < 0.1, off


def test_snapshots_are_taken_at_even_shares_up_to_the_last_step() -> None:
    for steps, count, expected in [(40, 8, range(5, 41, 5)), (7, 3, [3, 5, 7]), (2, 8, [1, 2])]:
        assert sorted(Snapshots(Weights(), steps, count).due) == list(expected)
    none = Snapshots(Weights(), 40, 0)
    none.update(Weights(), 1)
    assert none.state() == {"averages": [], "taken": []}


def test_loaded_snapshots_continue_bit_for_bit() -> None:
    through, _, walk = tracked(8, 7.0)
    model = Weights()
    snapshots = Snapshots(model, STEPS, 8)
    for step in range(1, STEPS + 1):
        model.load_state_dict({"first": walk[step - 1], "second": normal((4,), step)})
        snapshots.update(model, step)
        if step == 17:
            saved = snapshots.state()
            snapshots = Snapshots(Weights(), STEPS, 8)
            snapshots.load(saved)
    again, before = snapshots.average(0.15), through.average(0.15)
    assert all(torch.equal(again[name], before[name]) for name in again)
