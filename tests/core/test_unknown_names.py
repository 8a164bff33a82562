"""What is said of a name that is not known."""

from __future__ import annotations

import pytest

from ablate.core.unknown_names import nearest, unknown

STUDIES = [f"{d}-{f}" for d in ("digits", "mnist", "fashion") for f in ("adls", "asams", "init")]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("digits-adsl", "digits-adls"),
        ("Digits-adls", "digits-adls"),
        ("mnist-int", "mnist-init"),
        ("fashon-asams", "fashion-asams"),
    ],
)
def test_a_misspelt_name_is_recognised(name: str, meant: str) -> None:
    assert nearest(name, STUDIES)[0] == meant
    assert f"study {name!r} is unknown; did you mean '{meant}'" in unknown("study", name, STUDIES)


def test_part_of_few_names_is_enough() -> None:
    assert nearest("igits", STUDIES) == ["digits-adls", "digits-asams", "digits-init"]
    assert nearest("s", STUDIES) == []  # of nearly all


def test_what_is_like_nothing_lists_what_there_is() -> None:
    assert unknown("metric", "moon", ["kid", "fid"]) == "metric 'moon' is unknown; known: kid, fid"
    assert unknown("study", "moon", []) == "study 'moon' is unknown; known: none"


def test_many_names_are_not_listed_beside_a_suggestion() -> None:
    many = [*STUDIES, *(f"other-{i}" for i in range(5))]
    assert "known:" not in unknown("study", "digits-adsl", many)
    assert "known:" in unknown("study", "digits-adsl", STUDIES)


def test_a_name_of_any_length_is_answered_shortly() -> None:
    assert len(unknown("study", "x" * 10**6, ["kid"])) < 300
