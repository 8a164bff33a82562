"""One configuration and one seed -> images.

Images are drawn in batches of one fixed size, the last one padded: convolution kernels differ by
batch size, so this is what makes images repeat to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import INITS, Source
from ablate.generate.plans import first_memory, make_kernel, make_plan
from ablate.generate.settings import Settings
from ablate.models.score_model import ScoreModel
from ablate.nets.precondition import Model
from ablate.samplers.drive import FLIP_SHARE, NO_LIMITS, Drawn, Limits, drive
from ablate.samplers.kernel import Denoiser
from ablate.samplers.noise import StepNoise, start_numbers

BATCH = 128
STRIP_ROWS, STRIP_FRAMES = 4, 10


class Drawing(NamedTuple):
    pixels: Tensor  # uint8, [N, C, H, W]; fewer than asked for if diverged
    strip: Tensor  # uint8, the first samples on their way, [rows, frames, C, H, W]
    nfe: int
    clamp_rate: float
    flip_rate: float
    reason: str | None  # of divergence


class Sampling:
    """Images of one configuration and seed, drawn as far as asked; the next call continues."""

    def __init__(
        self,
        score: ScoreModel,
        source: Source,
        settings: Settings,
        seed: int,
        most: int,
        device: str = "cpu",
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """most: how many samples will be drawn in the end."""
        self._score = score._replace(model=score.model.to(device))
        self._source, self._settings, self._seed = source, settings, seed
        self._most, self._device, self._progress = most, device, progress
        self._flips_left = FLIP_SHARE * most * math.prod(score.shape)
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
        run = draw_batch(
            self._score,
            self._source,
            self._settings,
            self._seed,
            indices,
            self._device,
            self._limits(first),
            frames=first == 0,
            progress=self._progress,
        )
        self._drawn.append(run)
        self._flips_left -= float(run.flipped[: self._most - first].sum())

    def _limits(self, first: int) -> Limits:
        centre = float(self._score.moments.everything.mean.mean())
        radius = 10 * self._settings.noise_range()[0]
        return Limits(centre, radius, self._flips_left, self._most - first)


def draw(
    score: ScoreModel,
    source: Source,
    settings: Settings,
    seed: int,
    samples: int,
    device: str = "cpu",
    progress: Callable[[], None] = lambda: None,
) -> Drawing:
    """`samples` images of one configuration."""
    return Sampling(score, source, settings, seed, samples, device, progress).up_to(samples)


def draw_batch(
    score: ScoreModel,
    source: Source,
    settings: Settings,
    seed: int,
    indices: Sequence[int],
    device: str = "cpu",
    limits: Limits = NO_LIMITS,
    frames: bool = False,
    progress: Callable[[], None] = lambda: None,
) -> Drawn:
    """Samples of these indices as one batch, the model being on the device already.

    frames: whether to keep the states of a trajectory strip.
    """
    plan = make_plan(settings, score)
    u, z = start_numbers(seed, indices, math.prod(score.shape))
    init = INITS[settings.init]
    start = init.draw(source, plan[0].s, u, z, **settings.start_knobs) + plan[0].shift
    labels = None
    if score.classes:
        labels = init.labels(source, score.classes, u, **settings.start_knobs).to(device)
    return drive(
        make_kernel(settings),
        _denoiser(score.model, labels, progress),
        start.view(-1, *score.shape).to(device),
        plan,
        StepNoise(seed, indices, score.shape, device),
        limits,
        _frame_steps(len(plan)) if frames else (),
        first_memory(settings),
    )


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
