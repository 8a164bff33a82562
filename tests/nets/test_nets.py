"""The networks: shapes, their output before training, and the gradients of their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn

from ablate.diffusion.moments import Gaussian, fit_gaussian
from ablate.nets.blocks import Attention, LevelEmbedding
from ablate.nets.compact import Compact
from ablate.nets.precondition import AsInPaper, Preconditioned
from tests.support.beds import generator, normal

Network = TypeVar("Network", bound=nn.Module)


def seeded(make: Callable[[], Network], seed: int = 0) -> Network:
    """A module whose first weights come from `seed`; torch draws them from the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def perturbed(net: Network, seed: int = 1) -> Network:
    """As after training: no weight at its first value, none of the zeros left."""
    source = generator(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return net.eval()


def images(shape: tuple[int, ...], seed: int) -> Tensor:
    return normal(shape, seed).float()


def levels(count: int) -> Tensor:
    return torch.logspace(-2.5, 0.5, count)


def correlated(count: int, d: int, seed: int) -> Tensor:
    """Gaussian rows of unequal variances, none along an axis."""
    rows: Tensor = 0.3 + normal((count, d), seed) @ (normal((d, d), seed + 1) / d**0.5)
    return rows


# --- Compact ------------------------------------------------------------------------------------

SIZES: dict[str, tuple[int, tuple[int, int], dict[str, Any]]] = {
    "digits": (1, (8, 8), {"widths": (16, 24), "patch": 1}),
    "mnist": (1, (28, 28), {"widths": (16, 24), "patch": 2}),
    "cifar": (3, (32, 32), {"widths": (16, 24), "patch": 2}),
    "no halving": (1, (8, 8), {"widths": (12,), "patch": 1}),
    "odd": (1, (7, 5), {"widths": (16, 24), "patch": 1}),
    "odd twice": (2, (9, 11), {"widths": (8, 16, 24), "patch": 1}),
    "patch of 3": (1, (9, 15), {"widths": (8, 16), "patch": 3}),
    "seven channels": (1, (8, 8), {"widths": (7, 14), "patch": 1, "blocks": 2}),
    "no attention": (1, (8, 8), {"widths": (8, 16), "patch": 1, "attention": 0}),
    "attention everywhere": (1, (8, 8), {"widths": (8, 16, 24), "patch": 1, "attention": 3}),
}
every_size = pytest.mark.parametrize(("channels", "size", "net"), SIZES.values(), ids=SIZES.keys())


def test_attention_is_added_from_the_coarsest_resolution_on() -> None:
    """On the way down and up, but once at the bottom; one is the default, with the same weights."""

    def attending(count: int) -> dict[str, int]:
        net = seeded(lambda: Compact(1, 1, (8, 16, 24), attention=count))
        return {n: m.qkv.in_channels for n, m in net.named_modules() if isinstance(m, Attention)}

    assert attending(0) == {}
    assert attending(1) == {"attention": 24}
    two = {"attention": 24, "attention_down.1": 16, "attention_up.0": 16}
    assert attending(2) == two
    assert attending(3) == two | {"attention_down.0": 8, "attention_up.1": 8}
    default = seeded(lambda: Compact(1, 1, (8, 16)))
    weights = seeded(lambda: Compact(1, 1, (8, 16), attention=1)).state_dict()
    assert default.state_dict().keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in default.state_dict().items())


@every_size
def test_evaluation_in_place_changes_no_bits(
    channels: int, size: tuple[int, int], net: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gradients, intermediate results are overwritten, and nothing else."""
    compact = perturbed(of_size(channels, net)).to(memory_format=torch.channels_last)
    image = images((3, 2 * channels, *size), 2).contiguous(memory_format=torch.channels_last)
    before, log_s = image.clone(), levels(3).log()
    with torch.no_grad():
        in_place = compact(image, log_s)
        assert torch.equal(image, before)
        monkeypatch.setattr(torch, "is_grad_enabled", lambda: True)  # as `blocks` asks
        assert torch.equal(compact(image, log_s), in_place)
        monkeypatch.undo()


def of_size(channels: int, net: dict[str, Any]) -> Compact:
    return seeded(lambda: Compact(2 * channels, channels, **({"blocks": 1} | net)))


@every_size
def test_compact_gives_an_image_of_the_same_size(
    channels: int, size: tuple[int, int], net: dict[str, Any]
) -> None:
    compact = perturbed(of_size(channels, net))
    out = compact(images((3, 2 * channels, *size), 1), levels(3).log()).detach()
    assert out.shape == (3, channels, *size)
    assert bool(out.isfinite().all())
    assert float(out.std()) > 1e-3


@every_size
def test_compact_starts_at_zero(channels: int, size: tuple[int, int], net: dict[str, Any]) -> None:
    compact = of_size(channels, net)
    out = compact(images((3, 2 * channels, *size), 1), levels(3).log())
    assert torch.equal(out, torch.zeros(3, channels, *size))


def test_every_output_pixel_sees_every_input_pixel() -> None:
    """The attention at the bottom joins all pixels, whatever the number of convolutions."""
    compact = perturbed(seeded(lambda: Compact(1, 1, (8, 16), blocks=1))).double()
    image = normal((1, 1, 16, 16), 2).requires_grad_()
    corner = compact(image, torch.zeros(1).double())[0, 0, 0, 0]
    assert bool((torch.autograd.grad(corner, image)[0] != 0).all())


def test_the_noise_level_changes_the_output() -> None:
    """For one and the same image, and between neighbouring levels too."""
    compact = perturbed(seeded(lambda: Compact(1, 1, (16, 24), blocks=1)))
    s = levels(30)
    out = compact(images((1, 1, 8, 8), 3).expand(30, -1, -1, -1), s.log())
    out = out.detach().flatten(1)
    steps = (out[1:] - out[:-1]).square().mean(1).sqrt()
    assert float(steps.min()) > 1e-3 * float(out.std())  # rounding is some 1e-6


def test_level_embedding_is_injective_over_the_range() -> None:
    """1 % apart in s is apart by far more than rounding, everywhere in [0.002, 3]."""
    embedding = seeded(lambda: LevelEmbedding(32))
    s = torch.logspace(-2.7, 0.48, 200)
    with torch.no_grad():
        apart = (embedding((1.01 * s).log()) - embedding(s.log())).norm(dim=1)
    assert float(apart.min()) > 1e-3


def test_gradients_reach_every_weight_by_the_third_step() -> None:
    """Zeroed layers hold the gradient back for two steps, and no more.

    At the start only the last layer hears the loss; once it has moved, so do the ends of the
    residual branches (zeroed too) and all that lies on the path around them; then everything.
    The one exception: a bias of attention's keys adds the same to all logits of a query, which
    softmax does not see. In float64 its gradient is rounding, some 1e-17; the rest is 1e-9 or more.
    """
    net = seeded(lambda: Compact(2, 1, (16, 32), blocks=1)).double()
    image, target, log_s = normal((8, 2, 8, 8), 4), normal((8, 1, 8, 8), 5), levels(8).log()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3)

    def reached() -> set[str]:
        optimiser.zero_grad()
        ((net(image, log_s.double()) - target) ** 2).mean().backward()
        gradients = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
        optimiser.step()
        return {name for name, gradient in gradients.items() if float(gradient.abs().max()) > 1e-9}

    every = {name for name, _ in net.named_parameters()}
    assert reached() == {"out.weight", "out.bias"}
    inside = ("conv_in", "norm_in", "norm_mid", "film", "level.", "qkv", "attention.norm")
    held_back = {name for name in every if any(part in name for part in inside)}
    assert reached() == every - held_back
    assert reached() == every
    assert isinstance(net.attention, Attention)
    bias = net.attention.qkv.bias
    assert bias is not None
    assert bias.grad is not None
    queries, keys, values = bias.grad.chunk(3)
    assert float(keys.abs().max()) < 1e-13
    assert all(float(part.abs().max()) > 1e-9 for part in (queries, values))


def test_attention_is_its_formula() -> None:
    """h + W softmax(q·k/√head) v by hand, two heads; rounding in float64 is some 1e-15."""
    attention = perturbed(seeded(lambda: Attention(8, head=4))).double()
    h = normal((2, 8, 3, 5), 6)
    q, k, v = attention.qkv(attention.norm(h)).flatten(2).chunk(3, 1)  # [B, 8, 15]
    mixed = []
    for part in (slice(0, 4), slice(4, 8)):
        weights = torch.einsum("bcq,bck->bqk", q[:, part], k[:, part]).div(2).softmax(2)
        mixed.append(torch.einsum("bqk,bck->bcq", weights, v[:, part]))
    expected = h + attention.out(torch.cat(mixed, 1).view_as(h))
    torch.testing.assert_close(attention(h), expected, rtol=1e-12, atol=1e-12)


def test_dropout_is_off_in_evaluation() -> None:
    compact = perturbed(seeded(lambda: Compact(1, 1, (16,), blocks=1, dropout=0.5)))
    image, log_s = images((2, 1, 8, 8), 7), levels(2).log()
    assert torch.equal(compact(image, log_s), compact(image, log_s))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert not torch.equal(compact.train()(image, log_s), compact(image, log_s))


# --- Preconditioned -----------------------------------------------------------------------------


def model_of(gaussian: Gaussian, channels: int = 1, seed: int = 0) -> Preconditioned:
    net = seeded(lambda: Compact(2 * channels, channels, (16,), blocks=1), seed)
    return Preconditioned(net, gaussian).eval()


def dense(gaussian: Gaussian) -> Tensor:
    """The covariance written out, [d, d]."""
    projector = gaussian.basis.T @ gaussian.basis
    kept = gaussian.basis.T @ torch.diag(gaussian.variances) @ gaussian.basis
    return kept + gaussian.tail * (torch.eye(len(projector), dtype=projector.dtype) - projector)


@pytest.mark.parametrize("rank", [64, 20, 0])
def test_untrained_model_is_the_best_linear_denoiser(rank: int) -> None:
    """mean + C (C + s²)⁻¹ (y - mean), with the matrices written out and solved in float64.

    float32 keeps 6e-8 of numbers below 4; sums of 64 of them, twice over, stay below 1e-5.
    """
    gaussian = fit_gaussian(correlated(500, 64, 8), rank)
    s = levels(6)
    y = gaussian.mean + (1 + s.double()[:, None]) * normal((6, 64), 10)
    out = model_of(gaussian)(y.float().view(6, 1, 8, 8), s).flatten(1)
    covariance = dense(gaussian)
    for row, level, got in zip(y, s.double(), out, strict=True):
        noisy = covariance + level**2 * torch.eye(64, dtype=torch.float64)
        expected = gaussian.mean + covariance @ torch.linalg.solve(noisy, row - gaussian.mean)
        torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-5)


def test_rank_zero_is_the_scalar_form_of_edm() -> None:
    """c_skip = v/(v + s²) and c_out² = v s²/(v + s²), v the mean variance of a pixel.

    The last bits differ only by the order of float32 operations: 4 roundings of 6e-8.
    """
    y_0 = correlated(500, 64, 11)
    gaussian = fit_gaussian(y_0, 0)
    v = float(y_0.var(0).mean())
    assert gaussian.basis.shape == (0, 64)
    assert float(gaussian.tail) == pytest.approx(v, rel=1e-12)
    model, s = model_of(gaussian), levels(6)
    y = images((6, 1, 8, 8), 12)
    mean = gaussian.mean.float().view(1, 1, 8, 8)
    c_skip = (v / (v + s**2))[:, None, None, None]
    torch.testing.assert_close(model(y, s), mean + c_skip * (y - mean), rtol=4e-7, atol=4e-7)
    c_out_squared = (v * s**2 / (v + s**2))[:, None]
    torch.testing.assert_close(model.error_variance(s), c_out_squared, rtol=4e-7, atol=0)


@pytest.mark.parametrize("rank", [64, 20, 0])
def test_error_variance_is_the_linear_denoisers(rank: int) -> None:
    """tr(C - C (C + s²)⁻¹ C)/d with matrices written out; float32 against float64: 64 roundings."""
    gaussian = fit_gaussian(correlated(500, 64, 13), rank)
    covariance, eye = dense(gaussian), torch.eye(64, dtype=torch.float64)
    s = levels(6)
    expected = [
        (covariance - covariance @ torch.linalg.solve(covariance + x**2 * eye, covariance)).trace()
        for x in s.double()
    ]
    variance = model_of(gaussian).error_variance(s)
    assert variance.shape == (6, 1)
    torch.testing.assert_close(
        variance[:, 0].double(), torch.stack(expected) / 64, rtol=4e-6, atol=0
    )


class Spy(nn.Module):
    """A network whose output is 1, and which stores its inputs."""

    def forward(self, inputs: Tensor, log_s: Tensor) -> Tensor:
        self.inputs, self.log_s = inputs, log_s
        return torch.ones_like(inputs[:, :1])


def test_trained_model_adds_the_network_at_the_size_of_the_error() -> None:
    """D - D_lin = c_out F: with F = 1, exactly c_out; F sees [y, D_lin] and log s."""
    gaussian = fit_gaussian(correlated(500, 64, 14), 64)
    spy, s, y = Spy(), levels(6), images((6, 1, 8, 8), 15)
    model, linear = Preconditioned(spy, gaussian), model_of(gaussian)(y, s)
    c_out = model.error_variance(s).sqrt()[..., None, None]
    torch.testing.assert_close(model(y, s), linear + c_out)
    torch.testing.assert_close(spy.log_s, s.log())
    mean, v = gaussian.mean.float().view(1, 8, 8), gaussian.pixel_variance().float()
    noisy = (y - mean) / (v + s**2).sqrt()[:, None, None, None]
    torch.testing.assert_close(spy.inputs, torch.cat([noisy, (linear - mean) / v.sqrt()], 1))


@pytest.mark.parametrize("s", [0.01, 0.5, 3.0])
def test_the_network_is_asked_at_unit_size(s: float) -> None:
    """Noisy data of 2,000 × 64 values reach it with mean square 1.

    Over the data that were fitted the data's own part is exact but for 1/2,000 (variances have
    N - 1 in them). What is left is the noise's s² z², of variance 2 s⁴, and the cross term
    2 s (y_0 - mean) z, of variance 4 s² v: together below 4 (v + s²)² for each value.
    """
    y_0 = correlated(2000, 64, 16)
    spy = Spy()
    y = y_0 + s * normal((2000, 64), 18)
    Preconditioned(spy, fit_gaussian(y_0, 64))(y.float().view(-1, 1, 8, 8), torch.full((2000,), s))
    square = float(spy.inputs[:, :1].double().square().mean())
    assert abs(square - 1) < 4 * (4 / y.numel()) ** 0.5 + 1 / 2000


@pytest.mark.parametrize("size", [1, 5])
def test_a_sample_does_not_depend_on_its_batch(size: int) -> None:
    """The design's own bound, 1e-5: convolution kernels differ by batch, their sums by rounding."""
    gaussian = fit_gaussian(correlated(500, 64, 19), 64)
    model = model_of(gaussian)
    perturbed(model.net)
    y, s = images((20, 1, 8, 8), 20), levels(20)
    with torch.no_grad():
        together = model(y, s)
        parts = zip(y.split(size), s.split(size), strict=True)
        apart = torch.cat([model(*part) for part in parts])
    linear = gaussian.to(torch.float32).wiener(y.flatten(1), s[:, None]).view_as(y)
    assert float((together - linear).abs().max()) > 0.01  # the network contributes
    torch.testing.assert_close(apart, together, rtol=0, atol=1e-5)


def test_the_moments_are_no_parameters() -> None:
    """They are the data's, not to be trained; but they move with the model."""
    model = model_of(fit_gaussian(correlated(500, 64, 21), 20))
    assert {name for name, _ in model.named_parameters() if not name.startswith("net.")} == set()
    moved = model.to(torch.float64).gaussian
    assert {part.dtype for part in moved} == {torch.float64}


def test_compact_conditioned_on_a_class() -> None:
    """Labels matter, None means the row beyond the last, and the rows are all there is more."""
    plain = seeded(lambda: Compact(2, 1, (8, 16), blocks=1))
    net = perturbed(seeded(lambda: Compact(2, 1, (8, 16), blocks=1, classes=3)))
    more = sum(p.numel() for p in net.parameters()) - sum(p.numel() for p in plain.parameters())
    assert more == 4 * 32  # the embedding has 4 times the first width
    image, log_s = images((2, 2, 8, 8), 0), torch.tensor([-1.0, 0.5])
    here = net(image, log_s, torch.tensor([0, 1]))
    assert (net(image, log_s, torch.tensor([0, 2])) - here)[0].abs().max() == 0
    assert (net(image, log_s, torch.tensor([0, 2])) - here)[1].abs().max() > 1e-4
    assert torch.equal(net(image, log_s), net(image, log_s, torch.tensor([3, 3])))
    with pytest.raises(ValueError, match="classes=0"):
        plain(image, log_s, torch.tensor([0, 1]))


def test_preconditioning_passes_labels_to_the_network() -> None:
    passed = []

    class Net(nn.Module):
        def forward(self, image: Tensor, log_s: Tensor, labels: Tensor) -> Tensor:
            passed.append(labels)
            return image[:, :1]

    gaussian, y, s = fit_gaussian(correlated(50, 16, 0), 4), images((2, 1, 4, 4), 1), levels(2)
    labels = torch.tensor([4, 7])
    Preconditioned(Net(), gaussian)(y, s, labels)
    AsInPaper(Net())(y, s, labels)
    assert all(torch.equal(each, labels) for each in passed)
    assert len(passed) == 2
