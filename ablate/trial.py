"""Cells: one configuration, one seed -> images -> features -> metrics.

Images are drawn in batches of one fixed size, the last one padded: convolution kernels differ by
batch size, so this is what makes a cell's numbers repeat to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ablate import inits
from ablate.bundle import Bundle, Model
from ablate.data import to_pixels
from ablate.extractor import extract
from ablate.lab import Lab
from ablate.metrics.copies import Copies
from ablate.samplers.drive import FLIP_SHARE, Drawn, Limits, drive
from ablate.samplers.kernel import Denoiser
from ablate.samplers.noise import StepNoise, start_numbers
from ablate.settings import Settings

BATCH = 128
KEPT_IMAGES = 64
STRIP_ROWS, STRIP_FRAMES = 4, 10


class Drawing(NamedTuple):
    pixels: Tensor  # uint8, [N, C, H, W]; fewer than asked for if diverged
    strip: Tensor  # uint8, the first samples on their way, [rows, frames, C, H, W]
    nfe: int
    clamp_rate: float
    flip_rate: float
    reason: str | None  # of divergence


class CellResult(NamedTuple):
    metrics: dict[str, float]
    drawing: Drawing
    features: Tensor  # float16, [N, f]
    neighbours: dict[str, Copies]  # in the training set, by space; empty if diverged
    reason: str | None


def draw(
    bundle: Bundle,
    source: inits.Source,
    settings: Settings,
    seed: int,
    samples: int,
    device: str = "cpu",
    progress: Callable[[], None] = lambda: None,
) -> Drawing:
    """`samples` images of one configuration; stops at the first sign of divergence."""
    plan, model = settings.plan(), bundle.model.to(device)
    size = bundle.moments.everything.mean.numel()
    flips_left = FLIP_SHARE * samples * size
    centre, radius = float(bundle.moments.everything.mean.mean()), 10 * settings.noise_range()[0]
    drawn: list[Drawn] = []

    for first in range(0, samples, BATCH):
        indices = range(first, first + BATCH)  # the last batch is padded with samples cut off below
        u, z = start_numbers(seed, indices, size)
        start = inits.INITS[settings.init](source, plan[0].s, u, z) + plan[0].shift
        denoiser = _denoiser(model, _labels(bundle, u, device), progress)
        noise = StepNoise(seed, indices, bundle.card.shape, device)
        limits = Limits(centre, radius, flips_left, samples - first)
        frames = _frame_steps(len(plan)) if first == 0 else ()
        start = start.view(-1, *bundle.card.shape).to(device)
        run = drive(settings.kernel.kernel, denoiser, start, plan, noise, limits, frames)
        drawn.append(run)
        flips_left -= float(run.flipped[: samples - first].sum())
        if run.reason:
            break
    return _drawing(drawn, samples)


def _labels(bundle: Bundle, u: Tensor, device: str) -> Tensor | None:
    """The classes that samples start from (if their start has one), for a network that is told."""
    classes = bundle.card.recipe.net.classes
    return inits.pick(u, classes).to(device) if classes else None


def _denoiser(model: Model, labels: Tensor | None, progress: Callable[[], None]) -> Denoiser:
    def denoiser(y: Tensor, s: float) -> Tensor:
        progress()
        out: Tensor = model(y, torch.full((len(y),), s, device=y.device), labels)
        return out

    return denoiser


def _frame_steps(steps: int) -> set[int]:
    """Steps to keep for the trajectory strip, evenly spread; its last frame is the result."""
    return {round(i * (steps - 1) / (STRIP_FRAMES - 2)) for i in range(STRIP_FRAMES - 1)}


def _drawing(drawn: list[Drawn], samples: int) -> Drawing:
    x = torch.cat([run.x for run in drawn])[:samples].cpu()
    pixels, clamped = to_pixels(x.nan_to_num(0.0))
    flipped = torch.cat([run.flipped for run in drawn])[:samples]
    frames = [frame[:STRIP_ROWS].cpu() for frame in (*drawn[0].frames, drawn[0].x)]
    strip = torch.stack(frames, dim=1)
    return Drawing(
        pixels=pixels,
        strip=to_pixels(strip.nan_to_num(0.0))[0],
        nfe=drawn[0].evaluations,
        clamp_rate=float(clamped.mean()),
        flip_rate=float(flipped.double().mean()) / x[0].numel(),
        reason=next((run.reason for run in drawn if run.reason), None),
    )


def run_cell(
    lab: Lab, settings: Settings, seed: int, progress: Callable[[], None] = lambda: None
) -> CellResult:
    """The unit of work. A diverged cell has a reason and no distances."""
    began = time.perf_counter()
    drawing = draw(lab.bundle, lab.source, settings, seed, lab.study.samples, lab.device, progress)
    seconds = time.perf_counter() - began
    metrics = {
        "nfe": float(drawing.nfe),
        "seconds": seconds,
        "clamp_rate": drawing.clamp_rate,
        "flip_rate": drawing.flip_rate,
        "diverged": float(drawing.reason is not None),
    }
    features, neighbours = extract(lab.extractor, drawing.pixels), {}
    if drawing.reason is None:
        neighbours = lab.neighbourhood.find(drawing.pixels, features)
        metrics |= lab.measure(features)
        for space, found in neighbours.items():
            metrics |= found.values(space)
    return CellResult(metrics, drawing, features.half(), neighbours, drawing.reason)
