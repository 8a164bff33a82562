"""Settings that work without tuning."""

from __future__ import annotations

from ablate.generate.settings import DEFAULT_FLOOR, Settings

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
