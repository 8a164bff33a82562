"""What sampling costs beyond the network: wall time / (evaluations × bare forward).

    python -m tests.benchmarks.sampling_speed [--bundle cifar10] [--levels 18] [--threads 2]

Every sampler of the registry, and the exponential integrator, draws one batch at a time, start and
noise included. Each evaluation of the network is timed within the run itself, so that a busy
machine slows both sides of the ratio alike; a round is one batch of every sampler, and the median
of the rounds is printed. The goal is 1.05 for the bundle cifar10.

Two threads on a busy machine wait for each other in the network, which flatters the ratio: there,
use `--threads 1`. It counts the CPU time of that thread and prints beside the ratio the most that
it can be on two cores, which is when they halve the time of the network and of nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ablate.core.device import resolve
from ablate.diffusion.inits import Source
from ablate.door.bundles import load_bundle
from ablate.door.samples import settings_for
from ablate.generate.draw import draw_batch
from ablate.generate.settings import Settings
from ablate.generate.source import make_source
from ablate.models.score_model import ScoreModel
from ablate.nets.precondition import Model
from ablate.samplers.registry import SAMPLERS

Clock = Callable[[], float]


class Timed(Model):
    """A denoiser that adds up the seconds of its calls."""

    def __init__(self, model: nn.Module, clock: Clock) -> None:
        super().__init__(model)
        self.clock, self.seconds, self.calls = clock, 0.0, 0

    def forward(self, y: Tensor, s: Tensor, labels: Tensor | None = None) -> Tensor:
        began = self.clock()
        out: Tensor = self.net(y, s, labels)
        self.seconds += self.clock() - began
        self.calls += 1
        return out


class Cost(NamedTuple):
    """One batch of one sampler: seconds for each evaluation, in the network and besides."""

    network: float
    rest: float
    evaluations: int


def cost_of(
    score: ScoreModel, source: Source, settings: Settings, batch: int, clock: Clock
) -> Cost:
    """Draw a batch, without the limits at which a run stops early."""
    timed = Timed(score.model, clock)
    began = clock()
    drawn = draw_batch(score._replace(model=timed), source, settings, 0, range(batch))
    whole, calls = clock() - began, timed.calls
    assert drawn.reason is None, drawn.reason
    assert drawn.evaluations == calls
    return Cost(timed.seconds / calls, (whole - timed.seconds) / calls, calls)


def shown(costs: Sequence[Cost], threads: int) -> str:
    """The median ratio, the milliseconds besides the network, and the most on two cores."""
    share = statistics.median(cost.rest / cost.network for cost in costs)
    rest = 1e3 * statistics.median(cost.rest for cost in costs)
    text = f"{1 + share:.3f} ({rest:.1f} ms)"
    return f"{text}, two cores at most {1 + 2 * share:.3f}" if threads == 1 else text


def main(bundle: str, levels: int, rounds: int, batches: Sequence[int], threads: int) -> None:
    resolve("cpu")
    torch.set_num_threads(threads)
    clock = time.thread_time if threads == 1 else time.perf_counter
    handle = load_bundle(bundle)
    score, source = handle.bundle.score_model, make_source(handle.bundle, ["class-gaussian"])
    asked = {name: {"sampler": name} for name in SAMPLERS}
    asked["adls, exponential"] = {"sampler": "adls", "integrator": "exponential"}
    each = {
        name: settings_for(handle, {**knobs, "levels": levels}) for name, knobs in asked.items()
    }
    print(f"| sampler | evaluations | {' | '.join(f'batch {n}' for n in batches)} |")
    print(f"|---|---|{'---|' * len(batches)}")
    costs: dict[tuple[str, int], list[Cost]] = {(name, n): [] for name in each for n in batches}
    cost_of(score, source, each["pf-heun"], batches[0], clock)  # warms up
    for _ in range(rounds):
        for name, batch in costs:
            costs[name, batch].append(cost_of(score, source, each[name], batch, clock))
    for name in each:
        cells = [shown(costs[name, batch], threads) for batch in batches]
        evaluations = costs[name, batches[0]][0].evaluations
        print(f"| {name} | {evaluations} | {' | '.join(cells)} |", flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("--bundle", default="cifar10")
    made.add_argument("--levels", type=int, default=18)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    made.add_argument("--threads", type=int, default=2)
    return made


if __name__ == "__main__":
    main(**vars(parser().parse_args()))
