"""Weights of public code bases under our names: NCSN, NCSNv2 and score_sde.

A layout is recognised by its names, never by a file's name. `options_of` says which variant of our
network the weights are of; `in_our_names` renames, reshapes and joins the tensors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ablate.nets.config import Net, Option
from ablate.nets.ddpmpp import Block, DDPMpp

Tensors = Mapping[str, Tensor]

NOT_WEIGHTS = ("sigmas",)
"""Buffers of the public code that no layer reads but for the levels, which our recipes state."""


class LayoutError(ValueError):
    """Tensors that do not fit a network; the message is one line."""


class Rule(NamedTuple):
    """How one of our tensors is made of theirs."""

    ours: str
    theirs: tuple[str, ...]
    make: Callable[[Sequence[Tensor]], Tensor] = lambda parts: parts[0]


class Layout(NamedTuple):
    """A public code base."""

    name: str
    kind: str  # of our network
    rules: Callable[[nn.Module], Iterator[Rule]]
    options: Callable[[Tensors], dict[str, Option]]  # of our network, that the tensors show


def layout_of(tensors: Tensors) -> Layout | None:
    """The layout that the names belong to; None: our own."""
    if "begin_conv.weight" in tensors:
        return NCSN
    return SCORE_SDE if any(name.startswith("all_modules.") for name in tensors) else None


def options_of(tensors: Tensors, net: Net) -> dict[str, Option]:
    """`net.options` of the network that the tensors are of; what a recipe says prevails."""
    layout = layout_of(tensors)
    if layout is None:
        return dict(net.options)
    if net.kind != layout.kind:
        raise LayoutError(f"the layout of {layout.name}: net.kind must be {layout.kind!r}")
    return layout.options(tensors) | net.options


def in_our_names(tensors: Tensors, net: nn.Module) -> dict[str, Tensor]:
    """The state dict for our network; an error that counts and names what does not fit."""
    layout, wanted = layout_of(tensors), net.state_dict()
    if layout is None:
        rules = [Rule(name, (name,)) for name in wanted]
    else:
        tensors = {name: v for name, v in tensors.items() if name not in NOT_WEIGHTS}
        rules = list(layout.rules(net))
    theirs = {name for rule in rules for name in rule.theirs}
    problems = [
        _listed("missing", [name for rule in rules for name in rule.theirs if name not in tensors]),
        _listed("extra", [name for name in tensors if name not in theirs]),
    ]
    whole = [rule for rule in rules if all(name in tensors for name in rule.theirs)]
    made = {rule.ours: rule.make([tensors[name] for name in rule.theirs]) for rule in whole}
    problems.append(_listed("of another shape", list(_misshapen(made, wanted))))
    if any(problems):
        raise LayoutError("; ".join(filter(None, problems)))
    return made


def _misshapen(made: Tensors, wanted: Tensors) -> Iterator[str]:
    for name, value in made.items():
        shape, right = tuple(value.shape), tuple(wanted[name].shape)
        if shape != right:
            yield f"{name} {shape} for {right}"


def _listed(what: str, names: Sequence[str], most: int = 3) -> str:
    """«5 missing: a, b, c, …»; nothing if there are none."""
    more = ", …" if len(names) > most else ""
    return f"{len(names)} {what}: {', '.join(names[:most])}{more}" if names else ""


# ---- NCSN-Deeper of ermongroup's ncsn and ncsnv2

LAYERS = {
    **{"norm_in": "normalize1", "norm_mid": "normalize2", "conv_in": "conv1", "conv_out": "conv2"},
    **{"skip": "shortcut", "fuse_norms": "msf.norms", "fuse_convs": "msf.convs", "pooling": "crp"},
    **{"film.scale": "gamma", "film.alpha": "alpha", "film.shift": "beta", "film": "embed"},
    **{"stem": "begin_conv", "out_norm": "normalizer", "out": "end_conv"},
}
"""Our names of layers and parameters -> theirs, where the rest of a name does not matter."""


def _ncsn_rules(net: nn.Module) -> Iterator[Rule]:
    halving = {name for name, layer in net.named_modules() if getattr(layer, "halves", False)}
    for name in net.state_dict():
        yield Rule(name, (_ncsn_name(name, halving),))


def _ncsn_name(ours: str, halving: set[str]) -> str:
    """stages.1.0.norm_in.film.weight -> res2.0.normalize1.embed.weight, and so on.

    halving: our blocks that halve the image; their convolutions are one level deeper.
    """
    block, _, layer = ours.rpartition(".")[0].rpartition(".")
    deeper = block in halving and layer in ("conv_out", "skip")
    name = re.sub(r"^stages\.(\d+)", lambda m: f"res{int(m[1]) + 1}", ours)
    name = re.sub(r"^refines\.(\d+)", lambda m: f"refine{int(m[1]) + 1}", name)
    name = re.sub(r"\badapt\.(\d+)", r"adapt_convs.\1", name).replace(".units.", ".output_convs.")
    name = re.sub(
        r"(adapt_convs\.\d+|output_convs)\.(\d+)\.(norm|conv)s\.(\d+)",
        lambda m: f"{m[1]}.{int(m[2]) + 1}_{int(m[4]) + 1}_{m[3]}",
        name,
    )
    for mine, their in LAYERS.items():
        name = re.sub(rf"(^|\.){re.escape(mine)}(?=\.|$)", rf"\g<1>{their}", name)
    return re.sub(r"\.(\w+)$", r".conv.\1", name) if deeper else name


def _ncsn_options(tensors: Tensors) -> dict[str, Option]:
    table = tensors.get("normalizer.embed.weight")
    if table is not None:
        return {"table": len(table)}
    return {"constant": True} if "normalizer.gamma" in tensors else {}


# ---- DDPM++ and NCSN++ of score_sde: modules in one list, in the order of their use

BLOCK = {
    **{"norm_in": "GroupNorm_0", "conv_in": "Conv_0", "offset": "Dense_0"},
    **{"norm_mid": "GroupNorm_1", "conv_out": "Conv_1", "skip": "Conv_2"},
}


def _score_sde_rules(net: nn.Module) -> Iterator[Rule]:
    assert isinstance(net, DDPMpp)
    indices = count()
    for ours in _in_order(net):
        theirs = f"all_modules.{next(indices)}"
        layer = net.get_submodule(ours)
        if isinstance(layer, Block):
            for name, _ in layer.named_parameters():
                part, _, rest = name.partition(".")
                if part in BLOCK:
                    yield Rule(f"{ours}.{name}", (f"{theirs}.{BLOCK[part]}.{rest}",))
            if layer.attention is not None:
                yield from _attention_rules(f"{ours}.attention", f"all_modules.{next(indices)}")
        elif ours == "conditioning":
            yield Rule(f"{ours}.frequencies", (f"{theirs}.W",), lambda w: 2 * math.pi * w[0])
        else:
            inside = ".Conv2d_0" if ours.startswith("pyramid.") else ""
            for name in ("weight", "bias"):
                yield Rule(f"{ours}.{name}", (f"{theirs}{inside}.{name}",))


def _in_order(net: DDPMpp) -> Iterator[str]:
    """Our layers as theirs are numbered."""
    if net.condition == "log s":
        yield "conditioning"
    yield from ("conditioning.layers.0", "conditioning.layers.2", "stem")
    for level in range(len(net.down)):
        if level:
            yield f"shrink.{level - 1}"
            yield from [f"pyramid.{level - 1}"] if net.pyramid else []
        yield from (f"down.{level}.{i}" for i, _ in enumerate(net.down[level].children()))
    yield from ("bottom.0", "bottom.1")
    for level in range(len(net.up)):
        yield from [f"grow.{level - 1}"] if level else []
        yield from (f"up.{level}.{i}" for i, _ in enumerate(net.up[level].children()))
    yield from ("out_norm", "out")


def _attention_rules(ours: str, theirs: str) -> Iterator[Rule]:
    """Three matrices [in, out] are one convolution [3 out, in, 1, 1] of ours."""
    for name in ("weight", "bias"):
        yield Rule(f"{ours}.norm.{name}", (f"{theirs}.GroupNorm_0.{name}",))
    matrices, offsets = (tuple(f"{theirs}.NIN_{i}.{x}" for i in range(4)) for x in "Wb")
    yield Rule(f"{ours}.qkv.weight", matrices[:3], _convolution)
    yield Rule(f"{ours}.qkv.bias", offsets[:3], _joined)
    yield Rule(f"{ours}.out.weight", matrices[3:], _convolution)
    yield Rule(f"{ours}.out.bias", offsets[3:])


def _convolution(matrices: Sequence[Tensor]) -> Tensor:
    if any(matrix.shape != matrices[0].shape or matrix.ndim != 2 for matrix in matrices):
        return torch.empty(0)  # fits nothing
    return torch.cat([matrix.T for matrix in matrices])[:, :, None, None]


def _joined(offsets: Sequence[Tensor]) -> Tensor:
    return torch.cat([offset.flatten() for offset in offsets])


def _score_sde_options(tensors: Tensors) -> dict[str, Option]:
    if "all_modules.0.W" not in tensors:
        return {"embedding": "time"}
    pyramid = any(name.endswith(".Conv2d_0.weight") for name in tensors)
    return {"embedding": "fourier", "fir": True, "divide": True, "pyramid": pyramid}


NCSN = Layout("NCSN", "ncsn-deeper", _ncsn_rules, _ncsn_options)
SCORE_SDE = Layout("score_sde", "ddpm++", _score_sde_rules, _score_sde_options)
