"""Studies written out as files: reading them gives the same study and the same hash."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.core.errors import UserError
from ablate.core.plain_text import plain
from ablate.core.workspace import Workspace
from ablate.study.find import find, names, read
from ablate.study.written import study_text, toml_lines

HERE = Workspace(Path())


@pytest.mark.parametrize("name", names(HERE))
def test_what_is_printed_is_the_same_study(name: str, tmp_path: Path) -> None:
    """Every shipped study, each budget: equal with all its fields, so equal in its hash."""
    source = find(HERE, name)
    file = tmp_path / f"{name}.toml"
    file.write_text(study_text(source), encoding="utf-8")
    again = find(Workspace(tmp_path), str(file))
    for budget in source.tables["budgets"]:
        before, after = read(source, budget), read(again, budget)
        assert after == before
        assert after.identity("a bundle") == before.identity("a bundle")


def test_a_written_study_can_be_edited(tmp_path: Path) -> None:
    text = study_text(find(HERE, "digits-adls"), "smoke")
    assert text.count("samples = 64\n") == 1
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("samples = 64\n", "samples = 32\n"), encoding="utf-8")
    study = read(find(Workspace(tmp_path), str(file)), "smoke")
    assert (study.name, study.samples) == ("mine", 32)
    with pytest.raises(UserError, match=r"budgets\.quick is not there; the study has smoke"):
        read(find(Workspace(tmp_path), str(file)), "quick")


def test_a_budget_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match=r"budgets\.huge is not there; the study has smoke"):
        study_text(find(HERE, "digits-adls"), "huge")


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(fixed=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES))
def test_any_value_comes_back(fixed: dict[str, Any]) -> None:
    tables = {
        "question": 'Why "so"?\n\\ \x7f \x1b \u202e',
        "fixed": fixed,
        "budgets": {"quick": fixed},
    }
    text = "\n".join(toml_lines(tables))
    assert tomllib.loads(text) == tables
    assert plain(text) == text
