"""How a study ended, as one document: trials by state, and the best trial of the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ablate.search import Entry, searched
from ablate.study.definition import Study


def best_entry(study: Study, entries: Sequence[Entry]) -> Entry | None:
    """The complete trial that is best by the first objective and keeps to all constraints."""
    sign = study.objectives[0].sign
    done = [e for e in searched(entries) if e.state == "complete" and e.feasible]
    return min(done, key=lambda entry: (sign * entry.values[0], entry.number), default=None)


def summary_document(study: Study, entries: Sequence[Entry]) -> dict[str, Any]:
    """What `ablate results` starts with, for programs and for the MLflow UI."""
    best = best_entry(study, entries)
    metrics = [objective.metric for objective in study.objectives]
    return {
        "study": study.name,
        "budget": study.budget,
        "question": study.question,
        "trials": dict(Counter(entry.state for entry in searched(entries))),
        "best": best
        and {
            "trial": best.number,
            "knobs": study.settings(best.params).knobs(),
            "objectives": dict(zip(metrics, best.values, strict=True)),
        },
    }
