"""The two published networks: their size and structure as published, and that they can learn.

The published counts are worked out below from the layers the publications list, independently of
the code under test. For DDPM++ the sum is also stated: 61,804,419 parameters for the CIFAR-10
network of rectified flow (Lin et al. 2025, arXiv:2509.15591, appendix, "RF"), which is DDPM++
unchanged (Liu et al. 2023, arXiv:2209.03003, section 5.1).
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ablate.diffusion.moments import fit_gaussian
from ablate.diffusion.processes import GBM, VEGBM, Process
from ablate.nets.blocks import Attention
from ablate.nets.by_step import ByStep, log_level, step
from ablate.nets.ddpmpp import Block, DDPMpp, grown, halved
from ablate.nets.ncsn_deeper import ConvUnit, InstanceNorm, NCSNDeeper, Refine, Residual
from ablate.nets.precondition import Preconditioned
from tests.support.beds import generator

STATED_DDPMPP = 61_804_419
Kind = type[NCSNDeeper] | type[DDPMpp]
SIZE: dict[Kind, int] = {NCSNDeeper: 28, DDPMpp: 32}
NETS: list[Kind] = [NCSNDeeper, DDPMpp]
every_net = pytest.mark.parametrize("kind", NETS, ids=lambda kind: kind.__name__)


PublishedNet = TypeVar("PublishedNet", bound=NCSNDeeper | DDPMpp)


def small(kind: type[PublishedNet], channels: int = 1, **options: Any) -> PublishedNet:
    """Width 16, dropout off, and no layer at zero: as if training had begun."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = kind(channels, channels, width=16, **options)
        net.eval()
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d) and not layer.weight.any():
                nn.init.xavier_uniform_(layer.weight)
    return net


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=generator(seed))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def convolution(inputs: int, outputs: int, kernel: int = 3, bias: bool = True) -> int:
    return kernel**2 * inputs * outputs + bias * outputs


# ---- sizes


def published_ddpmpp(blocks: int, width: int = 128) -> int:
    """configs/vp/cifar10_ddpmpp_continuous.py: (1, 2, 2, 2) × 128 channels at 32, 16, 8 and 4
    pixels, BigGAN blocks, attention at 16 pixels, no pyramids, 128 sines of the time."""
    time, w, twice = 4 * width, width, 2 * width

    def block(i: int, o: int, resamples: bool = False) -> int:
        norms, offset = 2 * i + 2 * o, time * o + o
        skip = convolution(i, o, 1) if i != o or resamples else 0
        return norms + convolution(i, o) + offset + convolution(o, o) + skip

    attention = 2 * twice + 4 * convolution(twice, twice, 1)
    embedding = (width * time + time) + (time * time + time)
    ends = convolution(3, w) + 2 * w + convolution(w, 3)
    down = blocks * block(w, w) + block(w, twice) + (3 * blocks - 1) * block(twice, twice)
    down += block(w, w, True) + 2 * block(twice, twice, True) + blocks * attention
    bottom = 2 * block(twice, twice) + attention
    # what is concatenated: at 4 and 8 pixels always 256 channels, but for the last block at 16,
    # which meets the 128 of the halving, and the blocks at 32 pixels, which meet 128
    up = (3 * (blocks + 1) - 1) * block(2 * twice, twice) + block(twice + w, twice)
    up += block(twice + w, w) + blocks * block(2 * w, w)
    up += 3 * block(twice, twice, True) + attention
    return embedding + ends + down + bottom + up


def published_ncsn_deeper(w: int = 128) -> tuple[int, int]:
    """models/ncsn.py, NCSNdeeper, one image channel: (parameters of its convolutions, channels of
    its norms; the published tables hold three numbers for each of these and each step)."""

    def encoder(i: int, o: int, shortcut: int) -> tuple[int, int]:
        first = convolution(i, i) + convolution(i, o) + shortcut
        return first + 2 * convolution(o, o), 2 * i + 2 * o

    def refine(inputs: list[int], o: int, units: int) -> tuple[int, int]:
        adapt = sum(4 * convolution(i, i, bias=False) for i in inputs)
        fuse = sum(convolution(i, o) for i in inputs) if len(inputs) > 1 else 0
        rest = (2 + 2 * units) * convolution(o, o, bias=False)
        norms = 4 * sum(inputs) + (sum(inputs) if len(inputs) > 1 else 0) + (2 + 2 * units) * o
        return adapt + fuse + rest, norms

    parts = [
        (convolution(1, w) + convolution(w, 1), w),
        encoder(w, w, 0),
        encoder(w, 2 * w, convolution(w, 2 * w, 1)),
        encoder(2 * w, 2 * w, convolution(2 * w, 2 * w, 1)),
        encoder(2 * w, 4 * w, convolution(2 * w, 4 * w)),  # dilated: a 3×3 shortcut
        encoder(4 * w, 4 * w, convolution(4 * w, 4 * w)),
        refine([4 * w], 4 * w, 1),
        refine([4 * w, 4 * w], 2 * w, 1),
        refine([2 * w, 2 * w], 2 * w, 1),
        refine([2 * w, 2 * w], w, 1),
        refine([w, w], w, 3),
    ]
    convolutions, norms = (sum(column) for column in zip(*parts, strict=True))
    return convolutions, norms


def test_ddpmpp_has_the_published_size() -> None:
    """To the parameter: the level's embedding takes as many sines as the published one of time."""
    with torch.device("meta"):
        four, eight = DDPMpp(3, 3), DDPMpp(3, 3, blocks=8)
    assert parameters(four) == published_ddpmpp(4) == STATED_DDPMPP
    assert parameters(eight) == published_ddpmpp(8) == 106_632_579
    heads = {layer.head for layer in four.modules() if isinstance(layer, Attention)}
    groups = {layer.num_groups for layer in four.modules() if isinstance(layer, nn.GroupNorm)}
    assert (heads, groups) == ({256}, {32})  # published: a single head, 32 groups


def test_ncsn_deeper_has_the_published_size() -> None:
    """The convolutions to the parameter; of each norm's table a linear layer takes the place."""
    convolutions, norms = published_ncsn_deeper()
    with torch.device("meta"):
        net = NCSNDeeper(1, 1)
    layers = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    assert sum(map(parameters, layers)) == convolutions == 83_422_721
    films = [layer.film for layer in net.modules() if isinstance(layer, InstanceNorm)]
    assert sum(film.out_features for film in films) == 3 * norms
    conditioning = sum(map(parameters, films)) + parameters(net.conditioning)
    assert parameters(net) == convolutions + conditioning
    assert conditioning < 1000 * 3 * norms  # the published table of N = 1000 steps


@every_net
def test_classes_add_one_row_each_and_one_for_none(kind: Kind) -> None:
    with torch.device("meta"):
        last = kind(1, 1).conditioning.layers[-1]
        assert isinstance(last, nn.Linear)
        width = last.out_features
        assert parameters(kind(1, 1, classes=10)) - parameters(kind(1, 1)) == 11 * width


# ---- structure


def traced(net: nn.Module, channels: int, size: int) -> list[tuple[nn.Module, Tensor]]:
    """Every layer that ran, in order, with what came out of it."""
    seen: list[tuple[nn.Module, Tensor]] = []
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, Attention)):
            layer.register_forward_hook(lambda layer, _, out: seen.append((layer, out)))
    with torch.no_grad():
        net(normal(1, channels, size, size), torch.zeros(1))
    return seen


@pytest.mark.parametrize("blocks", [4, 8])
def test_ddpmpp_layers_at_each_resolution(blocks: int) -> None:
    seen = traced(small(DDPMpp, 3, blocks=blocks), 3, 32)
    convs = Counter(
        out.shape[-1]
        for layer, out in seen
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3)
    )
    each = 2 * blocks + 2 * (blocks + 1)  # two to a block; one block more on the way up
    # besides: stem, growing block and output at 32; a shrinking and a growing block at 16 and 8;
    # a shrinking block and the two of the bottom at 4
    assert convs == {32: each + 4, 16: each + 4, 8: each + 4, 4: each + 6}
    attended = Counter(out.shape[-1] for layer, out in seen if isinstance(layer, Attention))
    assert attended == {16: blocks + 1, 4: 1}


def test_ncsn_deeper_layers_at_each_resolution() -> None:
    net = small(NCSNDeeper)
    seen = [
        (layer, out.shape[-1]) for layer, out in traced(net, 1, 28) if isinstance(layer, nn.Conv2d)
    ]
    convs = Counter(size for layer, size in seen if layer.kernel_size == (3, 3))
    # a refine block: 4 to adapt and 1 to fuse for each of two inputs, 2 to pool, 2 (the last: 6)
    # behind; a stage: 4, and a dilated one 1 more for its shortcut
    assert convs == {
        28: 1 + 4 + 2 + (5 + 2 + 6) + 1,  # stem; stages 1, half of 2; refine 5; output
        14: 2 + 2 + (5 + 2 + 2) + 5,  # halves of stages 2 and 3; refine 4; what 5 gets from it
        7: 2 + 5 + 5 + 8 + 14 + 14 + 5,  # half of 3; stages 4, 5; refines 1 to 3; 4 gets
    }
    shortcuts = [size for layer, size in seen if layer.kernel_size == (1, 1)]
    assert shortcuts == [14, 7]
    dilations = [layer.dilation for layer, _ in seen if layer.dilation != (1, 1)]
    assert dilations == [(2, 2)] * 5 + [(4, 4)] * 5
    assert len(net.stages) == len(net.refines) == 5
    refines = [layer for layer in net.refines if isinstance(layer, Refine)]
    assert [len(refine.adapt) for refine in refines] == [1, 2, 2, 2, 2]


# ---- parts


def test_instance_norm_is_the_published_formula() -> None:
    norm = InstanceNorm(6, 5)
    h, embedding = 3 + 2 * normal(4, 6, 7, 7), normal(4, 5, seed=2)
    scale, alpha, shift = norm.film(embedding)[..., None, None].chunk(3, 1)
    means = h.mean((2, 3), keepdim=True)
    spread = (means.var(1, keepdim=True) + 1e-5).sqrt()
    plus = alpha * (means - means.mean(1, keepdim=True)) / spread
    expected = scale * (functional.instance_norm(h) + plus) + shift
    torch.testing.assert_close(norm(h, embedding), expected)


def test_instance_norm_starts_about_the_identity_at_every_level() -> None:
    """Scale and alpha near 1, shift 0; and they vary with the level."""
    net = small(NCSNDeeper)
    scale, alpha, shift = net.out_norm.film(
        net.conditioning(torch.linspace(-6, 1, 50), None)
    ).chunk(3, 1)
    for factor in (scale, alpha):
        assert (factor - 1).abs().max() < 0.1
        assert factor.std(0).min() > 0
    assert not shift.any()


def test_a_stage_is_entered_by_convolution_and_mean() -> None:
    """Published: convolve, then mean over 2×2, on both branches. A 1×1 one commutes with it."""
    block = Residual(3, 5, 4, enters=True)
    h, embedding = normal(2, 3, 8, 8), normal(2, 4, seed=2)
    inner = block.conv_in(functional.elu(block.norm_in(h, embedding)))
    inner = block.conv_out(functional.elu(block.norm_mid(inner, embedding)))
    both = inner + block.skip(h)
    expected = sum(both[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)) / 4
    torch.testing.assert_close(block(h, embedding), expected)


def test_refine_adapts_fuses_pools_and_convolves() -> None:
    """Published: two units to each input; norm, convolution and bilinear growth, summed; ELU and
    two chained links of norm, 5×5 mean and convolution; units behind."""
    refine = Refine([3, 4], 5, embedding=2, units=1)
    skip, coming, e = normal(2, 3, 7, 7), normal(2, 4, 4, 4, seed=2), normal(2, 2, seed=3)

    def unit(layers: nn.Module, h: Tensor) -> Tensor:
        assert isinstance(layers, ConvUnit)
        first = layers.convs[0](functional.elu(layers.norms[0](h, e)))
        out: Tensor = h + layers.convs[1](functional.elu(layers.norms[1](first, e)))
        return out

    parts = []
    for i, h in enumerate([skip, coming]):
        for layers in refine.adapt[i].children():
            h = unit(layers, h)
        h = refine.fuse_convs[i](refine.fuse_norms[i](h, e))
        parts.append(functional.interpolate(h, (7, 7), mode="bilinear", align_corners=True))
    start, pooling = functional.elu(parts[0] + parts[1]), refine.pooling
    mean = nn.AvgPool2d(5, stride=1, padding=2)
    one = pooling.convs[0](mean(pooling.norms[0](start, e)))
    two = pooling.convs[1](mean(pooling.norms[1](one, e)))
    expected = unit(refine.units[0], start + one + two)
    torch.testing.assert_close(refine([skip, coming], e), expected)


def test_halving_and_growing_odd_sizes() -> None:
    h = torch.arange(9.0).view(1, 1, 3, 3)
    torch.testing.assert_close(halved(h)[0, 0], torch.tensor([[2.0, 3.5], [6.5, 8.0]]))
    back = grown(halved(h), like=h)[0, 0]
    assert back.shape == (3, 3)
    torch.testing.assert_close(back[2], torch.tensor([6.5, 6.5, 8.0]))
    torch.testing.assert_close(halved(grown(h, like=normal(1, 1, 6, 6))), h)


def test_residual_branches_of_ddpmpp_start_at_zero() -> None:
    """A block starts as its skip over √2, which keeps the size of a sum of two equal branches."""
    block = Block(8, 8, 4, dropout=0.0, attends=True)
    h = normal(2, 8, 4, 4)
    torch.testing.assert_close(block(h, normal(2, 4, seed=2)), h / 2)  # block and attention
    net = DDPMpp(1, 1, width=16)
    assert not net(normal(2, 1, 8, 8), torch.zeros(2)).any()


def test_ncsn_deeper_starts_at_a_sensible_size() -> None:
    """Features grow by less than a factor of 3 a stage and the output is of the input's order."""
    net = small(NCSNDeeper)
    spreads: list[float] = []
    for stage in net.stages:
        *_, last = stage.children()
        last.register_forward_hook(lambda *args: spreads.append(float(args[2].std())))
    with torch.no_grad():
        out = net(normal(4, 1, 28, 28), torch.linspace(-5, 1, 4))
    assert all(1 / 3 < after / before < 3 for before, after in pairwise(spreads))
    assert 0.05 < out.std() < 2


# ---- behaviour


@every_net
@pytest.mark.parametrize("size", [28, 32, 13, 7])
def test_shape(kind: Kind, size: int) -> None:
    net = kind(2, 3, width=8)
    assert net(normal(2, 2, size, size), torch.zeros(2)).shape == (2, 3, size, size)


@every_net
def test_every_parameter_learns(kind: Kind) -> None:
    net = small(kind, classes=3)
    size = SIZE[kind]
    out = net(normal(3, 1, size, size), torch.tensor([-4.0, -1.0, 1.0]), torch.tensor([0, 1, 3]))
    (out * normal(*out.shape, seed=2)).sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@every_net
def test_levels_and_classes_matter(kind: Kind) -> None:
    net = small(kind, classes=3)
    image, s = normal(1, 1, 14, 14), torch.tensor([-1.0])
    here = net(image, s, torch.tensor([1]))
    assert (net(image, s + 1, torch.tensor([1])) - here).abs().max() > 1e-4
    assert (net(image, s, torch.tensor([2])) - here).abs().max() > 1e-4
    torch.testing.assert_close(net(image, s), net(image, s, torch.tensor([3])))
    assert (net(image, s) - here).abs().max() > 1e-4
    with pytest.raises(ValueError, match="classes=0"):
        small(kind)(image, s, torch.tensor([1]))


@every_net
def test_a_sample_does_not_depend_on_its_batch(kind: Kind) -> None:
    net = small(kind, classes=3)
    image, s, labels = normal(3, 1, 14, 14), torch.tensor([-4.0, -1.0, 1.0]), torch.arange(3)
    together = net(image, s, labels)
    alone = [net(image[i : i + 1], s[i : i + 1], labels[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(torch.cat(alone), together, atol=1e-5, rtol=1e-4)


@every_net
def test_channels_last_is_kept_and_changes_nothing(kind: Kind) -> None:
    net, image, s = small(kind), normal(2, 1, 14, 14), torch.tensor([-3.0, 0.5])
    expected = net(image, s)
    net.to(memory_format=torch.channels_last)
    seen: list[Tensor] = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3):
            layer.register_forward_hook(lambda _, inputs, out: seen.append(inputs[0]))
    out = net(image.to(memory_format=torch.channels_last), s)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    assert all(h.is_contiguous(memory_format=torch.channels_last) for h in seen)


@every_net
def test_preconditioning_takes_it(kind: Kind) -> None:
    gaussian = fit_gaussian(normal(40, 64), rank=4)
    net = Preconditioned(kind(2, 1, width=8).eval(), gaussian)
    out = net(normal(2, 1, 8, 8), torch.tensor([0.1, 1.0]))
    assert out.shape == (2, 1, 8, 8)
    assert out.isfinite().all()


def test_width_of_ddpmpp_must_be_normed() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        DDPMpp(1, 1, width=6)


# ---- step k and level s

PROCESSES = [GBM(0.8), VEGBM(0.1, 2.0)]


class Table(nn.Module):
    """A network by step, which stores the step it is evaluated at."""

    def forward(self, image: Tensor, k: Tensor, labels: Tensor | None = None) -> Tensor:
        self.k, self.labels = k, labels
        return image * k[:, None, None, None]


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("N", [50, 1000])
def test_steps_and_levels_are_inverse(process: Process, N: int) -> None:
    k = torch.arange(1, N)
    log_s = log_level(process, N, k)
    assert log_s.dtype == torch.float32
    # log s and exp each err by some 1e-7, relatively; k by twice that and its own rounding
    torch.testing.assert_close(step(process, N, log_s), k.float(), rtol=3e-6, atol=0)
    exact = log_level(process, N, k.double())
    torch.testing.assert_close(step(process, N, exact), k.double(), rtol=1e-12, atol=0)
    torch.testing.assert_close(log_level(process, N, step(process, N, exact)), exact)


def test_levels_of_the_paper() -> None:
    """s = sigma √(k/N), k = N (s/sigma)²."""
    paper = GBM(0.8)
    torch.testing.assert_close(
        log_level(paper, 1000, torch.tensor([1, 250, 999])).exp(),
        0.8 * torch.tensor([0.001, 0.25, 0.999]).sqrt(),
    )
    assert float(step(paper, 1000, torch.tensor(math.log(0.4)))) == pytest.approx(250)


@pytest.mark.parametrize("continuous", [False, True])
def test_by_step_asks_the_network_for_the_right_step(continuous: bool) -> None:
    net = Table()
    by_step = ByStep(net, GBM(0.8), 1000, continuous)
    k = torch.tensor([1.0, 3.4, 998.6])
    image = normal(3, 1, 2, 2)
    out = by_step(image, log_level(GBM(0.8), 1000, k), torch.arange(3))
    asked = k if continuous else torch.tensor([1, 3, 999])
    torch.testing.assert_close(net.k, asked, rtol=1e-5, atol=0)
    torch.testing.assert_close(out, image * asked[:, None, None, None], rtol=1e-5, atol=0)
    assert net.labels is not None
    assert net.labels.tolist() == [0, 1, 2]
    by_step(image, log_level(GBM(0.8), 1000, k))
    assert net.labels is None


@pytest.mark.parametrize("k", [0.4, 999.6])
@pytest.mark.parametrize("continuous", [False, True])
def test_by_step_refuses_levels_the_network_never_saw(k: float, continuous: bool) -> None:
    by_step = ByStep(Table(), GBM(0.8), 1000, continuous)
    log_s = log_level(GBM(0.8), 1000, torch.tensor([500.0, k]))
    with pytest.raises(ValueError, match="steps 1 to 999"):
        by_step(normal(2, 1, 2, 2), log_s)
