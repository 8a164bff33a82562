"""The pictures that cells stored."""

from __future__ import annotations

from pathlib import Path

from ablate.report import answer, gallery, render
from ablate.report.blocks import pictures_in
from ablate.results import StudyResults
from tests.report.reading import all_blocks, two_objectives
from tests.support.records import no_pictures, pictures


def test_only_leaking_trials_still_give_an_answer(results: StudyResults) -> None:
    oracles = results._replace(trials=[t for t in results.trials if t.number in (9, 14)])
    assert "leaks data" in answer.answer(oracles)[0]
    assert [role for role, _ in gallery.gallery(oracles)] == ["best", "worst"]


def test_the_best_ones_neighbours_are_shown(results: StudyResults, tmp_path: Path) -> None:
    fetch = pictures(tmp_path / "store")
    assert "neighbours" not in {each.kind for each in pictures_in(all_blocks(results, fetch))}
    trials = [t._replace(metrics={**t.metrics, "nn_feature_c_t": -0.4}) for t in results.trials]
    page = render.write(results._replace(trials=trials), fetch, tmp_path / "r")
    assert (page.parent / "figures" / "neighbours-best.png").is_file()
    html = page.read_text(encoding="utf-8")
    assert "Beside the training images" in html
    assert "nearest to the training set, nearest first" in html


def test_missing_pictures_and_two_objectives(tmp_path: Path) -> None:
    page = render.write(two_objectives(), no_pictures, tmp_path / "r")
    html = page.read_text(encoding="utf-8")
    assert html.count("No picture in the store.") == 5
    assert 'src="data:image/' not in html
    assert "no picture in the store" in (tmp_path / "r/report.md").read_text(encoding="utf-8")
    assert "2 trials are on the Pareto front of KID and NFE." in html
    assert (tmp_path / "r/figures/pareto.svg").is_file()
    assert not (tmp_path / "r/figures/cost.svg").exists()
    assert (tmp_path / "r/tables/pareto.tex").is_file()


def test_the_searchs_best_is_called_so_where_fresh_seeds_were_drawn(
    results: StudyResults, tmp_path: Path
) -> None:
    """These may prefer another, which has no pictures."""
    fetch = pictures(tmp_path / "store")
    (plain, *_), *_ = (group.pictures for group in gallery.pictures(results, fetch))
    again = results._replace(confirmation={"trials": []})
    (searched, *_), *_ = (group.pictures for group in gallery.pictures(again, fetch))
    assert plain.caption.startswith("Best, trial 13")
    assert searched.caption.startswith("Best of the search, trial 13")
