"""The report's folder: complete, the same bytes each time, replaced whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.files import folder_lock
from ablate.report import render
from ablate.report.blocks import Table, words
from ablate.report.page import opening
from ablate.report.sections import Built
from tests.report.reading import all_tables, files
from tests.support.records import empty, no_pictures, study


def test_the_folder_holds_every_table_and_figure(report: Path) -> None:
    written = set(files(report))
    for name in all_tables(study()):
        assert f"tables/{name}.csv" in written
        printed = name not in ("trials", "history", "study")  # long ones, shown collapsed
        assert (f"tables/{name}.tex" in written) == printed
    for name in ("best", "choices", "sweeps", "cost"):
        assert {f"figures/{name}.{kind}" for kind in ("png", "svg", "pdf")} <= written
    assert {"figures/samples-worst.png", "figures/trajectory-best.png"} <= written
    linked = (report / "report.md").read_text(encoding="utf-8").split("](")[1:]
    assert all(link.split(")")[0] in written for link in linked)


def test_the_same_results_give_the_same_bytes_and_nothing_heavy_is_imported(
    report: Path, tmp_path: Path
) -> None:
    code = (
        "import sys, pathlib, ablate.report.render as render\n"
        "heavy = {'torch', 'optuna', 'mlflow', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from tests.support import records\n"
        "store = records.pictures(pathlib.Path(sys.argv[1]) / 'store')\n"
        "render.write(records.study(), store, pathlib.Path(sys.argv[1]) / 'again')\n"
    )
    surroundings = os.environ | {"PYTHONHASHSEED": "1", "MPLBACKEND": "svg"}
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, cwd=root, env=surroundings
    )
    assert files(tmp_path / "again") == files(report)


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "r"
    render.write(empty(), no_pictures, folder)
    (folder / "figures" / "stale.png").write_bytes(b"")
    before = files(folder)

    def killed(run_id: str, name: str) -> Path:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render.write(study(), killed, folder)
    assert files(folder) == before
    render.write(empty(), no_pictures, folder)
    assert "figures/stale.png" not in files(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["r"]


@pytest.mark.parametrize("between", [False, True], ids=["while it fills", "between the renames"])
def test_what_a_killed_report_left_is_removed(between: bool, tmp_path: Path) -> None:
    """A process writes beside the folder, and one was killed; only the latter's is removed, and an
    old report that it had moved away goes back."""
    folder, dead, alive = (tmp_path / name for name in ("r", ".r.a1b2c3d4", ".r.e5f6g7h8"))
    render.write(empty(), no_pictures, folder)
    before = files(folder)
    (dead / "new").mkdir(parents=True)
    (alive / "new").mkdir(parents=True)
    if between:
        folder.rename(dead / "old")

    def killed(run_id: str, name: str) -> Path:
        raise KeyboardInterrupt

    with folder_lock(alive), pytest.raises(KeyboardInterrupt):
        render.write(study(), killed, folder)
    assert files(folder) == before
    assert {path.name for path in tmp_path.iterdir()} == {"r", alive.name}


def test_a_folder_that_is_no_report_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds thesis\.tex.*name another folder"):
        render.write(empty(), no_pictures, tmp_path)
    with pytest.raises(UserError, match="is a file"):
        render.write(empty(), no_pictures, tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


HOSTILE = "Which? [click](http://evil) ![x](http://evil/p.png) \x1b[2J \u202egnp.exe `[y](z)`"


def test_words_of_the_record_stay_words(tmp_path: Path) -> None:
    """Links, images and control characters in a question, a label and a command."""
    results = empty()._replace(question=HOSTILE, baselines={HOSTILE: {"kid": 0.1}})
    results = results._replace(tags=results.tags | {"commit": HOSTILE})
    page = render.write(results, no_pictures, tmp_path / "r")
    for file in files(page.parent):
        if file.endswith((".md", ".html", ".csv", ".tex")):
            text = (page.parent / file).read_text(encoding="utf-8")
            assert not set("\x1b\u202e") & set(text), file
    text = (page.parent / "report.md").read_text(encoding="utf-8")
    assert r"\[click\](http\://evil) !\[x\]" in text
    assert not re.search(r"(?<!\\)\]\((?!tables/|figures/)", text)


def test_no_file_of_a_report_leads_out_of_its_folder(tmp_path: Path) -> None:
    above = {**opening(empty()), "facts": ()}
    table = Table("../../evil", "", [words("k")], [("v",)])
    with pytest.raises(UserError, match=r"a report: the name of its file '\.\./\.\./evil\.csv'"):
        render.fill(tmp_path / "a" / "b", above, [Built("s", [table])], {"name": "x"})
    assert not list(tmp_path.rglob("evil*"))
