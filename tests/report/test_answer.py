"""The sentences that answer a study's question."""

from __future__ import annotations

from ablate.report import answer, ranking
from ablate.results import StudyResults


def test_state(results: StudyResults) -> None:
    expected = "15 of 20 planned trials complete, 1 diverged, 1 failed, 1 running."
    assert answer.state(results) == expected


def test_the_answer_names_the_best_the_baselines_and_the_ties(results: StudyResults) -> None:
    sentences = answer.answer(results)
    assert sentences[0] == (
        "Of 13 complete configurations that leak no data the best by KID (lower is better) is "
        "trial 13: pf-heun, class-gaussian, levels = 20, with KID 0.01190 ± 0.00099 "
        "(mean and 95 % interval over 3 seeds)."
    )
    assert sentences[3] == (
        "It is worse than held-out images (KID 0.0008), and better than "
        "class-gaussian, no network (KID 0.21)."
    )
    # 13, 3, 7 and 5 lie within each other's reach; 1 at 0.0185 does not
    assert "4 configurations cannot be distinguished by their intervals" in sentences[1]
    # 0.0122 less 0.0119, seed by seed: -0.0001, -0.0001, 0.0011 by the rotated offsets
    assert sentences[2] == "Seed by seed, the best leads by 0.0003 ± 0.0017."
    assert sentences[4].startswith("Trial 9 (pf-heun, forward-data (leaks data), levels = 10)")


def test_a_clear_winner_is_called_one(results: StudyResults) -> None:
    field = [t for t in results.trials if t.number in (0, 3)]
    sentences = " ".join(answer.answer(results._replace(trials=field)))
    assert "has an interval that does not overlap" in sentences
    assert answer.tied(ranking.ranking(results._replace(trials=field)), "kid") == 1


def test_a_baseline_inside_the_interval_is_no_win(results: StudyResults) -> None:
    near = results._replace(baselines={"rival": {"kid": 0.012}})
    assert "It is indistinguishable from rival (KID 0.012)." in answer.answer(near)


def test_a_baseline_within_reach_of_both_intervals_is_indistinguishable(
    results: StudyResults,
) -> None:
    """0.0119 ± 0.00099 against 0.014: apart from the bare number, not from 0.014 ± 0.002."""
    bare = results._replace(baselines={"held-out images": {"kid": 0.014}})
    wide = results._replace(baselines={"held-out images": {"kid": 0.014, "kid.interval": 0.002}})
    assert answer.answer(bare)[3] == "It is better than held-out images (KID 0.014)."
    expected = "It is indistinguishable from held-out images (KID 0.0140 ± 0.0020)."
    assert answer.answer(wide)[3] == expected


def test_diversity_stands_beside_kid(results: StudyResults) -> None:
    """Samples may be good and all alike, which KID hardly shows."""
    trials = [
        t._replace(metrics=t.metrics | {"recall": 0.5, "coverage": 0.4}) for t in results.trials
    ]
    real = {"kid": 0.0008, "recall": 0.92, "coverage": 0.46}
    found = results._replace(trials=trials, baselines={"held-out images": real})
    said = "Its recall is 0.5 and its coverage is 0.4; of real images, 0.92 and 0.46."
    assert any(item.endswith(said) for item in answer.answer(found))
    assert not any("recall" in sentence for sentence in answer.answer(results))


def test_a_study_of_which_nothing_ran_to_its_end_has_no_answer(results: StudyResults) -> None:
    """All pruned, or diverged: there is nothing to wait for."""
    ended = [t._replace(state="pruned", metrics={}) for t in results.trials]
    (said,) = answer.answer(results._replace(trials=ended, planned=len(ended)))
    assert said == "No configuration ran to its end, so there is no answer."
    (said,) = answer.answer(results._replace(trials=ended))
    assert "no answer yet" in said
