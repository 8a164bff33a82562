"""What a person sees in the terminal: lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ablate.report.coarse_trials import too_coarse
from ablate.report.columns import DIVERSITY, with_diversity
from ablate.report.knobs import distinguishing
from ablate.results import StudyResults, Trial

if TYPE_CHECKING:
    from ablate.experiment.cost import Plan
    from ablate.experiment.evaluate import Evaluation
    from ablate.metrics.estimate import Estimate
    from ablate.study.definition import Study

console = Console(markup=False)  # a question may hold brackets


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def trial_rows(record: StudyResults) -> list[dict[str, object]]:
    """The trials as plain objects: what `ablate results --json` prints."""
    confirmed = {row["trial"]: row for row in record.confirmation.get("trials", [])}
    return [
        {
            "number": trial.number,
            "state": trial.state,
            "params": trial.params,
            "metrics": trial.metrics,
            "intervals": trial.intervals,
            "variation": record.variation,  # that the intervals hold
            "nfe": trial.metrics.get("nfe"),
            "seconds": trial.metrics.get("seconds"),
            "reason": trial.reason,
            "noise_ratio": trial.coarseness.ratio if trial.coarseness else None,
            "too_coarse": trial.too_coarse,
            "confirmed": confirmed.get(trial.number),  # its value on fresh seeds, if measured
        }
        for trial in record.trials
    ]


def print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


def print_warning(text: str) -> None:
    """Print a warning as one line, however wide the terminal is."""
    console.print(f"warning: {text}", highlight=False, soft_wrap=True)


def print_results(record: StudyResults) -> None:
    """Print the ranked trials, best first, then the others; only knobs that vary are shown."""
    ranked = record.ranked()
    rest = [trial for trial in record.trials if trial not in ranked]
    knobs = distinguishing(record)
    objectives = [objective.metric for objective in record.objectives]
    metrics = with_diversity(record, list(dict.fromkeys([*objectives, "kid", "fid", "nfe"])))
    short = set(DIVERSITY) - set(objectives)  # without an interval, to keep the table narrow
    title = f"{record.name} ({record.budget}): {record.question}"
    table = Table("trial", *knobs, *metrics, title=title, title_justify="left")
    for trial in ranked:
        table.add_row(
            str(trial.number),
            *(str(trial.params.get(knob, "")) for knob in knobs),
            *(_value(trial, metric, metric not in short) for metric in metrics),
        )
    console.print(table)
    for trial in rest:
        text = f"trial {trial.number} {trial.state}: {trial.reason or ''}"
        console.print(text, highlight=False)
    for name, found in record.baselines.items():
        shown = ", ".join(f"{m} {found[m]:.4g}" for m in [*metrics, "precision"] if m in found)
        console.print(f"baseline: {name}: {shown}", highlight=False)
    console.print(f"intervals: 95 %, of {record.variation}", highlight=False)
    if record.confirmation:
        print_answer(record)
    if (warning := too_coarse(record)) is not None:
        print_warning(warning)


def print_answer(record: StudyResults) -> None:
    """Print what fresh seeds confirmed; without a confirmation, the best of the search."""
    from ablate.report import answer, confirmed

    for sentence in confirmed.sentences(record) or answer.answer(record)[:2]:
        console.print(sentence, highlight=False)


def print_table(header: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_study(study: Study, which: str) -> None:
    """Print what is about to be run."""
    console.print(f"{study.name}: {study.question}", highlight=False)
    console.print(
        f"budget {study.budget}{which}: {plural(study.trials, 'trial')} of"
        f" {plural(len(study.seeds), 'seed')} and {study.samples} samples, by {study.method}",
        highlight=False,
    )
    if study.recipe:
        networks = {study.training_seed(seed) for seed in study.seeds}
        seeds = plural(len(networks), "training seed")
        console.print(f"trains its networks by recipe {study.recipe}: {seeds}", highlight=False)


def print_plan(plan: Plan, study: Study, device: str) -> None:
    """Print what a study will cost; a range of time if trials may be pruned."""
    about = "" if plan.exact else "about "
    span = duration(plan.seconds)
    if plan.least < plan.seconds:
        span = f"{duration(plan.least)} to {span}, depending on how many are pruned"
    rows = [
        ("cells", f"{plan.cells:,} ({plural(plan.trials, 'trial')}{_confirming(plan)})"),
        ("network evaluations", f"{about}{plan.evaluations:,} of single images"),
        *([("networks to train", _trainings(plan))] if plan.networks else []),
        (f"time on this {device}", f"{about}{span}"),
        ("disk", f"about {plan.bytes / 1e6:,.0f} MB"),
    ]
    limits = [f"{study.minutes:g} minutes"] if study.minutes is not None else []
    limits += [f"{study.evaluations:,} evaluations"] if study.evaluations is not None else []
    if limits:
        rows.append(("begins no trial after", " or ".join(limits)))
    print_table(["the whole study, with one worker", ""], rows)


def _trainings(plan: Plan) -> str:
    return f"{plan.networks}, for {duration(plan.training)} of the time"


def _confirming(plan: Plan) -> str:
    return f", {plural(plan.confirmations, 'confirmation')}" if plan.confirmations else ""


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_groups(header: list[str], groups: Sequence[Sequence[tuple[str, ...]]]) -> None:
    """Print a table with a line between groups."""
    table = Table(*header)
    for rows in groups:
        for row in rows:
            table.add_row(*row)
        table.add_section()
    console.print(table)


def print_showcase(
    metrics: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    protocol: Mapping[str, object],
) -> None:
    """Print the metrics of a bundle's samples and the baselines, and the protocol."""
    named = {f"{metrics['nfe']:.0f} network evaluations": metrics, **baselines}
    columns = [m for m in ("fid", "kid", *DIVERSITY) if m in metrics]
    rows = [(name, *(f"{m[column]:.4g}" for column in columns)) for name, m in named.items()]
    print_table(["", *columns], rows)
    line = ", ".join(f"{key} {value}" for key, value in protocol.items())
    console.print(line, highlight=False)


def print_evaluation(evaluation: Evaluation) -> None:
    """Print every metric with its interval, the suspected copies and the protocol."""
    rows = [
        (name, f"{found.value:.5g}", "{:.5g} to {:.5g}".format(*found.interval))
        for name, found in evaluation.estimates().items()
    ]
    for space, copies in evaluation.neighbours.items():
        for name, each in copies.measured().items():
            low, high = each.estimate.interval
            rows.append((f"nn_{space}_{name}", f"{each.value:.5g}", f"{low:.5g} to {high:.5g}"))
        if copies.verdict is not None:
            c_t = f"{copies.verdict.c_t:.3g}"
            rows.append((f"nn_{space}_c_t", c_t, "below -3: copies, or too smooth"))
    print_table(
        [f"{evaluation.samples.name} against {evaluation.protocol.reference}", "", "95 %"], rows
    )
    for space, copies in evaluation.neighbours.items():
        shown = ", ".join(map(str, copies.suspects[:20])) or "none"
        share = "?" if copies.searched is None else f"{100 * copies.searched:.3g}"
        searched = f"{share} % of the training images searched"
        if copies.verdict is None:
            searched += "; C_T and AuthPct need all of them: install the dataset (ablate data)"
        console.print(f"suspected copies by {space}: {shown} ({searched})", highlight=False)
    how = {**evaluation.protocol._asdict(), "protocol": evaluation.protocol.hash}
    console.print(", ".join(f"{key} {value}" for key, value in how.items()), highlight=False)


def print_difference(found: Mapping[str, Estimate]) -> None:
    """Print first minus second, drawn from the same noise, with 95 % intervals."""
    rows = [
        (name, f"{each.value:.5g}", "{:.5g} to {:.5g}".format(*each.interval))
        for name, each in found.items()
    ]
    print_table(["first minus second, paired", "", "95 %"], rows)


def _value(trial: Trial, metric: str, with_interval: bool) -> str:
    if metric not in trial.metrics:
        return ""
    if not with_interval:
        return f"{trial.metrics[metric]:.2g}"
    width = trial.intervals.get(metric)
    value = f"{trial.metrics[metric]:.4g}"
    return f"{value} ± {width:.2g}" if width else value
