"""StudyResults -> the table of how near samples are to training images."""

from __future__ import annotations

from ablate.report.blocks import Row, Table, numbers, words
from ablate.report.columns import COPIES
from ablate.report.names import Item, estimate
from ablate.report.ranking import contenders, ranking
from ablate.results import StudyResults, Trial

LABELS = {
    "distance": "distance",
    "heldout": "distance, held-out",
    "suspects": "suspects",
    "searched": "searched",
    "closer": "closer",
    "c_t": "C_T",
    "authentic": "authentic",
    "authentic_heldout": "authentic, held-out",
}
"""The numbers of a search for copies, nn_<space>_<name>, in the order of the columns."""

EXACT = ("heldout", "suspects", "searched", "c_t", "authentic_heldout")
"""Those without an interval: they do not depend on the seed, or are a count or a z-score."""

VERDICT = ("closer", "c_t", "authentic", "authentic_heldout")
"""Those that say nothing unless the whole training set was searched."""


def neighbours(results: StudyResults, count: int = 10) -> Table:
    """Whether samples are copies of training images: a row for each trial and space."""
    found = spaces(results)
    rows = [
        (rank, trial.number, space, [_cell(trial, space, name) for name in LABELS])
        for rank, trial in enumerate(ranking(results)[:count], 1)
        for space in found
    ]
    used = [
        i for i, name in enumerate(LABELS) if _says_something([row[3][i] for row in rows], name)
    ]
    keys = [list(LABELS)[i] for i in used]
    header = [numbers("rank"), numbers("trial"), words("space")]
    header += [numbers(key, LABELS[key], 3 if key == "c_t" else 0) for key in keys]
    shown: list[Row] = [(*row[:3], *(row[3][i] for i in used)) for row in rows]
    first = next((trial.number for trial in contenders(results)), None)
    bold = next((i for i, row in enumerate(shown) if row[1] == first), None)
    return Table("neighbours", _caption(results, found), header, shown, bold=bold)


def _says_something(cells: list[Item], name: str) -> bool:
    """Whether a column is worth its place: the caption has a share that all searched."""
    if name == "searched" and set(cells) == {1}:
        return False
    return any(cell is not None for cell in cells)


def spaces(results: StudyResults) -> list[str]:
    """The spaces that were searched: feature, pixel or both."""
    logged = {name for trial in results.trials for name in trial.metrics}
    names = (name.split("_")[1] for name in sorted(logged) if name.startswith(COPIES))
    return list(dict.fromkeys(names))


def _cell(trial: Trial, space: str, name: str) -> Item:
    """What a trial measured; a verdict only if the whole training set was searched for it."""
    if name in VERDICT and trial.metrics.get(f"{COPIES}{space}_searched", 0.0) < 1:
        return None
    found = estimate(trial, f"{COPIES}{space}_{name}")
    return found.value if found is not None and name in EXACT else found


def _caption(results: StudyResults, found: list[str]) -> str:
    parts = ["Distances to the nearest training image, beside those of held-out images."]
    shares = {space: _least_searched(results, space) for space in found}
    known = {space: share for space, share in shares.items() if share is not None}
    if known:
        listed = " and ".join(f"{100 * share:.3g} % by {space}" for space, share in known.items())
        parts.append(f"Of the training images, {listed} were searched.")
    if any(share == 1 for share in known.values()):
        parts.append(
            "Closer: the probability that a sample is nearer than a held-out image; 0.5 is expected"
            " without copying. C_T: the same as a z-score; below −3 samples are copies, or too"
            " smooth: the suspects show which. Authentic: the share of samples further from their"
            " nearest training image than that is from another; that of held-out images is its"
            " control."
        )
    if any(share != 1 for share in shares.values()):
        parts.append(
            "Closer, C_T and authentic are withheld where a part of the training set was searched:"
            " they would not show copies of the rest. To get them, run the study where the dataset"
            f" is installed (ablate data get {_dataset(results)})."
        )
    return " ".join(parts)


def _least_searched(results: StudyResults, space: str) -> float | None:
    """The smallest share of the training set that a trial searched; None if none says it."""
    name = f"{COPIES}{space}_searched"
    shares = [trial.metrics.get(name) for trial in ranking(results)]
    known = [share for share in shares if share is not None]
    return min(known) if known and len(known) == len(shares) else None


def _dataset(results: StudyResults) -> str:
    """The name of the dataset, by the reference of the first objective."""
    protocol = results.protocols.get(results.objectives[0].metric, {})
    name, slash, _ = str(protocol.get("reference", "")).partition("/")
    return name if slash else "DATASET"
