"""Studies of one family on several datasets: which configurations do well on all of them.

A run is one seed on one dataset. Its gap makes datasets comparable: 0 for held-out images, 1 for
the configuration that the others are compared with. Performance profiles and interquartile means of
the gaps have rliable's definitions (Agarwal et al. 2021), the intervals its stratified bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ablate.report.blocks import Block, Figure, Row, Table, numbers, words
from ablate.report.evidence.against import iqm
from ablate.report.knobs import distinguishing
from ablate.report.names import configuration, in_order, metric_name, number
from ablate.report.paired import searched_group
from ablate.report.ranking import contenders, ranking
from ablate.report.shapes import Axis, Profile, Profiles
from ablate.report.standing import SEARCH, origin
from ablate.report.steps import step_names
from ablate.report.summary import dataset
from ablate.results import INTERVAL, StudyResults, Trial

RESAMPLES = 2000
"""Of the bootstrap, which is seeded: the same runs give the same interval."""

MOST = 8
"""Configurations in the figure, at most."""

LEAST = 1e-3
"""Smaller gaps stand at the left edge of the figure: chance makes some of them negative."""

Gaps = Mapping[str, Sequence[Sequence[float]]]
"""Configuration -> dataset -> the gap of each run."""


class Across(NamedTuple):
    """What studies of one family have in common."""

    metric: str
    base: str  # the configuration whose gap is 1
    datasets: list[str]
    gaps: Gaps
    without: list[str]  # datasets on which the base cannot be told from real images: no gap


def blocks(records: Sequence[StudyResults]) -> list[Block]:
    """Profiles and interquartile means of the configurations that all of these studies have."""
    found = across(records)
    if found is None:
        return []
    order = _by_gap(found)
    return [Figure("profiles", _caption(found, order), profiles(found, order)), table(found, order)]


def sentence(records: Sequence[StudyResults]) -> str:
    """Which configuration has the smallest gap over all runs; empty if there are no gaps."""
    found = across(records)
    if found is None:
        return ""
    best = _by_gap(found)[0]
    low, high = (number(each, 2) for each in interval(found.gaps[best]))
    return (
        f"Over {len(found.datasets)} datasets the least is left by {best.removeprefix('… + ')}:"
        f" {number(iqm(_pooled(found.gaps[best])), 2)} of how far {found.base} is from held-out"
        f" images by {found.metric} (interquartile mean over seeds and datasets, 95 %: {low} to"
        f" {high})."
    )


def _by_gap(found: Across) -> list[str]:
    """The configurations, smallest interquartile mean first."""
    return sorted(found.gaps, key=lambda name: iqm(_pooled(found.gaps[name])))


def across(records: Sequence[StudyResults]) -> Across | None:
    """The gaps of the shared configurations; None for fewer than two of them, or of datasets."""
    named = [_named(record, records) for record in records]
    shared = [name for name in named[0] if all(name in each for each in named)]
    if len(shared) < 2:
        return None
    base = min(shared, key=lambda name: named[0][name].number)
    scales = [_scale(record, own[base]) for record, own in zip(records, named, strict=True)]
    datasets = [dataset(record) for record, scale in zip(records, scales, strict=True) if scale]
    gaps = {
        name: [
            _gaps(record, own[name], scale)
            for record, own, scale in zip(records, named, scales, strict=True)
            if scale is not None
        ]
        for name in shared
    }
    metric = metric_name(records[0], records[0].objectives[0].metric)
    without = [dataset(record) for record in records if dataset(record) not in datasets]
    return Across(metric, base, datasets, gaps, without) if len(datasets) > 1 else None


class Scale(NamedTuple):
    """What a dataset's gaps are measured by."""

    real: float  # what held-out images have: gap 0
    unit: float  # how far the base is from that: gap 1


def _gaps(record: StudyResults, trial: Trial, scale: Scale) -> list[float]:
    values = searched_group(record).values[trial.number]
    return [(value - scale.real) / scale.unit for value in values]


def _scale(record: StudyResults, base: Trial) -> Scale | None:
    """None without held-out images, or if the base cannot be told from them: a gap would be the
    ratio of two errors."""
    metric = record.objectives[0].metric
    held = [v for name, v in record.baselines.items() if name.startswith("held-out")]
    if not held or metric not in held[0]:
        return None
    unit = base.metrics[metric] - held[0][metric]
    doubt = base.intervals.get(metric, 0.0) + held[0].get(metric + INTERVAL, 0.0)
    worse = record.objectives[0].sign * unit > doubt
    return Scale(held[0][metric], unit) if worse else None


def _named(record: StudyResults, records: Sequence[StudyResults]) -> dict[str, Trial]:
    """Trials by a name that means the same in every study: a step, where a setting comes from, or
    the knobs that vary in any of the studies."""
    group, steps = searched_group(record), step_names(record)
    knobs = in_order({knob for each in records for knob in distinguishing(each)})
    named: dict[str, Trial] = {}
    for trial in (each for each in ranking(record) if each.number in group):
        source = origin(record, trial)
        if source == SEARCH:
            source = "the best that a search found" if trial is contenders(record)[0] else ""
        elif not source:
            source = steps.get(trial.number, "" if steps else configuration(record, trial, knobs))
        if source:
            named.setdefault(source, trial)
    return named


def _pooled(gaps: Sequence[Sequence[float]]) -> list[float]:
    return [gap for runs in gaps for gap in runs]


def profiles(found: Across, order: Sequence[str]) -> Profiles:
    """The share of runs whose gap is at most τ, over τ; rliable's has those above, since it takes
    more for better."""
    shown = order if len(order) <= MOST else [*order[: MOST - 1], order[-1]]
    pooled = {name: sorted(max(gap, LEAST) for gap in _pooled(found.gaps[name])) for name in shown}
    right = max(1.0, *(gaps[-1] for gaps in pooled.values()))
    lines = []
    for name, gaps in pooled.items():
        steps = [(gap, (place + 1) / len(gaps)) for place, gap in enumerate(gaps)]
        lines.append(Profile(name, [(LEAST, 0.0), *steps, (right, 1.0)]))
    return Profiles(Axis(f"τ, the gap of {found.metric}", log=True), lines)


def table(found: Across, order: Sequence[str]) -> Table:
    """Interquartile mean with its interval, and the mean on each dataset."""
    header = [words("configuration"), numbers("iqm", "IQM", 3)]
    header += [numbers("low", "from", 3), numbers("high", "to", 3)]
    header += [numbers(name, digits=3) for name in found.datasets]
    rows: list[Row] = []
    for name in order:
        gaps = found.gaps[name]
        rows.append((name, iqm(_pooled(gaps)), *interval(gaps), *(fmean(runs) for runs in gaps)))
    caption = (
        "Interquartile mean (IQM) of the gap over all runs: without the lowest and the highest"
        " quarter. From … to: 95 % interval by the bootstrap over the seeds of each dataset; it"
        " holds neither other datasets nor other networks. On the right the mean gap on each"
        " dataset."
    )
    return Table("across", caption, header, rows)


def interval(gaps: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % interval of the interquartile mean: runs are drawn again within each dataset."""
    generator = np.random.default_rng(0)
    drawn = [
        np.asarray(runs)[generator.integers(len(runs), size=(RESAMPLES, len(runs)))]
        for runs in gaps
    ]
    pooled = np.sort(np.concatenate(drawn, axis=1), axis=1)  # [RESAMPLES, runs]
    cut = pooled.shape[1] // 4
    means = pooled[:, cut : pooled.shape[1] - cut].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _caption(found: Across, order: Sequence[str]) -> str:
    runs = len(_pooled(found.gaps[order[0]]))
    some = f" The {MOST} shown are the best and the worst." * (len(order) > MOST)
    left = ", ".join(found.without)
    none = f" On {left} it cannot be told from these, so there is no gap." * bool(left)
    return (
        f"Performance profiles over {runs} runs on {len(found.datasets)} datasets: the share of"
        f" runs whose gap is at most τ. Gap: how far {found.metric} is from that of held-out"
        f" images, in units of how far {found.base} is.{none} A line further up and to the left is"
        f" better.{some}"
    )
