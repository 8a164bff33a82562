"""Networks. Each takes images [B, C, H, W], the log of the noise level, [B], and maybe labels."""

from __future__ import annotations

from torch import nn

from ablate.nets.compact import Compact
from ablate.nets.ddpmpp import DDPMpp
from ablate.nets.ncsn_deeper import NCSNDeeper
from ablate.recipe import Net


def make_net(net: Net, inputs: int, outputs: int) -> nn.Module:
    """The network of a recipe, with so many image channels in and out."""
    if net.kind == "ncsn-deeper":
        return NCSNDeeper(inputs, outputs, net.width, classes=net.classes)
    if net.kind == "ddpm++":
        return DDPMpp(
            inputs,
            outputs,
            net.width,
            blocks=net.blocks,
            dropout=net.dropout,
            classes=net.classes,
        )
    shape = (net.widths, net.blocks, net.patch, net.dropout)
    return Compact(inputs, outputs, *shape, classes=net.classes)
