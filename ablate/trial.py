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
    neighbours: dict[str, Copies]  # in the training set, by space; empty if not complete
    state: str  # complete, diverged or pruned
    reason: str | None  # of any but complete


Judge = Callable[[Tensor], str | None]
"""Features of the samples so far, float16 -> why not to go on, or None."""


class Sampling:
    """Images of one configuration and seed, drawn as far as asked; the next call goes on there."""

    def __init__(
        self,
        bundle: Bundle,
        source: inits.Source,
        settings: Settings,
        seed: int,
        most: int,
        device: str = "cpu",
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """`most` samples are to be drawn in the end."""
        self._bundle, self._source, self._settings, self._seed = bundle, source, settings, seed
        self._most, self._device, self._progress = most, device, progress
        self._model, self._plan = bundle.model.to(device), settings.plan()
        self._size = bundle.moments.everything.mean.numel()
        self._flips_left = FLIP_SHARE * most * self._size
        self._drawn: list[Drawn] = []

    def up_to(self, samples: int) -> Drawing:
        """The first `samples` images; stops at the first sign of divergence."""
        while len(self._drawn) * BATCH < samples and not self._diverged:
            self._draw_batch()
        return _drawing(self._drawn, samples)

    @property
    def _diverged(self) -> bool:
        return bool(self._drawn) and self._drawn[-1].reason is not None

    def _draw_batch(self) -> None:
        first = len(self._drawn) * BATCH
        indices = range(first, first + BATCH)  # the last batch is padded with samples cut off later
        plan, bundle, kernel = self._plan, self._bundle, self._settings.kernel.kernel
        u, z = start_numbers(self._seed, indices, self._size)
        start = inits.INITS[self._settings.init](self._source, plan[0].s, u, z) + plan[0].shift
        denoiser = _denoiser(self._model, _labels(bundle, u, self._device), self._progress)
        noise = StepNoise(self._seed, indices, bundle.card.shape, self._device)
        frames = _frame_steps(len(plan)) if first == 0 else ()
        start = start.view(-1, *bundle.card.shape).to(self._device)
        run = drive(kernel, denoiser, start, plan, noise, self._limits(first), frames)
        self._drawn.append(run)
        self._flips_left -= float(run.flipped[: self._most - first].sum())

    def _limits(self, first: int) -> Limits:
        centre = float(self._bundle.moments.everything.mean.mean())
        radius = 10 * self._settings.noise_range()[0]
        return Limits(centre, radius, self._flips_left, self._most - first)


def draw(
    bundle: Bundle,
    source: inits.Source,
    settings: Settings,
    seed: int,
    samples: int,
    device: str = "cpu",
    progress: Callable[[], None] = lambda: None,
) -> Drawing:
    """`samples` images of one configuration."""
    return Sampling(bundle, source, settings, seed, samples, device, progress).up_to(samples)


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
    lab: Lab,
    settings: Settings,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    judge: Judge | None = None,
) -> CellResult:
    """The unit of work. A diverged cell has a reason and no distances.

    With a judge it is drawn rung by rung, and ends where the judge says. What is drawn for one rung
    is kept for the next; the distances of a rung carry its number of samples in their names.
    """
    most, seconds = lab.study.samples, 0.0
    sampling = Sampling(lab.bundle, lab.source, settings, seed, most, lab.device, progress)
    partial: dict[str, float] = {}
    for samples in (*(lab.study.rungs if judge else ()), most):
        began = time.perf_counter()
        drawing = sampling.up_to(samples)
        seconds += time.perf_counter() - began
        features = extract(lab.extractor, drawing.pixels)
        state, reason = ("diverged", drawing.reason) if drawing.reason else ("complete", None)
        if judge and not drawing.reason and samples < most:
            partial |= {f"{k}_n{samples}": v for k, v in lab.measure(features).items()}
            if (reason := judge(features.half())) is not None:
                state = "pruned"
        if reason:
            break
    metrics = partial | {
        "nfe": float(drawing.nfe),
        "samples": float(len(drawing.pixels)),
        "seconds": seconds,
        "clamp_rate": drawing.clamp_rate,
        "flip_rate": drawing.flip_rate,
        "diverged": float(state == "diverged"),
    }
    neighbours = {}
    if state == "complete":
        neighbours = lab.neighbourhood.find(drawing.pixels, features)
        metrics |= lab.measure(features)
        for space, found in neighbours.items():
            metrics |= found.values(space)
    return CellResult(metrics, drawing, features.half(), neighbours, state, reason)
