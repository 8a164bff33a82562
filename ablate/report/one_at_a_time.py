"""StudyResults -> what each step of a ladder does alone, where steps are alternatives."""

from __future__ import annotations

from typing import Any

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.columns import DIVERSITY, metric_columns
from ablate.report.names import Item, bracketed, estimate, metric_name, text
from ablate.report.steps import changes, effect, trial_of
from ablate.results import StudyResults


def sentences(results: StudyResults) -> list[str]:
    """What the steps do alone, for the answer: which change the base, the best first."""
    metric = results.ladder["metrics"][0]
    sign = {o.metric: o.sign for o in results.objectives}.get(metric, 1)
    steps = [step for step in results.ladder["steps"] if step["add_one"] is not None]
    base = trial_of(results, results.ladder["cumulative"][0]["trial"])
    if base is None or not steps:
        return []
    steps.sort(key=lambda step: sign * step["add_one"][metric]["value"])
    clear = [step for step in steps if step["add_one"][metric]["excludes_zero"]]
    alike = [step for step in steps if step not in clear]
    sign_between = ";" if any("," in step["name"] for step in steps) else ","
    said = [f"changes with {_listed(clear, metric, sign_between)}"] * bool(clear)
    said += [f"no change shows from {_listed(alike, metric, sign_between)}"] * bool(alike)
    of_base = f"{metric_name(results, metric)} {text(estimate(base, metric))} of the base"
    return [f"{of_base}{' ' if clear else ': '}{'; '.join(said)} (95 %, of {results.variation})."]


def _listed(steps: list[dict[str, Any]], metric: str, sign_between: str) -> str:
    """AdamW (+0.017 ± 0.004), half of the rate (−0.01 ± 0.02); names with commas need other signs
    between them."""
    return f"{sign_between} ".join(f"{step['name']} {_signed(step, metric)}" for step in steps)


def _signed(step: dict[str, Any], metric: str) -> str:
    change = effect(step["add_one"], metric)
    assert change is not None
    shown = text(change)
    return bracketed(f"+{shown}" if change.value > 0 and not shown.startswith("(") else shown)


def one_at_a_time(results: StudyResults, metric: str, ending: str = "") -> Table:
    """A row for the base, then one for each step alone, with its change from the base."""
    name = metric_name(results, metric)
    also = [m for m in DIVERSITY if any(m in trial.metrics for trial in results.trials)]
    header = [words("step"), numbers("trial"), *metric_columns(results, [metric])]
    header += [numbers("change", f"change of {name}"), *metric_columns(results, also)]
    header.append(words("changes", "what changes"))
    base, *_ = results.ladder["cumulative"]
    rows: list[Row] = []
    for step in (base, *results.ladder["steps"]):
        trial = trial_of(results, step["trial"])
        measured: list[Item] = [trial and estimate(trial, each) for each in (metric, *also)]
        change = None if step is base else effect(step["add_one"], metric)
        head = ("base" if step is base else f"+ {step['name']}", step["trial"])
        what = changes(results, step["changes"])
        rows.append((*head, measured[0], change, *measured[1:], what))
    caption = (
        f"The base, and the base with each step alone. Change: {name} of this row less that of the "
        "base, over pairs of images from the same noise and, where networks are trained, of the "
        f"same training seeds, with its 95 % interval, of {results.variation}."
    )
    return Table(f"one_at_a_time{ending}", caption, header, rows)
