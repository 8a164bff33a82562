"""Settings that work without tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablate.generate.applicability import listens
from ablate.generate.settings import DEFAULT_FLOOR, Settings

FEW_STEP_LEVELS = 18
"""Levels of the few-step settings unless others are given."""

SIGMA = 0.8
"""The noise level that sampling starts from by default: the paper's."""


def few_step_settings(
    levels: int, known: tuple[float, float], sigma: float | None = None
) -> Settings:
    """Second-order probability flow on Karras' levels from Gaussians fitted to each class.

    known: the lowest and highest noise level that the network was trained for.
    """
    lowest, highest = known
    return Settings.model_validate(
        {
            "sampler": "pf-heun",
            "init": "class-gaussian",
            "sigma": min(SIGMA, highest) if sigma is None else sigma,
            "s_min": max(DEFAULT_FLOOR, lowest),
            "grid": "karras",
            "levels": levels,
        }
    )


def with_knobs(known: tuple[float, float], knobs: Mapping[str, Any]) -> Settings:
    """The few-step settings with these knobs instead; those that do not apply are left out.

    known: the lowest and highest noise level that the network was trained for.
    """
    preset = few_step_settings(FEW_STEP_LEVELS, known)
    chosen = preset.model_dump(exclude_none=True, exclude_defaults=True) | dict(knobs)
    if "cost" in knobs and "levels" not in knobs:
        del chosen["levels"]  # the cost decides it
    applying = {k: v for k, v in chosen.items() if k in knobs or listens(k, chosen)}
    return Settings.model_validate(applying)
