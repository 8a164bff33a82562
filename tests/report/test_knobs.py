"""Which knobs a study varied, and which it kept fixed."""

from __future__ import annotations

from ablate.report import knobs
from ablate.results import StudyResults


def test_a_fixed_knob_that_some_trials_lack_is_partial(results: StudyResults) -> None:
    capped = results.trials[0]._replace(params={**results.trials[0].params, "cap": 0.03})
    legend = knobs.legend(results._replace(trials=[capped, *results.trials[1:]]))
    assert set(legend.fixed) == {"σ", "cap"}
    assert legend.partial == {"cap"}
