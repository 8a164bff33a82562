"""Where reports go: a folder for each budget, and no report is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.report import places, render
from tests.report.reading import files
from tests.support.records import empty, no_pictures

STUDY = empty()._replace(budget="quick")
SMOKE = STUDY._replace(budget="smoke")


def test_budgets_have_folders_of_their_own(tmp_path: Path) -> None:
    quick = render.publish(STUDY, no_pictures, tmp_path)
    before = files(quick.parent)
    smoke = render.publish(SMOKE, no_pictures, tmp_path)
    assert quick == tmp_path / "fashion-start" / "index.html"
    assert smoke == tmp_path / "fashion-start-smoke" / "index.html"
    assert files(quick.parent) == before
    assert places.owner_of(smoke.parent) == ("fashion-start", "smoke")


def test_a_report_of_an_earlier_version_moves_to_its_own_folder(tmp_path: Path) -> None:
    """These were all in reports/<study>, and without a summary."""
    folder = render.write(SMOKE, no_pictures, tmp_path / "fashion-start").parent
    (folder / places.SUMMARY).unlink()
    before = files(folder)
    assert places.settled(tmp_path, STUDY) == folder
    assert not folder.exists()
    assert files(tmp_path / "fashion-start-smoke") == before


def test_a_report_of_another_study_is_not_overwritten(tmp_path: Path) -> None:
    other = STUDY._replace(name="fashion-start-smoke")
    folder = render.publish(other, no_pictures, tmp_path).parent
    before = files(folder)
    with pytest.raises(UserError, match="has the report of fashion-start-smoke with budget quick"):
        render.publish(SMOKE, no_pictures, tmp_path)
    assert files(folder) == before


def test_what_is_no_report_has_no_owner(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / places.SUMMARY).write_text("{broken")
    assert places.owner_of(tmp_path / "notes") is None
    assert places.owner_of(tmp_path / "nothing") is None
