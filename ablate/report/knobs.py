"""StudyResults -> which knobs a study varied, which it kept fixed, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.report.blocks import Legend
from ablate.report.names import LEGEND, in_order, knob_name, shown, text
from ablate.results import StudyResults, Trial, Value


def knob_values(trials: Iterable[Trial], knob: str) -> list[Value]:
    """The distinct values of a knob, in order; numbers before words."""
    values = {t.params[knob] for t in trials if knob in t.params}
    return sorted(values, key=lambda v: (isinstance(v, str), v))


def is_scale(values: list[Value]) -> bool:
    """Whether these are numbers, not names."""
    return not any(isinstance(value, str) for value in values)


def varied(results: StudyResults) -> list[str]:
    """The knobs that took more than one value; delta only where r does not say it all, and rho,
    which follows from r and chi, only where it was searched."""
    knobs = in_order({knob for t in results.trials for knob in t.params})
    several = [knob for knob in knobs if len(knob_values(results.trials, knob)) > 1]
    implied = {"delta"} if "r" in several else set()
    implied |= {"rho"} - set(results.spec.get("search", {}))
    return [knob for knob in several if knob not in implied]


def implied(results: StudyResults) -> list[str]:
    """The knobs that took several values, which follow from others: a table of all has them."""
    knobs = in_order({knob for t in results.trials for knob in t.params})
    several = [knob for knob in knobs if len(knob_values(results.trials, knob)) > 1]
    return [knob for knob in several if knob not in varied(results)]


def distinguishing(results: StudyResults) -> list[str]:
    """The knobs that name a trial: the varied ones, and those whose only value some trials have
    and others, else alike, do not."""
    several = varied(results)
    alike: dict[tuple[Value | None, ...], list[Trial]] = {}
    for trial in results.trials:
        alike.setdefault(tuple(trial.params.get(knob) for knob in several), []).append(trial)
    telling = {
        knob
        for knob in fixed(results)
        for group in alike.values()
        if len({knob in trial.params for trial in group}) > 1
    }
    return in_order({*several, *telling})


def fixed(results: StudyResults) -> dict[str, Value]:
    """The knobs that took one value, with it."""
    knobs = in_order({knob for t in results.trials for knob in t.params})
    values = {knob: knob_values(results.trials, knob) for knob in knobs}
    return {knob: taken[0] for knob, taken in values.items() if len(taken) == 1}


def legend(results: StudyResults) -> Legend:
    """What the knobs mean, and which were kept fixed."""
    names = distinguishing(results)
    constant = {knob: value for knob, value in fixed(results).items() if knob not in names}
    known = LEGEND | dict(results.vocabulary.knobs)
    return Legend(
        {knob_name(k): known[k] for k in [*names, *constant] if k in known},
        {knob_name(k): text(shown(results, value)) for k, value in constant.items()},
        frozenset(knob_name(k) for k in constant if any(k not in t.params for t in results.trials)),
        any(results.leaks(trial) for trial in results.trials),
    )
