"""Networks by name. A new one is one file and one record here.

A network takes images, [B, C, H, W], the log of the noise level, [B], and labels, [B], if it was
built with classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.core.registry import Registry, resolved
from ablate.nets.config import Net

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Network:
    """A kind of network.

    build: a function `(config, inputs, outputs) -> nn.Module` of the numbers of image channels in
        and out, itself or as "module:name".
    patched: whether the configuration's `patch` must divide the sides of the images.
    """

    name: str
    about: str
    build: str | Callable[[Net, int, int], nn.Module]
    patched: bool = False


NETWORKS: Registry[Network] = Registry(
    "network",
    "ablate.networks",
    Network,
    [
        Network(
            "compact",
            "a small U-Net for CPUs and quick ablations",
            "ablate.nets.compact:build",
            patched=True,
        ),
        Network(
            "ncsn-deeper",
            "NCSN-Deeper, the paper's network for 28×28 images",
            "ablate.nets.ncsn_deeper:build",
        ),
        Network(
            "ddpm++",
            "DDPM++ (deep), the paper's network for CIFAR-10",
            "ablate.nets.ddpmpp:build",
        ),
    ],
)


def make_net(config: Net, inputs: int, outputs: int) -> nn.Module:
    """The network of a configuration, with `inputs` and `outputs` image channels."""
    net: nn.Module = resolved(NETWORKS[config.kind].build)(config, inputs, outputs)
    return net
