"""How fast are FID and KID end to end, beside torchmetrics and torch-fidelity at their defaults?

    ABLATE_DATA=… python -m tests.benchmarks.metric_speed [IMAGES]

CIFAR-10's first IMAGES test images (1,024) against as many of its training images, in turns within
one run, in pieces so that a noisy machine is noisy for all alike. `bare` is the network's forward
alone, on images that are already resized. Also: nearest training images in pixels.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ablate.core.device import resolve
from ablate.data.datasets import load
from ablate.metrics.copy_search import as_vectors
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.extractors.inception import inception
from ablate.metrics.fid import features_to_fid, features_to_statistics
from ablate.metrics.kid import features_to_kid
from ablate.metrics.neighbours import nearest
from tests.support.fidelity_weights import publish_for_torch_fidelity

PIECE = 128
TURNS = ("bare", "ours", "torchmetrics", "torch-fidelity")


Made = TypeVar("Made")


class Rival(Protocol):
    """A way to FID and KID."""

    def update(self, images: Tensor, real: bool) -> None:
        """Take in uint8 images of one side."""

    def compute(self) -> tuple[float, float]:
        """(FID, KID) of all of them."""


def timed(work: Callable[[], Made]) -> tuple[float, Made]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


class Ours:
    def __init__(self) -> None:
        self.parts: dict[bool, list[Tensor]] = {True: [], False: []}

    def update(self, images: Tensor, real: bool) -> None:
        self.parts[real].append(extract(inception(), images))

    def compute(self) -> tuple[float, float]:
        real, fake = (torch.cat(self.parts[side]) for side in (True, False))
        fid = features_to_fid(fake, features_to_statistics(real))
        return fid, features_to_kid(fake, real).value


class Bare:
    """The forward pass alone: the images are resized beforehand."""

    def __init__(self) -> None:
        self.network = inception()

    def ready(self, images: Tensor) -> list[Tensor]:
        return [self.network.prepare(part) for part in images.split(self.network.batch)]

    @torch.no_grad()
    def run(self, ready: list[Tensor]) -> None:
        for part in ready:
            self.network.net.features(part)


class Torchmetrics:
    """Both of its classes, each with its own network, as its documentation has it."""

    def __init__(self, subset: int) -> None:
        from torchmetrics.image.fid import FrechetInceptionDistance
        from torchmetrics.image.kid import KernelInceptionDistance

        self.metrics = FrechetInceptionDistance(), KernelInceptionDistance(subset_size=subset)

    def update(self, images: Tensor, real: bool) -> None:
        for metric in self.metrics:
            metric.update(images, real=real)

    def compute(self) -> tuple[float, float]:
        fid, kid = self.metrics
        return float(fid.compute()), float(kid.compute()[0])


class TorchFidelity:
    """Its network as it calls it, batch of 64; then its functions of features."""

    def __init__(self, subset: int) -> None:
        fidelity = import_module("torch_fidelity.feature_extractor_inceptionv3")
        self.subset = subset
        self.network = fidelity.FeatureExtractorInceptionV3("inception-v3-compat", ["2048"]).eval()
        self.parts: dict[bool, list[Tensor]] = {True: [], False: []}

    @torch.no_grad()
    def update(self, images: Tensor, real: bool) -> None:
        for part in images.split(64):
            self.parts[real].append(self.network(part)[0])

    def compute(self) -> tuple[float, float]:
        fids, kids = (import_module(f"torch_fidelity.metric_{name}") for name in ("fid", "kid"))
        real, fake = (torch.cat(self.parts[side]) for side in (True, False))
        statistics = [fids.fid_features_to_statistics(side) for side in (fake, real)]
        fid = fids.fid_statistics_to_metric(*statistics, verbose=False)
        kid = kids.kid_features_to_metric(fake, real, kid_subset_size=self.subset, verbose=False)
        values = [*fid.values(), *kid.values()]
        return float(values[0]), float(values[1])


def main(count: int = 1024) -> None:
    warnings.simplefilter("ignore")
    resolve("cpu")
    dataset = load("cifar10")
    sides = {True: dataset.train.pixels[:count], False: dataset.heldout.pixels[:count]}
    seconds = dict.fromkeys(TURNS, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        torch.hub.set_dir(folder)
        publish_for_torch_fidelity(Path(folder) / "checkpoints")
        subset = min(count, 1000)  # both libraries' default, where there are as many
        rivals: dict[str, Rival] = {
            "ours": Ours(),
            "torchmetrics": Torchmetrics(subset),
            "torch-fidelity": TorchFidelity(subset),
        }
    bare = Bare()
    bare.run(bare.ready(sides[True][:PIECE]))  # everything is loaded before it is timed
    for first in range(0, count, PIECE):
        for real, images in sides.items():
            piece = images[first : first + PIECE]
            ready = bare.ready(piece)
            seconds["bare"] += timed(lambda: bare.run(ready))[0]  # noqa: B023
            for name, rival in rivals.items():
                seconds[name] += timed(lambda: rival.update(piece, real))[0]  # noqa: B023
    print(f"{count} CIFAR-10 test images against {count} training images")
    after = {}
    for name, rival in rivals.items():
        after[name], (fid, kid) = timed(rival.compute)
        total = seconds[name] + after[name]
        print(
            f"{name:15s} features {seconds[name]:6.1f} s, then {after[name]:6.2f} s, in all"
            f" {total:6.1f} s; FID {fid:.4f}, KID {kid:.5f}",
            flush=True,
        )
    totals = {name: seconds[name] + after[name] for name in rivals}
    print(f"bare forward {seconds['bare']:.1f} s, {2 * count / seconds['bare']:.2f} images/s")
    faster = min(totals["torchmetrics"], totals["torch-fidelity"])
    print(f"the faster of the two / ours      {faster / totals['ours']:.2f}")
    print(f"ours / bare forward               {totals['ours'] / seconds['bare']:.3f}")
    print(f"torchmetrics' compute / ours      {after['torchmetrics'] / after['ours']:.1f}")
    train, samples = as_vectors(dataset.train.pixels), as_vectors(sides[False])
    took, _ = timed(lambda: nearest(samples, train, 10))
    print(f"{count} nearest of 50,000 in pixels  {took:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
