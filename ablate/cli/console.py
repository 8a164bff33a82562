"""What a person sees while work is going on and after it: bars, lines and tables."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ablate.report.tables import varied
from ablate.results import Objective, StudyResults, Trial

if TYPE_CHECKING:
    from ablate.experiment.cost import Plan
    from ablate.experiment.evaluate import Evaluation
    from ablate.metrics.estimate import Estimate
    from ablate.study.definition import Study

console = Console(markup=False)  # a question may hold brackets


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[news]}"),
        console=console,
        disable=not sys.stdout.isatty(),
    )


class StudyBar:
    """A study's progress: a bar in a terminal, one line a trial elsewhere."""

    def __init__(self, name: str, objectives: Sequence[Objective]) -> None:
        self._name, self._objective = name, objectives[0]
        self._best: float | None = None
        self._progress = _progress()
        self._done = self._total = 0

    def __enter__(self) -> StudyBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def began(self, done: int, total: int, best: float | None) -> None:
        self._done, self._total, self._best = done, total, best
        self._task = self._progress.add_task(
            self._name, total=total, completed=done, count=self._count(), news=""
        )

    def advanced(self, share: float) -> None:
        self._progress.advance(self._task, share)

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        self._done += 1
        metric = self._objective.metric
        if state == "complete":
            better = min if self._objective.sign > 0 else max
            value = metrics[metric]
            self._best = value if self._best is None else better(self._best, value)
        best = self._news()
        self._progress.update(self._task, completed=self._done, count=self._count(), news=best)
        if self._progress.disable:
            shown = f"{metric} {metrics[metric]:.4g}" if metric in metrics else ""
            print(f"trial {number:3d}  {state:9s} {shown:16s} {self._count()}  {best}", flush=True)

    def stands(self, done: int, best: float | None) -> None:
        """Whoever did it: other workers are counted too."""
        new, self._done, self._best = done > self._done, max(done, self._done), best
        if new:
            self._progress.update(
                self._task, completed=self._done, count=self._count(), news=self._news()
            )
        if new and self._progress.disable:
            print(f"{self._count()}  {self._news()}", flush=True)

    def _news(self) -> str:
        return "" if self._best is None else f"best {self._objective.metric} {self._best:.4g}"

    def _count(self) -> str:
        return f"{self._done}/{self._total} trials"


class Silent:
    """A study's progress that nobody looks at."""

    def began(self, done: int, total: int, best: float | None) -> None: ...

    def advanced(self, share: float) -> None: ...

    def stands(self, done: int, best: float | None) -> None: ...

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None: ...


class Tick(Protocol):
    def __call__(
        self, step: int, loss: float | None = None, total: int | None = None, pace: str = ""
    ) -> None: ...


@contextmanager
def counting_bar(name: str, total: int, unit: str) -> Iterator[Tick]:
    """Yields `tick(step, loss, total, pace)`, all but the step optional: a total that turns out
    otherwise, and a text of how fast it goes."""
    progress, planned = _progress(), total
    with progress:
        task = progress.add_task(name, total=total, count="", news="")

        def tick(
            step: int, loss: float | None = None, total: int | None = None, pace: str = ""
        ) -> None:
            total = total or planned
            text = f"{step}/{total} {unit}"
            news = f"{'' if loss is None else f'loss {loss:.4f}'}  {pace}".strip()
            progress.update(task, completed=step, total=total, count=text, news=news)
            if progress.disable and (step == total or step % -(-total // 20) == 0):
                print(f"{name}  {text}  {news}".rstrip(), flush=True)

        yield tick


def trial_rows(record: StudyResults) -> list[dict[str, object]]:
    """The trials as plain objects: what `ablate results --json` prints."""
    return [
        {
            "number": trial.number,
            "state": trial.state,
            "params": trial.params,
            "metrics": trial.metrics,
            "intervals": trial.intervals,
            "nfe": trial.metrics.get("nfe"),
            "seconds": trial.metrics.get("seconds"),
            "reason": trial.reason,
        }
        for trial in record.trials
    ]


def print_json(value: object) -> None:
    print(json.dumps(value, indent=1))


def print_results(record: StudyResults) -> None:
    """Best first, then the rest; only the knobs that vary."""
    ranked = record.ranked()
    rest = [trial for trial in record.trials if trial not in ranked]
    knobs = varied(record)
    metrics = list(dict.fromkeys([*(o.metric for o in record.objectives), "kid", "fid", "nfe"]))
    title = f"{record.name} ({record.budget}): {record.question}"
    table = Table("trial", *knobs, *metrics, title=title, title_justify="left")
    for trial in ranked:
        table.add_row(
            str(trial.number),
            *(str(trial.params.get(knob, "")) for knob in knobs),
            *(_with_interval(trial, metric) for metric in metrics),
        )
    console.print(table)
    for trial in rest:
        text = f"trial {trial.number} {trial.state}: {trial.reason or ''}"
        console.print(text, highlight=False)
    for name, found in record.baselines.items():
        shown = ", ".join(f"{m} {found[m]:.4g}" for m in metrics if m in found)
        console.print(f"baseline: {name}: {shown}", highlight=False)


def print_table(header: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_study(study: Study, which: str) -> None:
    """What is about to be run."""
    console.print(f"{study.name}: {study.question}", highlight=False)
    console.print(
        f"budget {study.budget}{which}: {plural(study.trials, 'trial')} of"
        f" {plural(len(study.seeds), 'seed')} and {study.samples} samples, by {study.method}",
        highlight=False,
    )


def print_plan(plan: Plan, study: Study, device: str) -> None:
    """What it would cost; a range of time where trials may be given up early."""
    about = "" if plan.exact else "about "
    span = duration(plan.seconds)
    if plan.least < plan.seconds:
        span = f"{duration(plan.least)} to {span}, as many as are given up early"
    rows = [
        ("cells", f"{plan.cells:,} ({plural(plan.trials, 'trial')})"),
        ("network evaluations", f"{about}{plan.evaluations:,} of single images"),
        (f"time on this {device}", f"{about}{span}"),
        ("disk", f"about {plan.bytes / 1e6:,.0f} MB"),
    ]
    limits = [f"{study.minutes:g} minutes"] if study.minutes is not None else []
    limits += [f"{study.evaluations:,} evaluations"] if study.evaluations is not None else []
    if limits:
        rows.append(("begins no trial after", " or ".join(limits)))
    print_table(["the whole study, with one worker", ""], rows)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_groups(header: list[str], groups: Sequence[Sequence[tuple[str, ...]]]) -> None:
    """As a table, with a line between groups."""
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
    """Samples of a bundle beside the baselines, and how they were measured."""
    named = {f"{metrics['nfe']:.0f} network evaluations": metrics, **baselines}
    rows = [(name, f"{m['fid']:.4g}", f"{m['kid']:.4g}") for name, m in named.items()]
    print_table(["", "fid", "kid"], rows)
    told = ", ".join(f"{key} {value}" for key, value in protocol.items())
    console.print(told, highlight=False)


@contextmanager
def image_bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to be told of images as they are done; shows how many a second."""
    began, done = time.perf_counter(), 0
    with counting_bar(name, total, "images") as tick:

        def told(images: int) -> None:
            nonlocal done
            done += images
            rate = done / max(time.perf_counter() - began, 1e-9)
            left = (total - done) / rate
            tick(done, pace=f"{rate:,.{0 if rate > 20 else 1}f} images/s, {left / 60:.1f} min left")

        yield told


def print_evaluation(evaluation: Evaluation) -> None:
    """Every metric with its interval, then how it was measured and what is near."""
    rows = [
        (name, f"{found.value:.5g}", "{:.5g} to {:.5g}".format(*found.interval))
        for name, found in evaluation.estimates().items()
    ]
    for space, copies in evaluation.neighbours.items():
        for name, each in copies.measured().items():
            low, high = each.estimate.interval
            rows.append((f"nn_{space}_{name}", f"{each.value:.5g}", f"{low:.5g} to {high:.5g}"))
        rows.append((f"nn_{space}_c_t", f"{copies.c_t:.3g}", "below -3: copies, or too smooth"))
    print_table(
        [f"{evaluation.samples.name} against {evaluation.protocol.reference}", "", "95 %"], rows
    )
    for space, copies in evaluation.neighbours.items():
        shown = ", ".join(map(str, copies.suspects[:20])) or "none"
        console.print(f"suspected copies by {space}: {shown}", highlight=False)
    told = {**evaluation.protocol._asdict(), "protocol": evaluation.protocol.hash}
    console.print(", ".join(f"{key} {value}" for key, value in told.items()), highlight=False)


def print_difference(found: Mapping[str, Estimate]) -> None:
    """First less second, from the same noise: what is not within the interval is not luck."""
    rows = [
        (name, f"{each.value:.5g}", "{:.5g} to {:.5g}".format(*each.interval))
        for name, each in found.items()
    ]
    print_table(["first less second, in pairs", "", "95 %"], rows)


def _with_interval(trial: Trial, metric: str) -> str:
    if metric not in trial.metrics:
        return ""
    width = trial.intervals.get(metric)
    value = f"{trial.metrics[metric]:.4g}"
    return f"{value} ± {width:.2g}" if width else value
