"""Confirmation: the best configurations, measured again on seeds that did not choose them.

The best of many configurations was lucky, so its value in the search is too good. After the search
the best few, and the configurations that they are compared with, are drawn again with fresh seeds,
all with the same ones. The answer of a study is given in these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from torch import Tensor

from ablate.core.holm import holm
from ablate.core.nested import half_width
from ablate.diffusion.inits import INITS
from ablate.experiment.prepare import Setup
from ablate.experiment.replicates import firsts
from ablate.metrics.estimate import Measured, pooled
from ablate.metrics.over_seeds import contrast_over_seeds
from ablate.metrics.reference import measure
from ablate.metrics.registry import METRICS
from ablate.search import Entry, searched
from ablate.study.definition import Study

Features = Callable[[int, int], Tensor]
"""(trial, seed) -> features of its samples, [N, f]."""


def planned(study: Study) -> int:
    """The most confirmations that a study can have."""
    return _top(study) + len(_named(study)) if _measured(study) else 0


def _measured(study: Study) -> bool:
    """Whether the first objective is measured on images: of a cost there is nothing to confirm."""
    return METRICS[study.objectives[0].metric].measure is not None


def _top(study: Study) -> int:
    return min(study.confirm.top, study.trials // 4)


def _named(study: Study) -> dict[str, int]:
    """What the best are compared with -> its place, as far as the study has so many trials."""
    return {name: at for name, at in study.confirm.named.items() if at < study.trials}


def to_confirm(study: Study, entries: Sequence[Entry]) -> list[Entry]:
    """The trials whose configurations are measured again, once the search has ended."""
    own = searched(entries)
    unfinished = len(own) < study.trials or any(entry.running for entry in own)
    if unfinished or not _measured(study):
        return []
    compared = [own[place] for place in _named(study).values()]
    drawn = [entry for entry in compared if entry.state in ("complete", "pruned")]
    chosen = {entry.number: entry for entry in (*best_few(study, own), *drawn)}
    return list(chosen.values())


def best_few(study: Study, own: Sequence[Entry]) -> list[Entry]:
    """The best configurations that start from no training images; those of several objectives are
    the best by the first of them among all that no other beats."""
    done = [
        entry
        for entry in firsts(study, own)
        if entry.state == "complete" and entry.feasible and not _leaks(study, entry)
    ]
    signs = [objective.sign for objective in study.objectives]
    costs = {
        e.number: tuple(sign * value for sign, value in zip(signs, e.values, strict=True))
        for e in done
    }
    unbeaten = [e for e in done if not any(_beats(c, costs[e.number]) for c in costs.values())]
    return sorted(unbeaten if len(signs) > 1 else done, key=lambda e: (costs[e.number], e.number))[
        : _top(study)
    ]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _leaks(study: Study, entry: Entry) -> bool:
    init = INITS.get(str({**study.fixed, **entry.params}.get("init")))
    return init is not None and init.leaks_data


def unconfirmed(study: Study, entries: Sequence[Entry]) -> list[Entry]:
    """The trials that are still to be measured again."""
    begun = {entry.confirms for entry in entries}
    return [entry for entry in to_confirm(study, entries) if entry.number not in begun]


def is_done(study: Study, entries: Sequence[Entry]) -> bool:
    """Whether a study has all its trials and confirmations."""
    enough = len(searched(entries)) >= study.trials
    ended = not any(entry.running for entry in entries)
    return enough and ended and not unconfirmed(study, entries)


class Again(NamedTuple):
    """A configuration measured again."""

    entry: Entry
    again: int  # the trial that did so
    name: str | None  # what the others are compared with it as
    cells: list[Measured]  # by fresh seed
    feasible: bool  # within all constraints on the fresh seeds, too

    @property
    def measured(self) -> Measured:
        """Over all fresh seeds."""
        return pooled(self.cells)


def confirmation_document(
    setup: Setup, entries: Sequence[Entry], features: Features
) -> dict[str, Any] | None:
    """The confirmed values, and how they compare; None if nothing was measured again."""
    study = setup.study
    metric, sign = study.objectives[0].metric, study.objectives[0].sign
    rows = _rows(setup, entries, features)
    if not rows:
        return None
    top = {entry.number for entry in best_few(study, searched(entries))}
    top &= {row.entry.number for row in rows if row.feasible}
    best = sorted((row for row in rows if row.entry.number in top), key=lambda r: _cost(r, sign))
    trained = [study.training_seed(seed) for seed in study.confirm.seeds]
    pairs = compare(list(combinations(best, 2)), sign, trained)
    for other in rows:
        if other.name is not None and other.entry.number not in top:
            pairs += compare([(row, other) for row in best], sign, trained)
    return {
        "metric": metric,
        "samples": study.confirm.samples,
        "seeds": list(study.confirm.seeds),
        "trials": [_row(row, row.entry.number in top, sign, trained) for row in rows],
        "pairs": pairs,
    }


def _cost(row: Again, sign: int) -> float:
    return sign * row.measured.value


def _rows(setup: Setup, entries: Sequence[Entry], features: Features) -> list[Again]:
    study, own = setup.study, searched(entries)
    names = {own[at].number: name for name, at in _named(study).items() if at < len(own)}
    wanted = {entry.number: entry for entry in to_confirm(study, entries)}
    metric, rows = study.objectives[0].metric, []
    for entry in entries:
        if entry.confirms in wanted and entry.state == "complete":
            cells = [
                measure(features(entry.number, seed).float(), setup.reference, [metric])[metric]
                for seed in study.confirm.seeds
            ]
            original = wanted[entry.confirms]
            name = names.get(original.number)
            rows.append(Again(original, entry.number, name, cells, entry.feasible))
    return rows


def _row(row: Again, top: bool, sign: int, training_seeds: Sequence[int | None]) -> dict[str, Any]:
    value, before, error = row.measured.value, row.entry.values, row.measured.sampling_error
    return {
        "trial": row.entry.number,
        "again": row.again,
        "name": row.name,
        "top": top,
        "feasible": row.feasible,
        "searched": before[0] if before else None,  # None if it diverged or was pruned
        "confirmed": value,
        "error": error,  # over images and sampling
        "half": half_width([cell.value for cell in row.cells], training_seeds, error),
        "optimism": sign * (value - before[0]) if before else None,
    }


def compare(
    pairs: Sequence[tuple[Again, Again]], sign: int, training_seeds: Sequence[int | None] = ()
) -> list[dict[str, Any]]:
    """Each pair's difference on shared noise; p-values are corrected for all of them (Holm)."""
    rows: list[dict[str, Any]] = []
    for one, other in pairs:
        gap = contrast_over_seeds([(1, one.cells), (-1, other.cells)], training_seeds)
        rows.append(
            {
                "trial": one.entry.number,
                "than": other.entry.number,
                "difference": gap.value,
                "error": gap.error,
                "half": gap.half,
                "probability": gap.below if sign > 0 else 1 - gap.below,  # the first is better
                "p": 2 * min(gap.below, 1 - gap.below),
            }
        )
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["holm"] = adjusted
    return rows
