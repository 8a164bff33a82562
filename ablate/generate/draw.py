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
from ablate.generate.guidance import evaluations, make_denoiser
from ablate.generate.plans import first_memory, make_kernel, make_plan
from ablate.generate.settings import Settings
from ablate.models.score_model import ScoreModel
from ablate.samplers.drive import FLIP_SHARE, NO_LIMITS, Drawn, Limits, drive
from ablate.samplers.noise import StepNoise, start_numbers

BATCH = 64
STRIP_ROWS, STRIP_FRAMES = 4, 10


class Drawing(NamedTuple):
    pixels: Tensor  # uint8, [N, C, H, W]; fewer than asked for if diverged
    strip: Tensor  # uint8, the first samples on their way, [rows, frames, C, H, W]
    nfe: int
    clamp_rate: float
    flip_rate: float
    reason: str | None  # of divergence
    labels: Tensor | None = None  # the class that the network was told for each, [N]


class Stretch(NamedTuple):
    """Consecutive samples of one configuration and seed, from `first` on; n of them are drawn."""

    first: int
    pixels: Tensor  # uint8, [n, C, H, W]
    clamped: Tensor  # share of an image's pixels, float64, [n]
    flipped: Tensor  # an image's pixels that changed sign, int64, [n]
    labels: Tensor | None  # the class that the network was told for each, [n]
    strip: Tensor | None  # as a drawing's; None unless `first` is 0
    nfe: int
    reason: str | None  # of divergence


class Sampling:
    """Images of one configuration and seed, drawn as far as asked; the next call continues.

    Each batch is rounded to uint8 as soon as it is drawn: what grows with the number of samples is
    one byte a pixel and two numbers an image, in memory that is used only as it fills.
    """

    def __init__(
        self,
        score: ScoreModel,
        source: Source,
        settings: Settings,
        seed: int,
        most: int,
        device: str = "cpu",
        progress: Callable[[], None] = lambda: None,
        begun: Stretch | None = None,
        flips: float | None = None,
    ) -> None:
        """most: how many samples will be drawn in the end; begun: those drawn before, by another
        process, if any: whole batches; flips: how many pixels may change sign, instead of the share
        of all `most` samples."""
        self._score = score.to(device)
        self._source, self._settings, self._seed = source, settings, seed
        self._most, self._device, self._progress = most, device, progress
        self._flips_left = most_flips(most, score.shape) if flips is None else flips
        room = -(-most // BATCH) * BATCH
        self._pixels = torch.empty(room, *score.shape, dtype=torch.uint8)
        self._clamped = torch.empty(room, dtype=torch.float64)  # share of pixels
        self._flipped = torch.empty(room, dtype=torch.int64)
        told = bool(score.classes) and not settings.unlabelled
        self._labels = torch.empty(room, dtype=torch.int64) if told else None
        self._strip: Tensor | None = None
        self._begin, self._filled, self._nfe = 0, 0, 0
        self._reason: str | None = None
        if begun is not None:
            self._take_over(begun)

    def _take_over(self, begun: Stretch) -> None:
        rows = slice(begun.first, begun.first + len(begun.pixels))
        self._pixels[rows], self._clamped[rows] = begun.pixels, begun.clamped
        self._flipped[rows] = begun.flipped
        if self._labels is not None and begun.labels is not None:
            self._labels[rows] = begun.labels
        self._strip, self._nfe, self._reason = begun.strip, begun.nfe, begun.reason
        self._begin, self._filled = rows.start, rows.stop
        self._flips_left -= float(begun.flipped.sum())

    def stretch(self) -> Stretch:
        """Everything drawn so far, for another process to continue from."""
        drawn = slice(self._begin, min(self._filled, self._most))
        labels = None if self._labels is None else self._labels[drawn]
        parts = self._pixels[drawn], self._clamped[drawn], self._flipped[drawn], labels
        return Stretch(self._begin, *parts, self._strip, self._nfe, self._reason)

    def up_to(self, samples: int) -> Drawing:
        """The first `samples` images; stops at the first sign of divergence."""
        return drawing_of(self.stretch_to(samples), samples)

    def stretch_to(self, samples: int) -> Stretch:
        """The samples up to number `samples`, and those of its batch; stops likewise."""
        while self._filled < min(samples, self._most) and self._reason is None:
            self._draw_batch()
        return self.stretch()

    def _draw_batch(self) -> None:
        first = self._filled
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
        if first == self._begin:
            self._nfe = run.evaluations
        if first == 0:
            self._strip = _strip(run)
        rows = slice(first, first + BATCH)
        self._pixels[rows], self._clamped[rows] = to_pixels(run.x.cpu().nan_to_num(0.0))
        self._flipped[rows] = run.flipped.cpu()
        if self._labels is not None and run.labels is not None:
            self._labels[rows] = run.labels.cpu()
        self._filled, self._reason = first + BATCH, run.reason
        self._flips_left -= float(run.flipped[: self._most - first].sum())

    def _limits(self, first: int) -> Limits:
        centre = float(self._score.moments.everything.mean.mean())
        radius = 10 * self._settings.noise_range()[0]
        return Limits(centre, radius, self._flips_left, self._most - first)


def most_flips(samples: int, shape: Sequence[int]) -> float:
    """How many pixels of so many samples may change sign."""
    return FLIP_SHARE * samples * math.prod(shape)


def drawing_of(stretch: Stretch, samples: int) -> Drawing:
    """The first `samples` of a stretch that begins with the first sample."""
    assert stretch.strip is not None
    count = min(samples, len(stretch.pixels))
    flipped = stretch.flipped[:count].double()
    return Drawing(
        pixels=stretch.pixels[:count],
        strip=stretch.strip,
        nfe=stretch.nfe,
        clamp_rate=float(stretch.clamped[:count].mean()),
        flip_rate=float(flipped.mean()) / math.prod(stretch.pixels.shape[1:]),
        reason=stretch.reason,
        labels=None if stretch.labels is None else stretch.labels[:count],
    )


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
    if score.classes and not settings.unlabelled:
        labels = init.labels(source, score.classes, u, **settings.start_knobs).to(device)
    run = drive(
        make_kernel(settings),
        make_denoiser(score, settings, labels, progress),
        start.view(-1, *score.shape).to(device),
        plan,
        _noise(settings, seed, indices, score.shape, device, len(plan)),
        limits,
        _frame_steps(len(plan)) if frames else (),
        first_memory(settings),
        evaluations(settings),
    )
    return run._replace(labels=labels)


def _noise(
    settings: Settings,
    seed: int,
    indices: Sequence[int],
    shape: Sequence[int],
    device: str,
    steps: int,
) -> Callable[[int], Tensor]:
    """z of each step; a deterministic sampler ignores it, so that none is drawn for it."""
    if settings.kind.stochastic:
        return StepNoise(seed, indices, shape, device, steps)
    none = torch.zeros((), device=device).expand(len(indices), *shape)
    return lambda step: none


def _frame_steps(steps: int) -> set[int]:
    """Steps to keep for the trajectory strip, evenly spread; its last frame is the result."""
    return {round(i * (steps - 1) / (STRIP_FRAMES - 2)) for i in range(STRIP_FRAMES - 1)}


def _strip(run: Drawn) -> Tensor:
    """The first samples on their way, uint8, [rows, frames, C, H, W]."""
    frames = [frame[:STRIP_ROWS].cpu() for frame in (*run.frames, run.x)]
    return to_pixels(torch.stack(frames, dim=1).nan_to_num(0.0))[0]
