"""The table of `ablate results`, and what a study ends with."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from ablate.cli.alike import Alike, alike
from ablate.cli.console import bold, print_warning, say, say_on_one_line, width
from ablate.cli.layout import blocks, fitted, table, wrapped
from ablate.core.errors import hide_secrets
from ablate.core.plain_text import plain
from ablate.core.workspace import Workspace
from ablate.report import answer
from ablate.report.coarse_trials import too_coarse
from ablate.report.columns import DIVERSITY, with_diversity
from ablate.report.knobs import distinguishing
from ablate.report.names import baseline_name
from ablate.results import StudyResults, Trial, Value

WITHOUT_INTERVAL = {*DIVERSITY, "nfe"}
"""Metrics that stand in the table without an interval, to keep it narrow."""


def print_results(record: StudyResults) -> None:
    """Print all trials, best first, with their states; only knobs that vary are shown."""
    standing = alike(record)
    say(f"{record.name} ({record.progress()}): {record.question}")
    print("\n".join(trial_lines(record, standing, width())))
    for trial in _unranked(record):
        if reason := _reason(record, trial):
            say(f"trial {trial.number} {trial.state}: {reason}")
    metrics = [*_metrics(record), "precision"]
    for name, found in record.baselines.items():
        shown = ", ".join(f"{m} {significant(found[m])}" for m in metrics if m in found)
        say(f"baseline: {baseline_name(name)}: {shown}")
    say(f"intervals: 95 %, of {record.variation}")
    if standing.best is not None:
        say(f"tied: cannot be distinguished from the best: {standing.how}")
    print_answer(record)
    if (warning := too_coarse(record)) is not None:
        print_warning(warning)


def trial_lines(record: StudyResults, standing: Alike, width: int | None) -> list[str]:
    """The table, at most so wide: with the knobs in columns, or below each trial, or each trial as
    a block of lines."""
    metrics, knobs = _metrics(record), distinguishing(record)
    trials = [*record.ranked(), *_unranked(record)]
    header = ["trial", "", "state", *metrics]
    marks, objectives = standing.marks(), set(_objectives(record))
    rows = [_row(trial, marks.get(id(trial), ""), metrics, objectives) for trial in trials]
    values = [[_spelt(trial.params.get(knob)) for knob in knobs] for trial in trials]
    both = [[*row, *beside] for row, beside in zip(rows, values, strict=True)]
    whole = [[*header, *knobs], *both]
    if _fits(whole, width):
        lines = table(whole[0], both, width)
        return [bold(lines[0]), *lines[1:]]
    if not _fits([header, *rows], width):
        named = [[f"trial {' '.join(filter(None, row[:3]))}", *row[3:]] for row in both]
        return blocks(["trial", *whole[0][3:]], named, width)
    head, rule, *lines = table(header, rows, width)
    below = [_pairs(knobs, beside, width) for beside in values]
    together = (each for line, more in zip(lines, below, strict=True) for each in (line, *more))
    return [bold(head), rule, *together]


def _fits(cells: Sequence[Sequence[str]], width: int | None) -> bool:
    """Whether no cell has to be wrapped."""
    widths = fitted(cells, width)
    return widths is not None and widths == fitted(cells, None)


def _pairs(knobs: list[str], values: list[str], width: int | None) -> list[str]:
    """The knobs of one trial in the lines below it: chi 0.995, r 0.5."""
    named = [f"{knob} {value}" for knob, value in zip(knobs, values, strict=True) if value]
    return wrapped(plain(", ".join(named)), width, indent=7) if named else []


def _row(trial: Trial, mark: str, metrics: list[str], objectives: set[str]) -> list[str]:
    """Trial, mark, state and metrics as text."""
    values = (_value(trial, m, m in objectives or m not in WITHOUT_INTERVAL) for m in metrics)
    return [str(trial.number), mark, trial.state, *values]


def _objectives(record: StudyResults) -> list[str]:
    return [objective.metric for objective in record.objectives]


def _metrics(record: StudyResults) -> list[str]:
    """The columns: objectives, then the usual ones that some trial has."""
    names = with_diversity(record, list(dict.fromkeys([*_objectives(record), "kid", "fid", "nfe"])))
    measured = {name for trial in record.trials for name in trial.metrics}
    return [name for name in names if name in measured or name in _objectives(record)]


def _unranked(record: StudyResults) -> list[Trial]:
    ranked = {id(trial) for trial in record.ranked()}
    return [trial for trial in record.trials if id(trial) not in ranked]


def _reason(record: StudyResults, trial: Trial) -> str:
    """Why a trial is not ranked."""
    broken = record.violated(trial) if trial.state == "complete" else []
    if broken:
        return f"more than the constraint allows: {', '.join(broken)}"
    return trial.reason or ""


def _value(trial: Trial, metric: str, with_interval: bool) -> str:
    if metric not in trial.metrics:
        return ""
    value = significant(trial.metrics[metric])
    half = trial.intervals.get(metric)
    return f"{value} ± {significant(half, 2)}" if half and with_interval else value


def significant(value: float, digits: int = 4) -> str:
    """So many significant digits, with their zeros; larger whole numbers whole: 0.04230, 12345."""
    if not math.isfinite(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{value:.0f}"
    if abs(value) >= 10**digits:
        return f"{value:.0f}" if abs(value) < 1e9 else f"{value:.{digits - 1}e}"
    return f"{value:.{digits - 1}e}" if abs(value) < 1e-4 else f"{value:#.{digits}g}".rstrip(".")


def _spelt(value: Value | None) -> str:
    """A knob's value; of numbers what four digits cannot hold is kept: chi = 0.99995."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.4g}" if not 0.9 < abs(value) < 1 else f"{value:.6g}"


def print_answer(record: StudyResults) -> None:
    """Print the answer to the study's question, a sentence a line."""
    first, *others = answer.answer(record)
    say(f"answer: {first}")
    for sentence in others:
        say(sentence)


def print_next(workspace: Workspace, record: StudyResults) -> None:
    """Print the commands that follow a study, ready to copy."""
    root = [] if workspace.root == Path.cwd() else ["--root", str(workspace.root)]
    server = ["--tracking-uri", hide_secrets(workspace.tracking)] if workspace.tracking else []
    again = [record.name, "--budget", record.budget, *server]
    say_on_one_line(f"next: {shlex.join(['ablate', *root, 'report', *again])}")
    say_on_one_line(f"      {shlex.join(['ablate', *root, 'results', *again])}")
