"""How many network evaluations each search method needs to find a configuration as good as any.

    python -m tests.benchmarks.search_methods FOLDER BUNDLE [--trials 30] [--searches 3]
                                              [--compare 256] [--errors 2]

A search has come as far as the best known when the configuration that it ranks first is not worse
than the best known by more than two standard errors (--errors), in pairs on the same random
numbers, which are not those of the search. The best known is the best of what all searches rank
first, second and third, by a third set of random numbers, so that nobody's luck counts.
Measurements are kept in FOLDER, so that a second run takes little time.

ADLS by its exponential integrator, 12 evaluations that stand for 1,000 levels; KID in the features
of the small classifier, 3 seeds of 128 samples in the search, 3 of 256 to choose the best known,
and 3 of --compare samples to compare with it: the more, the stricter.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from optuna.trial import FrozenTrial, TrialState
from torch import Tensor

from ablate.core.workspace import Workspace
from ablate.experiment.prepare import Setup
from ablate.experiment.showcase import setup_of_one
from ablate.generate.draw import draw
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Measured, paired_difference, pooled
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.reference import measure
from ablate.search.proposals import Proposal, propose
from ablate.study.definition import Study
from ablate.study.resolve import parse
from tests.search.trials import finished


class Protocol(NamedTuple):
    """How a configuration is measured."""

    seeds: tuple[int, ...]
    samples: int  # for each seed


SEARCH = Protocol((0, 1, 2), 128)
CHOICE = Protocol((100, 101, 102), 256)  # of the best known
COMPARED = (200, 201, 202)
COST = len(SEARCH.seeds) * SEARCH.samples * 12
"""Network evaluations of a trial."""

SPACE = """
question = "Which method finds the best configuration first?"
bundle = "{bundle}"
method = "law"
[fixed]
sampler = "adls"
integrator = "exponential"
levels = 12
[search]
init = {inits}
L = {{ low = 1, high = 6 }}
sigma = {{ low = 0.4, high = 1.6, log = true }}
{step}
[budgets.quick]
samples = 128
trials = 1000
"""
COORDINATES = """
annealing = { low = 5e-5, high = 5e-3, log = true }
rho = { low = 0.7, high = 1.5, log = true }
left = { low = 0.02, high = 1.0, log = true }
"""
PAPER_KNOBS = """
chi = { low = 0.995, high = 1.0 }
r = { low = 0.4, high = 1.1 }
n = { low = 0, high = 25 }
"""

CHIS, STEPS = (0.995, 0.9995, 1.0), tuple(k / 100 for k in range(40, 111, 5))
"""The paper says that delta, L and chi were searched on a grid, and prints the best of it alone:
chi one of these, L from 1 to 6, r = L·delta·N from 0.43 to 0.75, at times only 0.02 apart. r in
steps of 0.05, and one n besides the paper's 0 and 25, make this grid a generous one."""
GRID = {"chi": CHIS, "r": STEPS, "L": range(1, 7), "n": (0, 2, 25), "sigma": (0.8,)}


class Bench:
    """One network: what configurations are measured with, and what is known of them."""

    def __init__(self, bundle: str, folder: Path, compare: int, errors: float) -> None:
        self.comparison, self.errors = Protocol(COMPARED, compare), errors
        facts = tomllib.loads(Path("studies/families/datasets.toml").read_text())[bundle]
        self.bundle, self.inits, self._folder = bundle, tuple(facts["inits"]), folder / bundle
        self.tuned = facts["tuned"]["adls"]  # the paper's own settings
        self._folder.mkdir(parents=True, exist_ok=True)
        self._setups: dict[str, Setup] = {}

    def study(
        self, method: str, knobs: str = COORDINATES, seed: int = 0, reverse: bool = False
    ) -> Study:
        inits = list(reversed(self.inits) if reverse else self.inits)
        text = SPACE.format(bundle=self.bundle, inits=inits, step=knobs)
        return parse(text, "bench", "quick").model_copy(update={"method": method, "seed": seed})

    def setup(self, settings: Settings) -> Setup:
        if settings.init not in self._setups:
            known = setup_of_one(Workspace(Path()), self.bundle, settings, 384, 0, "cpu")
            self._setups[settings.init] = known
        return self._setups[settings.init]

    @functools.cache  # noqa: B019
    def measured(self, spelt: str, protocol: Protocol) -> Measured | None:
        """KID over all seeds; None if the samples diverge."""
        settings, parts = Settings.model_validate_json(spelt), []
        for seed in protocol.seeds:
            features = self.features(settings, seed, protocol.samples)
            if not len(features):
                return None
            parts.append(measure(features.float(), self.setup(settings).reference, ["kid"])["kid"])
        return pooled(parts)

    @torch.no_grad()  # here only: Gaussian processes are fitted by gradients
    def features(self, settings: Settings, seed: int, samples: int) -> Tensor:
        """Features of a cell, float16, from the folder if they are there; none if it diverged."""
        key = hashlib.sha256(f"{spelling(settings)} {seed} {samples}".encode()).hexdigest()[:20]
        file = self._folder / f"{key}.npy"
        if not file.exists():
            setup = self.setup(settings)
            drawn = draw(setup.bundle.score_model, setup.source, settings, seed, samples, "cpu")
            found = torch.zeros(0) if drawn.reason else extract(setup.extractor, drawn.pixels)
            np.save(file, found.half().numpy())
        return torch.from_numpy(np.load(file))


def spelling(settings: Settings) -> str:
    return settings.model_dump_json(exclude_none=True, exclude_unset=True)


@dataclass
class Search:
    """A search that goes on as far as it is asked to."""

    name: str
    bench: Bench
    study: Study
    next_one: Callable[[list[FrozenTrial]], Proposal | None]
    history: list[FrozenTrial] = field(default_factory=list)
    spelt: list[str] = field(default_factory=list)

    def trial(self, index: int) -> bool:
        """Whether the search has a trial of this index; it is run if need be."""
        while len(self.history) <= index:
            proposal = self.next_one(self.history)
            if proposal is None:
                return False
            settings = self.study.settings(proposal.params)
            found = self.bench.measured(spelling(settings), SEARCH)
            state = TrialState.PRUNED if found is None else TrialState.COMPLETE
            value = None if found is None else found.value
            number = len(self.history)
            self.history.append(finished(self.study, number, proposal, value, state))
            self.spelt.append(spelling(settings))
            print(f"{self.name} {number}: {value} {proposal.params}", file=sys.stderr, flush=True)
        return True

    def best(self, count: int) -> str | None:
        """The configuration that is ranked first after so many trials."""
        done = [(t.values[0], i) for i, t in enumerate(self.history[:count]) if t.values]
        return self.spelt[min(done)[1]] if done else None

    def trials_to(self, target: str, most: int) -> float:
        """How many trials it takes to come within the noise of the target; inf if more than
        `most`."""
        for count in range(1, most + 1):
            if not self.trial(count - 1):
                break
            best = self.best(count)
            if best is not None and within_noise(self.bench, best, target):
                return count
        return math.inf


def within_noise(bench: Bench, spelt: str, target: str) -> bool:
    mine, theirs = (bench.measured(each, bench.comparison) for each in (spelt, target))
    if mine is None or theirs is None:
        return False
    apart = paired_difference(mine, theirs)
    return apart.value <= bench.errors * apart.error


def by_method(bench: Bench, name: str, study: Study) -> Search:
    return Search(name, bench, study, lambda history: propose(study, len(history), history))


def by_grid(bench: Bench, name: str, seed: int) -> Search:
    """The grid in random order: no order is the right one, and the best of it may come last."""
    rows = list(grid_rows(bench.inits))
    order = np.random.default_rng(seed).permutation(len(rows))
    study = bench.study("grid", PAPER_KNOBS)

    def next_one(history: list[FrozenTrial]) -> Proposal | None:
        done = len(history)
        return Proposal(rows[order[done]], {}) if done < len(rows) else None

    return Search(name, bench, study, next_one)


def grid_rows(inits: Iterable[str]) -> Iterator[dict[str, Any]]:
    every = {"init": inits, **GRID}
    return (dict(zip(every, row, strict=True)) for row in itertools.product(*every.values()))


def searches_of(bench: Bench, count: int) -> dict[str, list[Search]]:
    """The searches by the name of their method."""
    seeds = range(count)
    studies = {
        "law": [bench.study("law")],
        "law, best start last": [bench.study("law", reverse=True)],
        "tpe": [bench.study("tpe", seed=seed) for seed in seeds],
        "gp": [bench.study("gp", seed=seed) for seed in seeds],
        "tpe on chi, r, n": [bench.study("tpe", PAPER_KNOBS, seed) for seed in seeds],
    }
    every = {name: [by_method(bench, name, s) for s in group] for name, group in studies.items()}
    every["grid"] = [by_grid(bench, "grid", seed) for seed in range(count)]
    return every


def best_known(bench: Bench, searches: Iterable[Search]) -> str:
    """The best, measured again, of the three that each search ranks highest."""
    spelt: dict[str, None] = {}
    for search in searches:
        done = sorted((t.values[0], i) for i, t in enumerate(search.history) if t.values)
        spelt |= dict.fromkeys(search.spelt[i] for _, i in done[:3])
    found = {each: bench.measured(each, CHOICE) for each in spelt}
    return min((m.value, each) for each, m in found.items() if m is not None)[1]


def compared(bench: Bench, trials: int, count: int) -> None:
    """Run the searches until each has come as far as the best known, and print the table."""
    every = searches_of(bench, count)
    every["law"][0].trial(trials - 1)
    flat, target = [search for group in every.values() for search in group], ""
    while target != (target := best_known(bench, [s for s in flat if s.history])):
        needed = {name: [s.trials_to(target, trials) for s in every[name]] for name in every}
    print_table(bench, target, every, needed, trials)


def print_table(
    bench: Bench,
    target: str,
    every: Mapping[str, list[Search]],
    needed: Mapping[str, list[float]],
    trials: int,
) -> None:
    tried = {spelt for group in every.values() for search in group for spelt in search.spelt}
    print(f"\n**{bench.bundle}**, {len(tried)} configurations tried. Best known: KID", end=" ")
    print(f"{shown(bench, target)} on fresh seeds, `{target}`")
    size = len(list(grid_rows(bench.inits)))
    print(
        f"The whole grid: {size:,} trials, {size * COST:,} evaluations. The paper's settings: KID"
    )
    study = bench.study("grid", PAPER_KNOBS)
    own = [spelling(study.settings(row)) for row in bench.tuned]
    print(", ".join(shown(bench, each) for each in own) + " on fresh seeds.\n")
    print(
        "| method | trials to come as far, of each search | median | evaluations, median |", end=""
    )
    print(" KID on fresh seeds of what it ranks first by then |\n|---|---|---|---|---|")
    for name, counts in needed.items():
        middle = median(counts)
        spent = f"{middle * COST:,.0f}" if middle < math.inf else f"> {trials * COST:,}"
        bests = [s.best(int(min(c, trials))) for s, c in zip(every[name], counts, strict=True)]
        last = sorted(bench.measured(b, bench.comparison).value for b in bests if b)  # type: ignore[union-attr]
        spread = f"{last[0]:.3f}" + (f" to {last[-1]:.3f}" if len(last) > 1 else "")
        each = ", ".join(count_text(count, trials) for count in sorted(counts))
        print(f"| {name} | {each} | {count_text(middle, trials)} | {spent} | {spread} |")


def count_text(count: float, most: int) -> str:
    return f"{count:g}" if count < math.inf else f"> {most}"


def shown(bench: Bench, spelt: str) -> str:
    found = bench.measured(spelt, bench.comparison)
    assert found is not None
    return f"{found.value:.4f} ± {found.estimate.error:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("bundle")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--searches", type=int, default=3)
    parser.add_argument("--compare", type=int, default=256)
    parser.add_argument("--errors", type=float, default=2.0)
    chosen = parser.parse_args()
    bench = Bench(chosen.bundle, chosen.folder, chosen.compare, chosen.errors)
    compared(bench, chosen.trials, chosen.searches)


if __name__ == "__main__":
    main()
