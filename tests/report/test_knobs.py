"""Which knobs a study varied, and which it kept fixed."""

from __future__ import annotations

from ablate.report import knobs
from ablate.report.names import configuration
from ablate.results import StudyResults


def test_a_fixed_knob_that_some_trials_lack_is_partial(results: StudyResults) -> None:
    capped = results.trials[0]._replace(params={**results.trials[0].params, "cap": 0.03})
    legend = knobs.legend(results._replace(trials=[capped, *results.trials[1:]]))
    assert set(legend.fixed) == {"σ", "cap"}
    assert legend.partial == {"cap"}


def test_the_legend_says_once_that_knobs_apply_to_some_trials(results: StudyResults) -> None:
    legend = knobs.legend(results)
    assert legend.everywhere.keys() | legend.somewhere.keys() == legend.fixed.keys()
    assert legend.somewhere.keys() == legend.partial


def test_rho_is_shown_where_it_was_searched(results: StudyResults) -> None:
    """Elsewhere it follows from r and chi, which are shown."""
    given = [t._replace(params={**t.params, "rho": 0.1 * t.number}) for t in results.trials]
    results = results._replace(trials=given)
    assert "rho" not in knobs.varied(results)
    searched = results._replace(spec={"search": {"rho": {"low": 0.7, "high": 1.5}}})
    assert "rho" in knobs.varied(searched)
    assert "r" in knobs.varied(searched)


def test_a_knob_that_tells_trials_apart_names_them(results: StudyResults) -> None:
    """It has a single value, which one of two trials that are else alike does not have."""
    one, *others = results.trials
    twin = one._replace(number=99, params={**one.params, "label": "none"})
    with_twin = results._replace(trials=[one, *others, twin])
    assert "label" not in knobs.varied(with_twin)
    assert "label" in knobs.distinguishing(with_twin)
    assert "label = none" in configuration(with_twin, twin, knobs.distinguishing(with_twin))
    assert "label" not in knobs.legend(with_twin).fixed
    elsewhere = others[-1]._replace(params={**others[-1].params, "cap": 0.03})
    apart = results._replace(trials=[one, elsewhere])
    assert "cap" not in knobs.distinguishing(apart)
