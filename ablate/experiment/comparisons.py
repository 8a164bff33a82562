"""What it takes to compare any trials of a study in pairs, written once at its end.

All trials share the noise of a seed, so the error of a difference is far smaller than those of its
terms. Reports know nothing of features; they get the covariance of the trials' values, from the
influence of every image, and with it the interval of any contrast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ablate.core.asked import asked
from ablate.experiment.confirmation import Features, to_confirm
from ablate.experiment.prepare import Setup
from ablate.experiment.replicates import firsts
from ablate.metrics.estimate import Measured, pooled
from ablate.metrics.reference import measure
from ablate.metrics.registry import METRICS
from ablate.search import Entry, searched
from ablate.study.definition import Study

MOST = 200
"""Trials that are compared, the best first: the size of the document grows with their square."""

DIGITS = 7
"""Significant digits of covariances: small differences of trials that hardly differ need them."""


def comparisons_document(
    setup: Setup, entries: Sequence[Entry], features: Features
) -> dict[str, Any]:
    """Groups of trials, each with the values of its cells and their covariance, by metric.

    complete: every complete trial, on all samples. confirmed: what was measured again, on fresh
    seeds, by the number in the search. common: complete and pruned trials together, by the first
    objective, on the first samples of the first seed, of which the shortest of them has enough.
    """
    study, own = setup.study, searched(entries)
    metrics = _metrics(study)
    if not metrics:
        return {}
    complete = [entry for entry in firsts(study, own) if entry.state == "complete"]
    done = _best_first(study, complete)[:MOST]
    drawn = {e.number: {s: features(e.number, s).float() for s in study.seeds} for e in done}
    return {
        "complete": _group(setup, drawn, metrics),
        "confirmed": _group(setup, _again(study, entries, features), metrics),
        "common": _common(setup, own, drawn, features, metrics[:1]),
    }


def _metrics(study: Study) -> list[str]:
    """The objectives, and what the study asks about, as far as they are measured on features."""
    named = asked(study.answers).metrics if study.answers else ()
    wanted = dict.fromkeys([*(o.metric for o in study.objectives), *named])
    return [name for name in wanted if METRICS[name].measure is not None]


def _best_first(study: Study, entries: Sequence[Entry]) -> list[Entry]:
    sign = study.objectives[0].sign
    return sorted(entries, key=lambda entry: (sign * entry.values[0], entry.number))


def _again(
    study: Study, entries: Sequence[Entry], features: Features
) -> dict[int, dict[int, Tensor]]:
    """The features of what was measured again: number in the search -> fresh seed -> features."""
    wanted = {entry.number for entry in to_confirm(study, entries)}
    return {
        entry.confirms: {s: features(entry.number, s).float() for s in study.confirm.seeds}
        for entry in entries
        if entry.confirms in wanted and entry.state == "complete" and entry.confirms is not None
    }


def _common(
    setup: Setup,
    own: Sequence[Entry],
    drawn: Mapping[int, Mapping[int, Tensor]],
    features: Features,
    metrics: list[str],
) -> dict[str, Any]:
    """Complete and pruned trials at a common number of samples; nothing if none was pruned."""
    seed = setup.study.seeds[0]
    pruned = [entry for entry in own if entry.state == "pruned" and entry.values][:MOST]
    if not pruned:
        return {}
    found = {entry.number: features(entry.number, seed).float() for entry in pruned}
    found |= {number: cells[seed] for number, cells in drawn.items()}
    least = min(len(each) for each in found.values())
    same = {number: {seed: each[:least]} for number, each in sorted(found.items())}
    return _group(setup, same, metrics)


def _group(
    setup: Setup, drawn: Mapping[int, Mapping[int, Tensor]], metrics: list[str]
) -> dict[str, Any]:
    """The values and covariances of trials that share their seeds."""
    if not drawn:
        return {}
    seeds = list(next(iter(drawn.values())))
    measured = {
        number: [measure(each, setup.reference, metrics) for each in cells.values()]
        for number, cells in drawn.items()
    }
    return {
        "trials": list(measured),
        "seeds": seeds,
        "training_seeds": [setup.study.training_seed(seed) for seed in seeds],
        "samples": len(next(iter(next(iter(drawn.values())).values()))),
        "metrics": {
            name: {
                "values": [[cell[name].value for cell in cells] for cells in measured.values()],
                "covariance": covariance(
                    [pooled([cell[name] for cell in cells]) for cells in measured.values()]
                ),
            }
            for name in metrics
        },
    }


def covariance(trials: Sequence[Measured]) -> list[list[float]]:
    """The covariance of trials' values, row i up to column i: of the mean influence of samples and
    of reference images, which are pairs from trial to trial."""
    total = _of_means([each.samples for each in trials])
    total = total + _of_means([each.reference for each in trials])
    return [
        [float(f"{value:.{DIGITS}g}") for value in row[: i + 1]]
        for i, row in enumerate(total.tolist())
    ]


def _of_means(influences: Sequence[Tensor]) -> Tensor:
    """The covariance matrix of the means of paired influences, [T, N] -> [T, T]."""
    stacked = torch.stack([each.double() for each in influences])
    count = stacked.shape[1]
    if not count:
        return torch.zeros(len(stacked), len(stacked), dtype=torch.float64)
    covariance: Tensor = torch.atleast_2d(torch.cov(stacked))
    return covariance / count
