"""StudyResults -> the summary of its report, from which the front page is made."""

from __future__ import annotations

from typing import Any

from ablate.report import answer, confirmed, ladder
from ablate.report.blocks import Picture
from ablate.report.coarse_trials import too_coarse
from ablate.report.names import estimate, metric_label, text
from ablate.report.ranking import contenders
from ablate.results import StudyResults, Trial


def summary(results: StudyResults, pictures: list[Picture]) -> dict[str, Any]:
    """Names, question, answer, the value to quote and a picture."""
    sentences = answer.answer(results)
    metric = results.objectives[0].metric
    trial = headline(results)
    shown = next((each for each in pictures if each.png and each.role == "best"), None)
    return {
        "name": results.name,
        "budget": results.budget,
        "dataset": dataset(results),
        "family": family(results),
        "question": results.question,
        "answer": sentences,
        "state": answer.state(results),
        "warning": too_coarse(results) or "",
        "metric": metric_label(results, metric),
        "value": text(estimate(trial, metric)) if trial else "",
        "picture": f"figures/{shown.name}.png" if shown else "",
    }


def headline(results: StudyResults) -> Trial | None:
    """The trial to quote: of a ladder that is climbed the last step's, else as confirmed, else the
    best."""
    field = contenders(results)
    if (last := ladder.last_trial(results)) is not None:
        return next((trial for trial in field if trial.number == last), None)
    return confirmed.confirmed_trial(results) or (field[0] if field else None)


def dataset(results: StudyResults) -> str:
    """The dataset that the first objective was measured against; empty if that is not recorded."""
    protocol = results.protocols.get(results.objectives[0].metric, {})
    return str(protocol.get("reference", "")).replace(" ", "/").partition("/")[0]


def family(results: StudyResults) -> str:
    """The study's name without its dataset: adls of digits-adls, all of it for others."""
    return results.name.removeprefix(f"{dataset(results)}-")
