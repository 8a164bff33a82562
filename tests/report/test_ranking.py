"""Which trials are ranked, and in which order."""

from __future__ import annotations

from ablate.report import answer, ranking, tables
from ablate.results import Objective, StudyResults
from tests.report.reading import column, two_objectives
from tests.support.records import trial


def test_a_complete_trial_without_a_finite_objective_is_not_ranked(results: StudyResults) -> None:
    broken = trial(18, {"sampler": "adls"}, [{"kid": float("nan")}])
    changed = results._replace(trials=[broken, *results.trials])
    assert [t.number for t in ranking.ranking(changed)[:2]] == [9, 13]
    assert 18 in column(tables.troubles(changed), "trial")


def test_maximised_objectives_rank_the_other_way(results: StudyResults) -> None:
    flipped = results._replace(objectives=[Objective("kid", "maximize")])
    assert ranking.ranking(flipped)[0].number == 2
    assert tables.best(flipped).header[9].label == "KID ↑"
    assert "better than class-gaussian" not in " ".join(answer.answer(flipped))


def test_the_pareto_front_leaves_oracles_out() -> None:
    # trial 9 leaks and would beat all; 13 has the least KID of the others, 7 the least NFE
    results = two_objectives()
    assert [t.number for t in ranking.front(results)] == [13, 7]
    assert column(tables.pareto(results), "rank") == [2, 4]


def test_a_remembered_ranking_is_that_of_the_results_asked_about(results: StudyResults) -> None:
    """Also if a caller changed the list that it got."""
    fewer = results._replace(trials=results.trials[:5])
    first = ranking.ranking(results)
    assert len(ranking.ranking(fewer)) == 5
    first.clear()
    assert len(ranking.ranking(results)) == 15
    assert ranking.contenders(fewer) != ranking.contenders(results)
