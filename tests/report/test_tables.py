"""Tables of trials, on results whose every number can be worked out by hand."""

from __future__ import annotations

import pytest

from ablate.report import knobs, tables
from ablate.report.names import Estimate
from ablate.results import Objective, StudyResults
from tests.report.reading import all_tables, column
from tests.support.records import HALF, lost


def test_the_best_table_ranks_by_the_first_objective_and_shows_what_varies(
    results: StudyResults,
) -> None:
    table = tables.best(results, count=3)
    keys = [c.key for c in table.header]
    assert keys[:9] == ["rank", "trial", "sampler", "init", "chi", "r", "L", "n", "levels"]
    assert keys[9:] == ["kid", "nfe", "seconds"]
    assert [c.label for c in table.header][4] == "χ"
    assert [c.label for c in table.header][9] == "KID ↓"
    assert column(table, "rank") == [1, 2, 3]
    assert column(table, "trial") == [9, 13, 3]
    assert column(table, "init")[0] == "forward-data (leaks data)"
    assert column(table, "chi") == [None, None, 0.995]
    kid = column(table, "kid")[0]
    assert isinstance(kid, Estimate)
    assert kid == pytest.approx((0.0094, HALF * 0.0003))
    # Heun on 10 levels: two evaluations on each of 8 steps, one on the last
    assert column(table, "nfe")[0] == Estimate(17.0, 0.0)
    assert knobs.fixed(results) == {"sigma": 0.8}


def test_baselines_stand_apart_and_are_not_ranked(results: StudyResults) -> None:
    best, alone = tables.best(results), tables.baselines(results)
    assert best.apart[0] == ("held-out images", Estimate(0.0008), None, None)
    assert "held-out images" not in [row[0] for row in best.rows]
    assert alone.rows[1] == ("class-gaussian, no network", Estimate(0.21), Estimate(221.0))


def test_measures_hold_the_rest_and_fid_comes_with_its_sample_count(results: StudyResults) -> None:
    table = tables.measures(results, count=1)
    labels = [c.label for c in table.header]
    assert labels == ["rank", "trial", "FID at N = 1,000", "clamp rate"]
    assert column(table, "fid") == [pytest.approx((19.4, HALF * 0.3))]
    assert table.caption.endswith("All have 0 for flip rate.")


def test_no_column_is_in_both_tables_or_without_a_value(results: StudyResults) -> None:
    """Recall stands beside KID already; a knob that only lower ranks have is no column."""
    trials = [t._replace(metrics=t.metrics | {"recall": 0.9}) for t in results.trials]
    trials[-1] = trials[-1]._replace(params=trials[-1].params | {"label": 3})
    trials[-2] = trials[-2]._replace(params=trials[-2].params | {"label": 4})
    shown = results._replace(trials=trials)
    keys = [[c.key for c in table(shown, 3).header] for table in (tables.best, tables.measures)]
    assert "recall" in keys[0]
    assert "recall" not in keys[1]
    assert "label" not in keys[0]
    assert "label" in [c.key for c in tables.trials(shown).header]


def test_all_trials_are_shown_in_full(results: StudyResults) -> None:
    table = tables.trials(results)
    assert column(table, "trial") == list(range(18))
    assert column(table, "state")[14:] == ["complete", "diverged", "failed", "running"]
    assert column(table, "rank")[9] == 1
    assert column(table, "rank")[15:] == [None] * 3
    assert column(table, "seeds")[:1] == [3]
    assert column(table, "sigma") == [0.8] * 18


def test_all_trials_have_delta_beside_r_and_what_pruned_ones_measured(
    results: StudyResults,
) -> None:
    """delta follows from r, so that the other tables leave it out; files should join."""
    settings = {**results.trials[0].params, "r": 0.9}
    pruned = lost(18, "pruned", settings, "worse")._replace(metrics={"kid": 0.5, "samples": 64.0})
    trials = [
        t._replace(params={**t.params, "delta": t.params.get("r", 1.0)})
        for t in [*results.trials, pruned]
    ]
    table = tables.trials(results._replace(trials=trials))
    assert column(table, "delta")[:2] == [0.57, 0.66]
    assert "delta" not in [c.key for c in tables.best(results._replace(trials=trials)).header]
    last = dict(zip([c.key for c in table.header], table.rows[-1], strict=True))
    assert (last["state"], last["r"], last["kid"]) == ("pruned", 0.9, Estimate(0.5))


def test_troubles_are_named_with_their_reason_and_running_trials_are_none(
    results: StudyResults,
) -> None:
    table = tables.troubles(results)
    assert column(table, "trial") == [15, 16]
    assert "3.1 % of the pixels" in str(column(table, "reason")[0])


def test_diversity_stands_beside_kid_also_of_real_images(results: StudyResults) -> None:
    """Recall and coverage are columns of the ranking, and the baselines have them, too."""
    more = {"recall": 0.5, "coverage": 0.6, "precision": 0.98}
    trials = [t._replace(metrics={**t.metrics, **more}) for t in results.trials]
    real = {"recall": 0.92, "coverage": 0.95, "precision": 0.9, "recall.interval": 0.02}
    named = {name: {**found, **real} for name, found in results.baselines.items()}
    measured = results._replace(trials=trials, baselines=named)
    table = tables.best(measured)
    keys = [c.key for c in table.header]
    assert keys[-5:] == ["kid", "recall", "coverage", "nfe", "seconds"]
    assert column(table, "recall") == [Estimate(0.5)] * 10
    held_out = ("held-out images", Estimate(0.0008), Estimate(0.92, 0.02), Estimate(0.95))
    assert table.apart[0] == (*held_out, None, None)
    others = tables.measures(measured)
    assert "precision" in [c.key for c in others.header]
    assert Estimate(0.9) in others.apart[0]
    goal = [Objective("nfe", "minimize")]
    assert "recall" not in [c.key for c in tables.best(measured._replace(objectives=goal)).header]


def test_what_breaks_a_constraint_is_not_ranked_and_says_so(results: StudyResults) -> None:
    best = results.ranked()[0]
    bound = {"constraints": {"kid": best.metrics["kid"] - 1e-6}}
    bounded = results._replace(spec={**results.spec, **bound})
    assert all_tables(bounded)["best"].rows == []
    reasons = [str(row[-1]) for row in all_tables(bounded)["troubles"].rows]
    assert sum(reason.startswith("KID ") and " exceeds " in reason for reason in reasons) >= 1


def test_metrics_of_a_rung_are_no_columns(results: StudyResults) -> None:
    trials = [t._replace(metrics={**t.metrics, "kid_n64": 1.0}) for t in results.trials]
    shown = all_tables(results._replace(trials=trials))
    assert "kid_n64" not in [column.key for column in shown["measures"].header]
