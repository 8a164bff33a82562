"""Muon and AdamW: the orthogonal update, the published rule, and who gets which."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor, nn

from ablate.models.recipe import Recipe
from ablate.nets.compact import Compact
from ablate.training.optimiser import MUON_SHARE, MuonAdamW, make_optimiser, orthogonalised
from tests.support.beds import normal

# Conv kernels as matrices: wide, tall, nearly square, one row, one column.
SHAPES = [(16, 144), (64, 24), (24, 32), (1, 40), (40, 1)]
BAND = (0.68, 1.21)


def quintic(x: Tensor, steps: int = 5) -> Tensor:
    """Jordan's polynomial on numbers: what Newton-Schulz does to each singular value."""
    for _ in range(steps):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return x


def test_the_polynomial_ends_in_its_band() -> None:
    """Its coefficients trade convergence to 1 for fast growth: 3.4445 a step near zero.

    Five steps bring all of [0.0015, 1] into [0.68, 1.21] and never leave it: 3.4445⁵ = 485, and
    485 × 0.0015 = 0.73, less what the cubic term takes.
    """
    after = quintic(torch.logspace(-2.82, 0, 200_001, dtype=torch.float64))
    assert BAND[0] < float(after.min())
    assert float(after.max()) < BAND[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalised_maps_singular_values_and_keeps_the_directions(
    shape: tuple[int, int],
) -> None:
    """A polynomial odd in M acts on the singular values of M/‖M‖ alone: U p(S) Vᵀ, exactly.

    In float64 rounding is some 1e-15 a step, and the polynomial's slope below 3.45⁵ = 485.
    """
    matrix = normal(shape, 1)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    expected = (u * quintic(values / values.norm())) @ v
    # the 1e-7 that keeps a zero matrix finite moves M/‖M‖ by 1e-7/‖M‖ of itself
    tolerance = 485 * 1e-7 / float(values.norm())
    torch.testing.assert_close(orthogonalised(matrix), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
def test_orthogonalised_has_singular_values_near_one(shape: tuple[int, int], size: float) -> None:
    """Whatever the gradient's size, as none of these has a singular value below 0.0015 ‖M‖.

    float32 and the 1e-7 that keeps zero finite add less than 1e-3 to the band.
    """
    matrix = size * normal(shape, 2)
    values = torch.linalg.svdvals(matrix)
    assert float(values.min() / values.norm()) > 0.002
    after = torch.linalg.svdvals(orthogonalised(matrix.float()).double())
    assert BAND[0] - 1e-3 < float(after.min())
    assert float(after.max()) < BAND[1] + 1e-3


def test_orthogonalised_leaves_zero_at_zero() -> None:
    """The gradient of a weight behind a zeroed layer: no direction, so no step, and no NaN."""
    assert torch.equal(orthogonalised(torch.zeros(4, 6)), torch.zeros(4, 6))


@pytest.mark.parametrize("shape", [(16, 8, 3, 3), (8, 32, 1, 1), (64, 4, 3, 3)])
def test_muon_steps_are_of_adamws_size(shape: tuple[int, ...]) -> None:
    """An orthogonal m×n matrix has root mean square 1/√max(m, n); scaled, every step has 0.2.

    Times the band of the singular values, [0.68, 1.21]. AdamW's is at most about 1.
    """
    weight = nn.Parameter(normal(shape, 3))
    before = weight.detach().clone()
    optimiser = MuonAdamW([weight], [], lr=0.01, weight_decay=0.0)
    weight.grad = normal(shape, 4)
    optimiser.step()
    size = float((weight.detach() - before).square().mean().sqrt()) / 0.01
    assert BAND[0] * MUON_SHARE < size < BAND[1] * MUON_SHARE


def test_muon_is_nesterov_momentum_of_the_gradients() -> None:
    """m <- 0.95 m + 0.05 g; the step is along orthogonalised(0.05 g + 0.95 m), after decay."""
    weight = nn.Parameter(normal((6, 2, 3, 3), 5))
    expected, momentum = weight.detach().clone(), torch.zeros(6, 2, 3, 3).double()
    optimiser = MuonAdamW([weight], [], lr=0.02, weight_decay=0.1)
    for step in range(5):
        gradient = normal((6, 2, 3, 3), 10 + step)
        momentum = 0.95 * momentum + 0.05 * gradient
        direction = orthogonalised((0.05 * gradient + 0.95 * momentum).flatten(1))
        scale = MUON_SHARE * 18**0.5
        expected = expected * (1 - 0.02 * 0.1) - 0.02 * scale * direction.view(6, 2, 3, 3)
        weight.grad = gradient
        optimiser.step()
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-12, atol=1e-12)


def test_muon_goes_down_the_gradient() -> None:
    """<step, gradient> < 0 on the first step: the sum of positive singular values' products."""
    weight = nn.Parameter(torch.zeros(6, 2, 3, 3))
    weight.grad = normal((6, 2, 3, 3), 6).float()
    MuonAdamW([weight], [], lr=0.1, weight_decay=0.0).step()
    assert float((weight.detach() * weight.grad).sum()) < 0


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_half_is_torch_adamw(weight_decay: float) -> None:
    """20 steps, the rate changed on the way; float64, so equal but for the order of operations."""
    ours, theirs = (
        [nn.Parameter(normal((5, 3), 7)), nn.Parameter(normal((4,), 8))] for _ in range(2)
    )
    mine = MuonAdamW([], ours, lr=0.01, weight_decay=weight_decay)
    reference = torch.optim.AdamW(
        theirs, lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=weight_decay
    )
    for step in range(20):
        for optimiser, parameters in ((mine, ours), (reference, theirs)):
            for group in optimiser.param_groups:
                group["lr"] = 0.01 * (1 - step / 25)
            for index, parameter in enumerate(parameters):
                # gradients of very different sizes, some of them zero
                scale = 0.0 if step % 7 == 3 else 10.0 ** (step % 5 - 4)
                parameter.grad = scale * normal(tuple(parameter.shape), 100 * step + index)
            optimiser.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-12, atol=1e-12)


def net_of(seed: int = 0) -> Compact:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Compact(2, 1, (8, 16), blocks=1)


def recipe(rate: float, decay: float, optimiser: str = "muon") -> Recipe:
    fields = {"rate": rate, "weight_decay": decay, "optimiser": optimiser}
    return Recipe(dataset="digits", steps=1, **fields)


def test_adamw_alone_is_a_switch_of_the_recipe() -> None:
    net = net_of()
    optimiser = make_optimiser(net, recipe(1e-3, 0.1, "adamw"))
    muon, adamw = optimiser.param_groups
    assert muon["params"] == []
    assert [id(p) for p in adamw["params"]] == [id(p) for p in net.parameters()]
    assert (adamw["lr"], adamw["weight_decay"]) == (1e-3, 0.1)


def test_inner_convolutions_go_to_muon_and_the_rest_to_adamw() -> None:
    net = net_of()
    optimiser = make_optimiser(net, recipe(1e-3, 0.0))
    kinds = {id(p): group["kind"] for group in optimiser.param_groups for p in group["params"]}
    assert len(kinds) == sum(len(group["params"]) for group in optimiser.param_groups)
    by_name = {name: kinds.pop(id(p)) for name, p in net.named_parameters()}
    assert not kinds  # every parameter once, none that is not the network's
    muon = {name for name, kind in by_name.items() if kind == "muon"}
    convolutions = {name for name, p in net.named_parameters() if p.ndim == 4}
    assert muon == convolutions - {"stem.weight", "out.weight"}
    assert {"attention.out.weight", "shrink.0.weight", "bottom.0.conv_out.weight"} <= muon


def _work(net: Compact, optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        loss = ((net(normal((4, 2, 8, 8), step).float(), torch.zeros(4)) - 1) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def test_saved_state_continues_bit_for_bit() -> None:
    """Through torch.save and a reader that unpickles nothing, as checkpoints go."""
    through, first, second = net_of(), net_of(), net_of(seed=9)
    _work(through, make_optimiser(through, recipe(1e-2, 0.01)), range(8))

    optimiser = make_optimiser(first, recipe(1e-2, 0.01))
    _work(first, optimiser, range(4))
    file = io.BytesIO()
    torch.save({"net": first.state_dict(), "optimiser": optimiser.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)

    second.load_state_dict(state["net"])
    again = make_optimiser(second, recipe(1.0, 0.5))  # the saved rates must win
    again.load_state_dict(state["optimiser"])
    _work(second, again, range(4, 8))
    for (name, a), b in zip(through.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_weights_without_gradient_stay_where_they_are() -> None:
    used, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimiser = MuonAdamW([], [used, unused], lr=0.1, weight_decay=0.5)
    used.grad = torch.ones(3)
    optimiser.step()
    assert torch.equal(unused.detach(), torch.ones(3))
    assert not torch.equal(used.detach(), torch.ones(3))
