"""StudyResults -> what each step of an ablation ladder does: tables and a figure."""

from __future__ import annotations

from typing import Any

from ablate.report.blocks import (
    Block,
    Column,
    Details,
    Paragraph,
    Row,
    Table,
    numbers,
    words,
)
from ablate.report.columns import metric_columns
from ablate.report.ladder_figure import figure, step_name
from ablate.report.names import (
    Estimate,
    Item,
    baseline_name,
    bracketed,
    estimate,
    metric_label,
    metric_name,
    text,
)
from ablate.report.one_at_a_time import one_at_a_time
from ablate.report.one_at_a_time import sentences as alone
from ablate.report.steps import changes, effect, trial_of
from ablate.results import INTERVAL, StudyResults

DIVERSITY = ("recall", "coverage")
"""Metrics that stand beside the first one: a step may trade diversity for fidelity."""


def blocks(results: StudyResults) -> list[Block]:
    """The ladder of a study that has one: its figure, its tables, and what has no result."""
    if not results.ladder:
        return []
    first, *others = results.ladder["metrics"]
    made: list[Block] = [*(figure(results, first) if is_climbed(results) else [])]
    made += _tables(results, first)
    for metric in others:
        name = metric_label(results, metric)
        titles = [f"The ladder by {name}", f"The effect of each step on {name}"]
        tables = _tables(results, metric, f"_{metric}")
        made += [Details(*each) for each in zip(titles[-len(tables) :], tables, strict=True)]
    if left_out := results.ladder["left_out"]:
        named = (f"{each['configuration']} ({each['reason']})" for each in left_out)
        made.append(Paragraph(f"Without a result: {'; '.join(named)}."))
    return made


def is_climbed(results: StudyResults) -> bool:
    """Whether steps are taken one after another; older records have no choice."""
    return "cumulative" in results.ladder.get("combinations", ["cumulative"])


def _tables(results: StudyResults, metric: str, ending: str = "") -> list[Table]:
    """The ladder and the effect of each step; of each step alone, if that is all there is."""
    if results.ladder.get("combinations") == ["add-one"]:
        return [one_at_a_time(results, metric, ending)]
    climbed = [cumulative(results, metric, ending)] if is_climbed(results) else []
    return [*climbed, by_step(results, metric, ending)]


def sentences(results: StudyResults) -> list[str]:
    """What the ladder says, for the answer: from where to where, and by which steps."""
    if results.ladder and not is_climbed(results):
        return alone(results)
    rungs = results.ladder["cumulative"] if results.ladder else []
    ends = [trial_of(results, rung["trial"]) for rung in (rungs[:1] + rungs[-1:])]
    changed = [rung for rung in rungs if rung["change"] is not None]
    if not changed or None in ends:
        return []
    metric = results.ladder["metrics"][0]
    base, top = (text(estimate(trial, metric)) for trial in ends if trial)
    name, first, last = metric_name(results, metric), _spent(rungs[0]), _spent(rungs[-1])
    ends_at = f"{name} goes from {base} ({first}) to {top} ({last})"
    steps = _step_by_step(changed, metric)
    return [f"From the base to the last of {_steps(len(changed))} {ends_at}: {steps}."]


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count} steps"


def _spent(rung: dict[str, Any]) -> str:
    """20 evaluations a sample, for 6,019 of the literal run"""
    nfe, literal = int(rung["nfe"]), int(rung["literal_nfe"])
    spent = f"{nfe:,} evaluation{'s' * (nfe > 1)} a sample"
    return spent + f", for {literal:,} of the literal run" * (literal != nfe)


def _step_by_step(changed: list[dict[str, Any]], metric: str) -> str:
    """by a −0.3 ± 0.1, b +0.2 ± 0.1; no change shows from c (0.0 ± 0.1) (paired, 95 %)"""
    clear: list[str] = []
    alike: list[str] = []
    for rung in changed:
        by = effect(rung["change"], metric)
        assert by is not None
        if rung["change"][metric]["excludes_zero"]:
            clear.append(f"{rung['name']} {'+' * (by.value > 0)}{text(by)}")
        else:
            alike.append(f"{rung['name']} {bracketed(text(by))}")
    said = [f"by {', '.join(clear)}"] * bool(clear)
    said += [f"no change shows from {', '.join(alike)}"] * bool(alike)
    return f"{'; '.join(said)} (paired, 95 %)"


def last_trial(results: StudyResults) -> int | None:
    """The trial of the ladder's last step, if it has a result."""
    rungs = results.ladder["cumulative"] if results.ladder and is_climbed(results) else []
    return rungs[-1]["trial"] if rungs else None


def cumulative(results: StudyResults, metric: str, ending: str = "") -> Table:
    """A row for the base and for each further step, with what the step changed and its cost."""
    rungs, also = results.ladder["cumulative"], _also(results)
    stands_for = any(rung["literal_nfe"] != rung["nfe"] for rung in rungs)
    name = metric_name(results, metric)
    header = [words("step"), numbers("trial")]
    header += [*metric_columns(results, [metric]), numbers("change", f"change of {name}")]
    header += [*metric_columns(results, also), numbers("nfe", "NFE")]
    header += [numbers("literal_nfe", "literal NFE")] * stands_for + [numbers("seconds")]
    header.append(words("changes", "what changes"))
    rows: list[Row] = []
    for rung in rungs:
        trial = trial_of(results, rung["trial"])
        measured = (trial and estimate(trial, metric), effect(rung["change"], metric))
        others = (trial and estimate(trial, each) for each in also)
        costs = (rung["nfe"], *([rung["literal_nfe"]] * stands_for))
        last = (trial and estimate(trial, "seconds"), changes(results, rung["changes"]))
        head = (step_name(rung, rungs), rung["trial"])
        rows.append((*head, *measured, *others, *costs, *last))
    caption = (
        f"The ladder: each row takes one more step. Change: {name} of this row less that of the "
        "row above, over pairs of images from the same noise, with its 95 % interval. NFE: network "
        "evaluations a sample" + "; literal: of the run that they stand for" * stands_for + ". "
        "Baselines are set apart."
    )
    return Table(f"ladder{ending}", caption, header, rows, _apart(results, metric, header))


def by_step(results: StudyResults, metric: str, ending: str = "") -> Table:
    """A row for each step: alone, beside all others, and how these two effects differ."""
    name = metric_name(results, metric)
    header = [words("step"), numbers("add_one", "added to the base")]
    header += [numbers("leave_one_out", "beside all others"), numbers("interaction")]
    header.append(words("reading"))
    rows: list[Row] = [
        (
            step["name"],
            *(effect(step[key], metric) for key in ("add_one", "leave_one_out", "interaction")),
            _reading(results, step, metric),
        )
        for step in results.ladder["steps"]
    ]
    caption = (
        f"What each step does to {name}, with the step less without it: added to the base alone, "
        "and beside all other steps (the top less the top without it). Interaction: the second "
        "effect less the first. All with paired 95 % intervals; of intervals around a true zero, "
        "one in twenty excludes it."
    )
    return Table(f"ladder_steps{ending}", caption, header, rows)


def _reading(results: StudyResults, step: dict[str, Any], metric: str) -> str | None:
    """What the interaction of a step says, in words."""
    if step["leave_one_out_is_top"]:
        return "not in use once all steps are taken"
    if step["add_one_is_base"]:
        return "no meaning without the steps before it"
    if step["interaction"] is None:
        return None
    found = step["interaction"][metric]
    if not found["excludes_zero"]:
        return "no interaction shown"
    signs = {o.metric: o.sign for o in results.objectives}
    less = signs.get(metric, 1) * found["value"] > 0
    return f"does {'less' if less else 'more'} good beside the others"


def _also(results: StudyResults) -> list[str]:
    """Metrics of diversity that the trials have."""
    return [m for m in DIVERSITY if any(m in trial.metrics for trial in results.trials)]


def _apart(results: StudyResults, metric: str, header: list[Column]) -> list[Row]:
    """The baselines, below the columns of the metrics that they have."""
    keys = [column.key for column in header]
    shown_keys = keys[keys.index(metric) :]
    rows: list[Row] = []
    for label, measured in results.baselines.items():
        items: list[Item] = [
            Estimate(measured[key], measured.get(key + INTERVAL)) if key in measured else None
            for key in shown_keys
        ]
        if any(item is not None for item in items):
            rows.append((baseline_name(label), *items))
    return rows
