"""How knobs, metrics and numbers are written in a report."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ablate.results import Objective, StudyResults, Trial, Value

SYMBOLS = {"chi": "χ", "sigma": "σ", "delta": "δ", "mu": "μ", "kappa": "κ", "rho": "ρ"}
"""Knobs that are letters of the paper; L, r and n are their own symbols."""

LEGEND = {
    "sampler": "the reverse-time update",
    "init": "where the samples start",
    "chi": "annealing: the factor on the noise coefficient κ per 1/1000 of the time",
    "r": "relative step, r = L δ N; r = 1 walks the whole of the reverse time",
    "rho": "r in units of the step that the law pairs with χ",
    "annealing": "1 − χ",
    "left": "share of the last level's noise that the n noise-free steps leave",
    "L": "steps at each noise level",
    "n": "noise-free steps at the lowest level, after the last",
    "delta": "step size",
    "sigma": "volatility of the forward process",
    "mu": "drift of the forward process",
    "schedule": "constant noise, or noise that grows in time (VE-GBM)",
    "integrator": "literal: the paper's steps; exponential: a few long steps that stand for them",
    "order": "order of the exponential integrator",
    "N": "noise levels of the literal run that is walked or stood for",
    "cost": "network evaluations a sample, at most",
    "levels": "noise levels of the grid; of an exponential integrator, its evaluations",
    "grid": "how the noise levels are spaced",
    "cap": "the most variance that one step removes",
    "guidance": "weight of the network against its guide; 1: no guide",
    "guide": "the network without labels, or a weaker network",
    "guide_low": "noise level down to which the guide acts",
    "guide_high": "noise level from which on the guide acts",
    "score_scale": "factor on the score",
    "label": "the only class to sample; none: without classes",
}
"""Every known knob, in the order in which reports show them."""

NAMED = frozenset({"label"})
"""Knobs whose words say nothing without the knob's name: label = none."""

ACRONYMS = frozenset({"fid", "kid", "nfe", "nn"})
"""Parts of metrics' names that are written in capitals, where a study has no label for them."""

SPOKEN = {"class-gaussian without network": "class Gaussians, no network"}
"""Baselines that reports name in other words than records."""

FEWER = re.compile(r"(?P<what>.+) - only (?P<count>\d+)(?: in one set| in (?P<sets>\d+) sets)?")
"""A baseline of fewer images than trials draw, as records name it."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

LEAK = "leaks data"
NONE = "–"


class Estimate(NamedTuple):
    """A mean over seeds with the half-width of its 95 % interval, None for a single seed."""

    value: float
    half: float | None = None


Item = str | int | float | Estimate | None
"""What a table cell holds; None is shown as a dash."""


def estimate(trial: Trial, metric: str) -> Estimate | None:
    """What a trial measured, None if it did not."""
    if metric not in trial.metrics:
        return None
    # the spread of a duration over seeds describes the machine, not the configuration
    half = None if metric == "seconds" else trial.intervals.get(metric)
    return Estimate(trial.metrics[metric], half)


def in_order(knobs: set[str]) -> list[str]:
    """Known knobs as in LEGEND, then the others by name."""
    return [k for k in LEGEND if k in knobs] + sorted(knobs - LEGEND.keys())


def knob_name(knob: str) -> str:
    """chi -> χ, sigma_max -> σ max, step_size -> step size."""
    return " ".join(SYMBOLS.get(part, part) for part in knob.split("_"))


def metric_name(results: StudyResults, metric: str) -> str:
    """The study's label of a metric; without one: flip_rate -> flip rate, nn_pixel_c_t -> NN pixel
    C_T."""
    if metric in results.vocabulary.labels:
        return results.vocabulary.labels[metric]
    parts = metric.replace("c_t", "C-T").split("_")
    capitals = (part.upper() if part in ACRONYMS else part for part in parts)
    return " ".join(capitals).replace("C-T", "C_T")


def metric_label(results: StudyResults, metric: str) -> str:
    """The metric's name; FID, which is biased at small N, always with its N."""
    samples = results.protocols.get(metric, {}).get("samples")
    name = metric_name(results, metric)
    return f"{name} at N = {text(samples)}" if metric.startswith("fid") and samples else name


def baseline_name(name: str) -> str:
    """held-out images - only 256 in one set -> 256 held-out images."""
    found = FEWER.fullmatch(name)
    if found is None:
        return SPOKEN.get(name, name)
    sets = f" in {found['sets']} sets" if found["sets"] else ""
    return f"{int(found['count']):,} {found['what']}{sets}"


def arrow(objective: Objective) -> str:
    """Which way is better, as an arrow."""
    return "↑" if objective.direction == "maximize" else "↓"


def better(objective: Objective) -> str:
    """Which way is better, in words."""
    return "higher is better" if objective.direction == "maximize" else "lower is better"


def shown(results: StudyResults, value: Value) -> Value:
    """A knob's value for a reader: an initialisation that leaks data says so."""
    return f"{value} ({LEAK})" if value in results.vocabulary.leaking else value


def configuration(results: StudyResults, trial: Trial, knobs: list[str]) -> str:
    """adls, class-average, χ = 0.995, L = 2: words need no name; a leak is always named."""
    parts = [
        f"{shown(results, value)}"
        if isinstance(value, str) and knob not in NAMED
        else f"{knob_name(knob)} = {text(value)}"
        for knob in knobs
        if (value := trial.params.get(knob)) is not None
    ]
    return ", ".join([*parts, LEAK] if results.leaks(trial) and "init" not in knobs else parts)


def trial_name(results: StudyResults, trial: Trial, knobs: list[str]) -> str:
    """trial 7: adls, class-average."""
    return f"trial {trial.number}: {configuration(results, trial, knobs)}".rstrip(": ")


def text(item: Item) -> str:
    """A cell as a reader sees it."""
    if item is None:
        return NONE
    if isinstance(item, Estimate):
        return _estimate_text(item)
    if isinstance(item, str):
        return item
    return number(item, 5 if 0.9 < item < 1 else 4)  # what matters of χ is its distance from 1


def bracketed(shown: str) -> str:
    """(0.3 ± 0.1); one that has brackets needs no others: (3.1 ± 1.2) × 10⁻⁵."""
    return shown if shown.startswith("(") else f"({shown})"


def number(value: float, digits: int = 4) -> str:
    """At most `digits` significant digits; whole numbers whole: 0.04231, 1,200, 3.1 × 10⁻⁶."""
    if not math.isfinite(value):
        return str(value).replace("-", "−")
    whole = float(value).is_integer() and abs(value) < 1e9
    plain = f"{value:,.0f}" if whole or abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    digits_of, _, power = plain.replace("-", "−", plain.startswith("-")).partition("e")
    return f"{digits_of} × {_power(int(power))}" if power else digits_of


def _power(exponent: int) -> str:
    """10⁻⁴"""
    return f"10{str(exponent).translate(RAISED)}"


def _estimate_text(item: Estimate) -> str:
    """The value rounded to the interval's second digit: 0.042 ± 0.017, (3.1 ± 1.2) × 10⁻⁵."""
    value, half = item
    if half is None or not math.isfinite(value + half) or half <= 1e-9 * abs(value):
        return number(value)  # equal over the seeds, up to rounding
    half = float(f"{half:.1e}")  # 0.0996 is 0.10: round first, then count digits
    size = max(abs(value), half)
    power = math.floor(math.log10(size)) if size < 1e-3 else 0
    value, half = value / 10**power, half / 10**power
    places = 1 - math.floor(math.log10(half) + 1e-9)
    if places < 0:
        value, half = round(value, places), round(half, places)
    digits = max(places, 0)
    value = value if round(value, digits) else 0.0  # without a sign
    plain = f"{value:,.{digits}f} ± {half:,.{digits}f}".replace("-", "−")
    return f"({plain}) × {_power(power)}" if power else plain
