"""What a report says of configurations that were measured again."""

from __future__ import annotations

from pathlib import Path

from ablate.report import answer, confirmed, render
from ablate.report.names import Estimate
from ablate.results import StudyResults
from tests.support.records import no_pictures, study, trial

PAPER = "the paper's setting"


def row(number: int, again: int, value: float, name: str | None = None) -> dict[str, object]:
    searched = {13: 0.0119, 3: 0.0122, 0: 0.031}[number]
    return {
        **{"trial": number, "again": again, "name": name, "top": name is None, "feasible": True},
        **{"searched": searched, "confirmed": value, "error": 0.0005},
        "optimism": value - searched,
    }


def pair(one: int, other: int, difference: float, p: float) -> dict[str, object]:
    return {
        **{"trial": one, "than": other, "difference": difference, "error": 0.0004},
        **{"probability": 1 - p / 2, "p": p, "holm": min(1.0, 2 * p)},
    }


def results() -> StudyResults:
    again = [(20, 13), (21, 3), (22, 0)]
    cells = {"kid": 0.0131, "nfe": 37.0}
    found = study()
    by_number = {t.number: t for t in found.trials}
    return found._replace(
        confirmations=[trial(n, by_number[of].params, [cells]) for n, of in again],
        confirmation={
            **{"metric": "kid", "samples": 256, "seeds": [100, 101, 102]},
            "trials": [row(13, 20, 0.0131), row(3, 21, 0.0128), row(0, 22, 0.03, PAPER)],
            "pairs": [
                pair(3, 13, -0.0003, 0.45),
                pair(3, 0, -0.0172, 1e-9),
                pair(13, 0, -0.017, 0),
            ],
        },
    )


def test_the_answer_begins_with_what_was_confirmed() -> None:
    """The search's best, 13, is second when measured again."""
    first, paper, alike, baselines, *rest = answer.answer(results())
    assert first == (
        "Measured again on 3 fresh seeds of 256 samples, the best is trial 3 (adls-consistent,"
        " class-gaussian, χ = 0.995, r = 1, L = 1, n = 1, levels = 40), with KID"
        " 0.01280 ± 0.00098; the search had 0.01220 ± 0.00099 for it, no difference that shows."
    )
    assert paper == (
        "It is better than the paper's setting (trial 0, 0.03000 ± 0.00098) by 0.01720 ± 0.00078"
        " (paired, p < 0.001 after Holm's correction)."
    )
    # by the search 3 ties with 5, 7 and 13, too
    assert alike.startswith("Of 12 others 3 cannot be distinguished from it")
    assert alike.endswith("trials 5, 7, 13; on fresh seeds, too: trial 13.")
    assert baselines.startswith("It is worse than held-out images (KID 0.0008), and better than")
    assert rest[0].startswith("Trial 9")  # the oracle


def test_fresh_seeds_decide_what_ties() -> None:
    """Trial 13 ties with 3 in the search; on fresh seeds it is worse."""
    apart = results()
    apart.confirmation["pairs"][0] |= {"holm": 0.001}
    alike = answer.answer(apart)[2]
    assert alike.endswith("trials 5, 7.")


def test_a_search_that_was_lucky_says_so() -> None:
    lucky = results()
    lucky.confirmation["trials"][1] |= {"confirmed": 0.0222, "optimism": 0.01}
    lucky.confirmation["trials"][0] |= {"confirmed": 0.04}
    # trial 3 has ± 2.4843 * 0.0004 in the search and ± 0.00098 again
    assert answer.answer(lucky)[0].endswith(
        "; the search had 0.01220 ± 0.00099 for it, too good by 0.0100 ± 0.0014."
    )


def test_one_that_is_not_clearly_better_is_not_called_so() -> None:
    near = results()
    near.confirmation["pairs"][1] |= {"difference": -0.0004, "probability": 0.84, "holm": 0.32}
    assert answer.answer(near)[1] == (
        "No difference shows from the paper's setting (trial 0, 0.03000 ± 0.00098):"
        " (4.0 ± 7.8) × 10⁻⁴ (paired, p = 0.32 after Holm's correction)."
    )


def test_what_was_lost_is_named() -> None:
    """One diverged on fresh seeds, another breaks a constraint: it cannot be the best."""
    found = results()
    gone = found.confirmations[0]._replace(state="diverged", reason="a value is not finite")
    found = found._replace(confirmations=[gone, *found.confirmations[1:]])
    found.confirmation["trials"][0] |= {"feasible": False, "top": False, "confirmed": 0.001}
    said = " ".join(answer.answer(found))
    assert "the best is trial 3" in said
    assert "again, diverged: a value is not finite." in said
    assert "On fresh seeds trial 13 breaks a constraint." in said
    assert confirmed.table(found).bold == 1


def test_one_without_a_value_in_the_search_has_no_optimism() -> None:
    found = results()
    lost = [t._replace(metrics={}) if t.number == 0 else t for t in found.trials]
    found = found._replace(trials=lost)
    found.confirmation["trials"][2] |= {"searched": None, "optimism": None}
    assert confirmed.table(found).rows[2][2:5:2] == (None, None)


def test_the_tables_are_best_first() -> None:
    table = confirmed.table(results())
    assert [row[0] for row in table.rows] == [3, 13, 0]
    assert table.rows[2][1] == PAPER
    assert table.rows[0][3] == Estimate(0.0128, 1.959964 * 0.0005)
    assert table.bold == 0
    pairs = confirmed.pairs(results())
    assert [row[:2] for row in pairs.rows] == [(3, 13), (3, 0), (13, 0)]


def test_the_page_shows_them(tmp_path: Path) -> None:
    html = render.write(results(), no_pictures, tmp_path / "r").read_text(encoding="utf-8")
    assert "Measured again on fresh seeds" in html
    assert (tmp_path / "r/tables/confirmed.csv").is_file()
    assert (tmp_path / "r/tables/pairs.csv").is_file()


def test_without_a_confirmation_nothing_is_said_of_one() -> None:
    assert confirmed.sentences(study()) == []
    assert "fresh" not in " ".join(answer.answer(study()))


def test_a_probability_is_never_shown_as_certain() -> None:
    """1 - 5e-10 and 0 by the normal law; CSV has what was computed."""
    table = confirmed.pairs(results())
    probability, p, holm = table.header[3:]
    assert probability.shown(1 - 5e-10) == "> 0.999"
    assert probability.shown(0.923) == "0.923"
    assert p.shown(0.0) == holm.shown(2e-9) == "< 0.0001"
    assert holm.shown(1.0) == "1"
    assert table.header[0].shown(-0.5) == -0.5  # no probability, no bound
    assert table.rows[2][4] == 0
