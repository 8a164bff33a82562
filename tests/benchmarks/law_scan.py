"""Which r belongs to which chi: KID over both knobs, beside what the law predicts.

    python -m tests.benchmarks.law_scan BUNDLE... [--figure FILE]

ADLS by its exponential integrator (12 evaluations that stand for 1,000 levels), class-Gaussian
starts, n = 2, 256 samples of seed 0. Prints a table and draws a curve for each chi, with the law's
r = mean of 1/(2 - kappa²) over log-levels as an upright.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import torch

from ablate.core.workspace import Workspace
from ablate.experiment.cell import run_cell
from ablate.experiment.showcase import setup_of_one
from ablate.generate.coordinates import law_step
from ablate.generate.settings import Settings
from ablate.metrics.reference import measure

CHIS = (1.0, 0.9999, 0.9995, 0.999, 0.995)
STEPS = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1.1)
SAMPLES = 256

Curve = list[tuple[float, float, float]]
"""(r, KID, its standard error)."""


def settings(chi: float, r: float) -> Settings:
    return Settings(
        sampler="adls",
        init="class-gaussian",
        sigma=0.8,
        chi=chi,
        r=r,
        n=2,
        integrator="exponential",
        levels=12,
    )


def curve(bundle: str, chi: float) -> Curve:
    setup = setup_of_one(Workspace(Path()), bundle, settings(chi, 1.0), SAMPLES, 0, "cpu")
    found = []
    for r in STEPS:
        result = run_cell(setup, settings(chi, r), 0)
        if result.state == "complete":
            kid = measure(result.features.float(), setup.reference, ["kid"])["kid"].estimate
            found.append((r, kid.value, kid.error))
    return found


def print_table(bundle: str, curves: dict[float, Curve]) -> None:
    print(f"\n{bundle}\n\n| chi | law's r |", *(f"{r:g} |" for r in STEPS))
    print("|---|---|" + "---|" * len(STEPS))
    for chi, points in curves.items():
        by_step = {r: f"{kid:.3g} ± {error:.1g}" for r, kid, error in points}
        print(f"| {chi:g} | {law_step(chi):.3f} |", *(f"{by_step.get(r, '')} |" for r in STEPS))


def draw(file: Path, every: dict[str, dict[float, Curve]]) -> None:
    matplotlib.use("svg")
    import seaborn as sns
    from matplotlib import pyplot as plt

    sns.set_theme(style="whitegrid", context="paper")
    figure, axes = plt.subplots(1, len(every), figsize=(4.6 * len(every), 3.4), squeeze=False)
    for axis, (bundle, curves) in zip(axes[0], every.items(), strict=True):
        for colour, (chi, points) in zip(
            sns.color_palette("viridis", len(curves)), curves.items(), strict=True
        ):
            r, kid, error = zip(*points, strict=True)
            axis.errorbar(r, kid, error, color=colour, marker="o", ms=3, lw=1, label=f"χ = {chi:g}")
            axis.axvline(law_step(chi), color=colour, lw=1, ls=":")
        axis.set(title=bundle, xlabel="relative step r", ylabel="KID", yscale="log")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bundles", nargs="+")
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    every = {name: {chi: curve(name, chi) for chi in CHIS} for name in given.bundles}
    for name, curves in every.items():
        print_table(name, curves)
    if given.figure:
        draw(given.figure, every)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
