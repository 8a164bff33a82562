"""StudyResults -> what fresh seeds confirmed: sentences and tables."""

from __future__ import annotations

import math
from typing import Any

from ablate.core.quantiles import Z95
from ablate.report.blocks import Row, Table, numbers, p_values, probabilities, words
from ablate.report.columns import metric_columns
from ablate.report.knobs import distinguishing
from ablate.report.names import (
    Estimate,
    configuration,
    estimate,
    metric_name,
    text,
)
from ablate.results import StudyResults, Trial

BESIDE = ("recall", "coverage", "kid_inception", "fid_inception", "nfe")
"""Metrics that stand beside the confirmed values: diversity, other features and cost."""

ALPHA = 0.05


def confirmed_best(results: StudyResults) -> dict[str, Any] | None:
    """The best of the confirmed configurations, by its confirmed value; None if there is none."""
    top = [row for row in results.confirmation.get("trials", []) if row["top"]]
    sign = results.objectives[0].sign
    return min(top, key=lambda row: sign * row["confirmed"], default=None)


def sentences(results: StudyResults, said: str = "", named: bool = False) -> list[str]:
    """What fresh seeds say of the best, and of the configurations that have a name; empty if
    nothing was confirmed.

    said: the name of a configuration whose comparison with the best was made already.
    named: whether the best one's knobs were.
    """
    best = confirmed_best(results)
    if best is None:
        return []
    found = results.confirmation
    seeds, samples = len(found["seeds"]), found["samples"]
    again = f"on {seeds} fresh seed{'s' * (seeds > 1)} of {samples:,} samples"
    value = f"{metric_name(results, found['metric'])} {_value(best)}"
    which = f"trial {best['trial']}" if named else _name(results, best)
    what = f"Measured again {again}, the best is {which}, with {value}{_luck(results, best)}."
    rows = {row["trial"]: row for row in found["trials"]}
    against = [pair for pair in found["pairs"] if pair["trial"] == best["trial"]]
    others = [(pair, rows[pair["than"]]) for pair in against if not _top(rows, pair)]
    compared = [_compared(pair, row) for pair, row in others if row["name"] != (said or None)]
    if best["name"] is not None:
        compared = [f"That is {best['name']}.", *compared]
    return [what, *compared, *_lost(results), *_breaking(rows)]


def _luck(results: StudyResults, row: dict[str, Any]) -> str:
    """How the search's value compares with the confirmed one."""
    optimism, before = _optimism(results, row), _before(results, row)
    if optimism is None or before is None:
        return ""
    search = f"; the search had {text(before)} for it"
    if abs(optimism.value) <= (optimism.half or 0.0):
        return f"{search}, no difference that shows"
    luck = "too good" if optimism.value > 0 else "too poor"
    return f"{search}, {luck} by {text(optimism._replace(value=abs(optimism.value)))}"


def _before(results: StudyResults, row: dict[str, Any]) -> Estimate | None:
    """The search's value, over all its seeds; None if it has none."""
    trial = _searched(results, row["trial"])
    return None if trial is None else estimate(trial, results.confirmation["metric"])


def _optimism(results: StudyResults, row: dict[str, Any]) -> Estimate | None:
    """By how much the search's value was better; both values have noise of their own."""
    before, sign = _before(results, row), results.objectives[0].sign
    if before is None:
        return None
    half = math.hypot(before.half or 0.0, _half(row))
    return Estimate(sign * (row["confirmed"] - before.value), half)


def _lost(results: StudyResults) -> list[str]:
    """Configurations that gave no result when they were measured again."""
    knobs = distinguishing(results)
    return [
        f"Trial {trial.number}, which measures {configuration(results, trial, knobs)} again,"
        f" {'diverged' if trial.state == 'diverged' else 'has no result'}:"
        f" {trial.reason or trial.state}."
        for trial in results.confirmations
        if trial.state in ("diverged", "failed")
    ]


def _breaking(rows: dict[int, Any]) -> list[str]:
    """Configurations that break a constraint on fresh seeds, and so are not the best."""
    broken = [row["trial"] for row in rows.values() if not row["feasible"]]
    return [f"On fresh seeds trial {number} breaks a constraint." for number in broken]


def searched_best(results: StudyResults) -> Trial | None:
    """The best confirmed configuration as the search measured it."""
    best = confirmed_best(results)
    return None if best is None else _searched(results, best["trial"])


def confirmed_trial(results: StudyResults) -> Trial | None:
    """The best confirmed configuration with all that was measured of it on fresh seeds."""
    best = confirmed_best(results)
    again = {trial.number: trial for trial in results.confirmations}
    return None if best is None else again.get(best["again"])


def _top(rows: dict[int, Any], pair: dict[str, Any]) -> bool:
    return rows[pair["than"]]["name"] is None


def _compared(pair: dict[str, Any], other: dict[str, Any]) -> str:
    """It is better than the paper's setting (trial 0, 3.2 ± 0.2) by 3.1 ± 0.2 (p …)"""
    gap = Estimate(abs(pair["difference"]), _half(pair))
    what = f"{other['name']} (trial {other['trial']}, {_value(other)})"
    p = f"paired, p {_p(pair['holm'])} after Holm's correction"
    if pair["holm"] >= ALPHA:
        return f"No difference shows from {what}: {text(gap)} ({p})."
    which = "better" if pair["probability"] >= 0.5 else "worse"
    return f"It is {which} than {what} by {text(gap)} ({p})."


def distinguished(results: StudyResults, best: int) -> dict[int, bool]:
    """Trial -> whether fresh seeds tell it apart from the best, for those that they measured."""
    found: dict[int, bool] = {}
    for pair in results.confirmation.get("pairs", []):
        if best in (pair["trial"], pair["than"]):
            other = pair["than"] if pair["trial"] == best else pair["trial"]
            found[other] = pair["holm"] < ALPHA
    return found


def _name(results: StudyResults, row: dict[str, Any]) -> str:
    trial = _searched(results, row["trial"])
    knobs = "" if trial is None else f" ({configuration(results, trial, distinguishing(results))})"
    return f"trial {row['trial']}{knobs}"


def _searched(results: StudyResults, wanted: int) -> Trial | None:
    return next((trial for trial in results.trials if trial.number == wanted), None)


def _value(row: dict[str, Any]) -> str:
    return text(row_estimate(row))


def row_estimate(row: dict[str, Any]) -> Estimate:
    return Estimate(row["confirmed"], _half(row))


def _half(row: dict[str, Any]) -> float:
    """Half-width of a 95 % interval; older records have the standard error alone."""
    return float(row.get("half", Z95 * row["error"]))


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


def table(results: StudyResults) -> Table:
    """Every configuration that was measured again, best first."""
    found, sign = results.confirmation, results.objectives[0].sign
    label = metric_name(results, found["metric"])
    beside = [m for m in BESIDE if any(m in trial.metrics for trial in results.confirmations)]
    header = [numbers("trial"), words("configuration"), numbers("searched", f"{label} searched")]
    header += [numbers("confirmed", f"{label} confirmed"), numbers("optimism")]
    header += metric_columns(results, beside)
    rows: list[Row] = []
    again = {trial.number: trial for trial in results.confirmations}
    for row in sorted(found["trials"], key=lambda row: sign * row["confirmed"]):
        trial = again.get(row["again"])
        extra = [None if trial is None else estimate(trial, name) for name in beside]
        values = (_before(results, row), row_estimate(row), _optimism(results, row))
        rows.append((row["trial"], row["name"] or _knobs(results, row), *values, *extra))
    caption = (
        f"Measured again on fresh seeds ({len(found['seeds'])} × {found['samples']:,} samples) that"
        " had no part in choosing. Optimism: by how much the search's value was better."
    )
    best, places = confirmed_best(results), [row[0] for row in rows]
    bold = None if best is None else places.index(best["trial"])
    return Table("confirmed", caption, header, rows, bold=bold)


def _knobs(results: StudyResults, row: dict[str, Any]) -> str:
    trial = _searched(results, row["trial"])
    return "" if trial is None else configuration(results, trial, distinguishing(results))


def pairs(results: StudyResults) -> Table:
    """How the confirmed configurations compare, on shared noise."""
    label = metric_name(results, results.confirmation["metric"])
    header = [numbers("trial"), numbers("than"), numbers("difference", f"{label} difference")]
    header += [probabilities("probability", "probability of being better")]
    header += [p_values("p", "p"), p_values("holm", "p by Holm")]
    rows: list[Row] = [
        (
            *(pair["trial"], pair["than"]),
            Estimate(pair["difference"], _half(pair)),
            *(pair["probability"], pair["p"], pair["holm"]),
        )
        for pair in results.confirmation["pairs"]
    ]
    caption = (
        "Confirmed configurations against each other, in pairs on the same noise, with 95 %"
        " intervals. Holm's correction is over the comparisons of one kind: among the best, and of"
        " the best with each configuration that has a name. Probability of being better: that the"
        " first has the better mean over all seeds, by the paired interval."
    )
    return Table("pairs", caption, header, rows)
