"""StudyResults -> the pictures that cells stored, with captions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ablate.report.answer import measured
from ablate.report.blocks import Picture, Pictures
from ablate.report.columns import searched_for_copies
from ablate.report.knobs import distinguishing
from ablate.report.names import trial_name
from ablate.report.packing import packed_picture
from ablate.report.ranking import contenders, ranking
from ablate.results import NEIGHBOURS, SAMPLES, TRAJECTORY, StudyResults, Trial

Fetch = Callable[[str, str], Path]
"""(run id, artifact) -> a local file; FileNotFoundError where there is none."""

NEAREST = (
    "At the left the samples nearest to the training set, nearest first; beside each its nearest "
    "training images, blurred where only thumbnails of them were on the machine."
)


def gallery(results: StudyResults) -> list[tuple[str, Trial]]:
    """(role, trial) to show: the best, the oracle if it is better still, and the worst."""
    ranked, field = ranking(results), contenders(results)
    roles = [("best", field[:1]), ("oracle", ranked[:1]), ("worst", ranked[-1:])]
    chosen: dict[int, tuple[str, Trial]] = {}
    for role, picked in roles:
        for trial in picked:
            chosen.setdefault(trial.number, (role, trial))
    return list(chosen.values())


def pictures(results: StudyResults, fetch: Fetch) -> list[Pictures]:
    """Sample grids of the gallery, trajectories of all but the worst, and the best trial's samples
    beside their nearest training images if the study searched for copies; of the first seeds."""
    trials = gallery(results)
    if not trials:
        return []

    def of(artifact: str, chosen: list[tuple[str, Trial]], remark: str = "") -> list[Picture]:
        return [
            Picture(
                Path(artifact).stem,
                role,
                _caption(results, role, trial) + remark,
                _fetched(fetch, trial, artifact),
                trial.number,
            )
            for role, trial in chosen
        ]

    good = [each for each in trials if each[0] != "worst" or len(trials) == 1]
    groups = [
        Pictures("Samples", of(SAMPLES, trials)),
        Pictures("From noise to image", of(TRAJECTORY, good), strips=True),
    ]
    if searched_for_copies(results):
        nearest = of(NEIGHBOURS, trials[:1], f" {NEAREST}")
        groups.append(Pictures("Beside the training images", nearest, strips=True))
    return groups


def _caption(results: StudyResults, role: str, trial: Trial) -> str:
    """Best, trial 7: adls, class-average; KID 0.042 ± 0.017 (…)."""
    name = trial_name(results, trial, distinguishing(results))
    searched = role == "best" and bool(results.confirmation)  # fresh seeds may prefer another
    which = "best of the search" if searched else role
    return f"{which.capitalize()}, {name}; {measured(results, trial)}."


def _fetched(fetch: Fetch, trial: Trial, artifact: str) -> bytes | None:
    try:
        if not trial.cells:
            return None
        return packed_picture(fetch(trial.cells[0].run_id, artifact).read_bytes())
    except FileNotFoundError:
        return None
