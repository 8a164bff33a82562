"""What a person sees in the terminal: lines, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from ablate.cli.layout import table, wrapped
from ablate.core.plain_text import plain
from ablate.results import StudyResults

if TYPE_CHECKING:
    from ablate.experiment.evaluate import Evaluation
    from ablate.metrics.estimate import Estimate
    from ablate.study.definition import Study

console = Console(markup=False)
"""Where progress bars are drawn."""

NARROWEST = 20
"""Characters below which nothing is laid out."""

DIVERSITY = ("recall", "coverage")


def width() -> int | None:
    """The terminal's width, or COLUMNS; None in a pipe, where a row of a table is one line."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(NARROWEST, shutil.get_terminal_size().columns)
    return None


def say(text: str) -> None:
    """Print a sentence, wrapped between words; control characters are spelt out."""
    for line in plain(text).splitlines() or [""]:
        print("\n".join(wrapped(line, width())))


def say_on_one_line(text: str) -> None:
    """Print a line as it is, however wide the terminal: a command to copy, or a path."""
    print(plain(text))


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
    """Print JSON that every reader takes: ASCII, and null for what is not a finite number."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_warning(text: str) -> None:
    """Print a warning as one line, however wide the terminal is."""
    say_on_one_line(f"warning: {text}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print_groups(header, [rows])


def print_groups(header: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> None:
    """Print one table of several groups of rows."""
    rows = [row for rows in groups for row in rows]
    lines = table(header, rows, width())
    print("\n".join([bold(lines[0]), *lines[1:]]))


def bold(line: str) -> str:
    """The line in bold in a terminal that can, unless NO_COLOR asks for plain text."""
    styled = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return f"\x1b[1m{line}\x1b[0m" if styled and not os.environ.get("NO_COLOR") else line


def print_study(study: Study, which: str) -> None:
    """Print what is about to be run."""
    say(f"{study.name}: {study.question}")
    say(
        f"budget {study.budget}{which}: {plural(study.trials, 'trial')} of"
        f" {plural(len(study.seeds), 'seed')} and {study.samples} samples, by {study.method}"
    )
    if study.recipe:
        networks = {study.training_seed(seed) for seed in study.seeds}
        seeds = plural(len(networks), "training seed")
        say(f"trains its networks by recipe {study.recipe}: {seeds}")


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
    say(line)


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
        say(f"suspected copies by {space}: {shown} ({searched})")
    how = {**evaluation.protocol._asdict(), "protocol": evaluation.protocol.hash}
    say(", ".join(f"{key} {value}" for key, value in how.items()))


def print_difference(found: Mapping[str, Estimate]) -> None:
    """Print first minus second, drawn from the same noise, with 95 % intervals."""
    rows = [
        (name, f"{each.value:.5g}", "{:.5g} to {:.5g}".format(*each.interval))
        for name, each in found.items()
    ]
    print_table(["first minus second, paired", "", "95 %"], rows)
