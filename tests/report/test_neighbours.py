"""The table of neighbours: a row a space, and no verdict on a part of the training set."""

from __future__ import annotations

from ablate.report.names import Estimate
from ablate.report.neighbours import LABELS, VERDICT, neighbours
from ablate.results import StudyResults
from tests.report.reading import all_tables, column

NUMBERS = {"distance": 3.0, "heldout": 4.0, "suspects": 1.0}
WHOLE = {"closer": 0.5, "c_t": -0.4, "authentic": 0.6, "authentic_heldout": 0.7}


def searched(results: StudyResults, **shares: float | None) -> StudyResults:
    """The results after a search of these shares by space; None: of a record that does not say."""
    found: dict[str, float] = {}
    for space, share in shares.items():
        known = {} if share is None else {"searched": share}
        parts = NUMBERS | known | (WHOLE if share in (1, None) else {})
        found |= {f"nn_{space}_{name}": value for name, value in parts.items()}
    trials = [t._replace(metrics={**t.metrics, **found}) for t in results.trials]
    protocols = {"kid": {**results.protocols["kid"], "reference": "cifar10/train"}}
    return results._replace(trials=trials, protocols={**results.protocols, **protocols})


def test_neighbours_have_a_table_of_their_own(results: StudyResults) -> None:
    assert "neighbours" not in all_tables(results)
    shown = all_tables(searched(results, feature=1.0, pixel=1.0))
    table = shown["neighbours"]
    labels = [label for key, label in LABELS.items() if key != "searched"]  # the caption says it
    assert [c.label for c in table.header] == ["rank", "trial", "space", *labels]
    assert column(table, "space")[:2] == ["feature", "pixel"]
    assert column(table, "trial")[:4] == [9, 9, 13, 13]
    assert column(table, "c_t")[0] == -0.4
    assert column(table, "closer")[0] == Estimate(0.5)
    assert table.bold == 2  # trial 9 leaks data
    assert not [c for c in shown["measures"].header if c.key.startswith("nn_")]
    assert "100 % by feature and 100 % by pixel" in table.caption
    assert "withheld" not in table.caption


def test_a_part_of_the_training_set_gives_no_verdict(results: StudyResults) -> None:
    """The caption says why in one sentence, and what to do."""
    table = neighbours(searched(results, feature=0.04))
    assert not {c.key for c in table.header} & set(VERDICT)
    assert column(table, "suspects")[0] == 1.0
    assert column(table, "searched")[0] == 0.04
    assert "Of the training images, 4 % by feature were searched." in table.caption
    assert "withheld" in table.caption
    assert "ablate data get cifar10" in table.caption
    assert "C_T: the same" not in table.caption  # there is none to explain


def test_each_space_has_its_own_share(results: StudyResults) -> None:
    table = neighbours(searched(results, feature=0.04, pixel=1.0))
    assert column(table, "c_t")[:2] == [None, -0.4]
    assert "4 % by feature and 100 % by pixel" in table.caption
    assert "withheld" in table.caption


def test_numbers_of_records_that_do_not_say_the_share_are_withheld(results: StudyResults) -> None:
    table = neighbours(searched(results, feature=None))
    assert not {c.key for c in table.header} & {*VERDICT, "searched"}
    assert "withheld" in table.caption
