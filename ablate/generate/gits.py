"""A grid fitted to a network: GITS (Chen et al. 2024, "On the Trajectory Regularity of ODE-based
Diffusion Sampling").

A teacher walks the probability flow on 61 dense levels. The deviation of a single Euler step from
each of them to each later one is measured on the teacher's path, and dynamic programming picks the
levels whose deviations add up to the least. The deviations do not depend on the number of levels:
they are measured once for a network, a process and an s_min, and cached.

The samples that they are measured on start from `class-gaussian` with a seed of their own, whatever
a configuration starts from: the grid belongs to the network.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ablate.data.tensor_cache import Tensors, cache_folder, cached_tensors
from ablate.diffusion.grids import karras
from ablate.diffusion.inits import INITS, Source
from ablate.generate.settings import TEACHER_LEVELS, Settings
from ablate.models.score_model import ScoreModel
from ablate.samplers.noise import STREAMS, start_numbers

FORMAT = 1
"""Version of the fit, part of its key in the cache."""

SAMPLES, BATCH = 256, 128
"""Samples of the teacher, in batches of a fixed size, so that a fit repeats to the last bit."""

SEED = -1
"""Seed of the teacher's starts. No study has it: a grid is not fitted to the samples it draws."""

START = "class-gaussian"


def fitted_grid(settings: Settings, score: ScoreModel) -> Tensor:
    """The levels of a configuration on this network, [N], ending at 0."""
    levels = teacher_levels(settings)
    path = cache_folder() / "gits" / f"{_key(settings, score)}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)

    def compute() -> Tensors:
        return {"deviations": deviations(score, levels)}

    measured = cached_tensors(path, compute)["deviations"]
    return torch.cat([levels[cheapest_path(measured, settings.levels - 2)], levels.new_zeros(1)])


def teacher_levels(settings: Settings) -> Tensor:
    """The levels to choose from, [61]: Karras's, from the start's noise level to s_min."""
    return karras(settings.process, TEACHER_LEVELS + 1, settings.floor)[:-1]


def cheapest_path(costs: Tensor, steps: int) -> list[int]:
    """The places from the first to the last in so many steps, of the least sum of costs.

    costs: [n, n], of a step from i to j > i.
    """
    n = len(costs)
    ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
    costs = costs.double().where(ahead, math.inf)
    totals, origins = costs[0], []
    for _ in range(steps - 1):
        totals, origin = (totals[:, None] + costs).min(0)  # [n], the best way to each place
        origins.append(origin)
    places = [n - 1]
    for origin in reversed(origins):
        places.append(int(origin[places[-1]]))
    return [0, *reversed(places)]


@torch.no_grad()
def deviations(score: ScoreModel, levels: Tensor) -> Tensor:
    """How far an Euler step from level i to level j ends from the teacher's path, [n, n].

    ‖y_i + (s_j - s_i) slope_i - y_j‖, the mean over the samples.
    """
    total = torch.zeros(len(levels), len(levels), dtype=torch.float64)
    for first in range(0, SAMPLES, BATCH):
        states, slopes = _teacher(score, levels, range(first, first + BATCH))
        for i, (y, slope) in enumerate(zip(states, slopes, strict=True)):
            for j in range(i + 1, len(levels)):
                off = y + float(levels[j] - levels[i]) * slope - states[j]
                total[i, j] += float(off.norm(dim=1).double().sum())
    return total / SAMPLES


def _teacher(
    score: ScoreModel, levels: Tensor, indices: range
) -> tuple[list[Tensor], list[Tensor]]:
    """States and slopes dy/ds at every level by Euler's method, each [B, d]."""
    u, z = start_numbers(SEED, indices, math.prod(score.shape))
    source, device = Source(score.moments), next(score.model.parameters()).device
    init, s = INITS[START], levels.tolist()
    y = init.draw(source, s[0], u, z).view(-1, *score.shape).to(device)
    labels = init.labels(source, score.classes, u).to(device) if score.classes else None
    states, slopes = [], []
    for here, there in zip(s, [*s[1:], s[-1]], strict=True):
        at = torch.full((len(y),), here, device=device)
        slope = (y - score.model(y, at, labels)) / here
        states.append(y.flatten(1))
        slopes.append(slope.flatten(1))
        y = y + (there - here) * slope
    return states, slopes


def _key(settings: Settings, score: ScoreModel) -> str:
    """The file of a network's deviations in the cache: all that they depend on."""
    knobs = {"process": repr(settings.process), "s_min": settings.floor}
    version = {"format": FORMAT, "streams": STREAMS, "classes": score.classes}
    digest = hashlib.sha256(json.dumps(knobs | version, sort_keys=True).encode())
    for tensor in _weights(score):
        digest.update(
            tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return digest.hexdigest()[:24]


def _weights(score: ScoreModel) -> Iterator[Tensor]:
    """The network, and the moments that the teacher's starts are drawn from."""
    yield from score.model.state_dict().values()
    for gaussian in score.moments.classes:
        yield from (gaussian.mean, gaussian.variances, gaussian.tail)
