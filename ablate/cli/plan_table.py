"""What `ablate study --plan` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.cli.console import plural, print_json, print_table, say

if TYPE_CHECKING:
    from ablate.experiment.cost import Plan, Work
    from ablate.study.definition import Study


def print_plan(plan: Plan, study: Study, device: str, as_json: bool = False) -> None:
    """Print what a study will cost; a range of time if trials may be pruned."""
    if as_json:
        print_json({**_named(study), **plan._asdict(), "device": device})
        return
    about = "" if plan.exact else "about "
    span = duration(plan.seconds)
    if plan.least < plan.seconds:
        span = f"{duration(plan.least)} to {span}, depending on how many are pruned"
    rows = [
        *_counted(plan),
        *([("networks to train", _trainings(plan))] if plan.networks else []),
        (f"time on this {device}", f"{about}{span}"),
        ("disk", f"about {plan.bytes / 1e6:,.0f} MB"),
        *_limits(study),
    ]
    print_table(["the whole study, with one worker", ""], rows)


def print_work(work: Work, study: Study, missing: str, as_json: bool = False) -> None:
    """Print what a study does whose bundle is not here; missing: what is said of the bundle."""
    if as_json:
        counted = {"cells": work.cells, "evaluations": work.evaluations, "exact": work.exact}
        counts = {"trials": work.trials, "confirmations": work.confirmations, **counted}
        print_json({**_named(study), **counts, "missing": missing})
        return
    print_table(["the whole study", ""], [*_counted(work), *_limits(study)])
    say(f"time and disk are not known: {missing}")


def _named(study: Study) -> dict[str, object]:
    return {"study": study.name, "budget": study.budget, "bundle": study.bundle}


def _counted(plan: Plan | Work) -> list[tuple[str, str]]:
    about = "" if plan.exact else "about "
    again = f", {plural(plan.confirmations, 'confirmation')}" if plan.confirmations else ""
    return [
        ("cells", f"{plan.cells:,} ({plural(plan.trials, 'trial')}{again})"),
        ("network evaluations", f"{about}{plan.evaluations:,} of single images"),
    ]


def _limits(study: Study) -> list[tuple[str, str]]:
    limits = [f"{study.minutes:g} minutes"] if study.minutes is not None else []
    limits += [f"{study.evaluations:,} evaluations"] if study.evaluations is not None else []
    return [("begins no trial after", " or ".join(limits))] if limits else []


def _trainings(plan: Plan) -> str:
    return f"{plan.networks}, for {duration(plan.training)} of the time"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
