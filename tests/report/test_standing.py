"""Where the best configuration comes from, and what may be as good."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.report.ranking import contenders
from ablate.report.standing import indistinguishable, origin, sentences
from ablate.results import StudyResults
from tests.support.records import study

LAW: dict[str, Any] = {"method": "law", "confirm": {"named": {"the paper's setting": 0}}}


def searched(first: int, **spec: Any) -> StudyResults:
    return study()._replace(spec={**LAW, "first": [{}] * first, **spec})


@pytest.mark.parametrize(
    ("number", "came"),
    [(0, "the paper's setting"), (1, "what theory predicts"), (2, "the search")],
)
def test_where_a_configuration_comes_from(number: int, came: str) -> None:
    results = searched(1)
    assert origin(results, results.trials[number]) == came
    assert origin(searched(1, method="grid"), results.trials[number]) == ""


def test_the_set_is_by_paired_differences_and_holm() -> None:
    """13 is the best; 3 and 5 differ from it by 0.0003 and 0.0011, with half-widths above that
    once twelve comparisons are corrected for; 7 has its seeds' offsets, so 0.0007 is clear."""
    results = searched(1)
    found = indistinguishable(results, contenders(results)[0])
    assert found is not None
    assert {trial.number for trial in found} == {13, 3, 5}
    assert indistinguishable(study(1), contenders(study(1))[0]) is None


def test_a_search_that_found_nothing_better_says_so() -> None:
    best = contenders(study())[0]
    nothing = " ".join(sentences(searched(13), best))
    assert "It is what theory predicts: the search found nothing better." in nothing
    clear = " ".join(sentences(searched(1), best))
    assert clear.endswith("(paired, on the samples by which the best was chosen).")
    assert "The search found it: it is better than what theory predicts (trial" in clear
    same = " ".join(sentences(searched(4), best))
    assert "The search found it, but no difference shows from" in same
