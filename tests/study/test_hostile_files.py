"""Study files that nobody would write by hand: refused in one line, soon, without a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ablate.core.bounded_toml import parse_toml
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.study.find import broken_families, find, names, read
from ablate.training.pack import read_recipe

GOOD = """
question = "Which?"
bundle = "digits"
method = "grid"
[fixed]
sampler = "adls"
sigma = 0.8
levels = 10
init = "gaussian"
[search]
chi = {choices}
[budgets.smoke]
samples = {samples}
"""


def good(choices: str = "[0.995, 1.0]", samples: str = "8") -> str:
    return GOOD.format(choices=choices, samples=samples)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 3000 + "]" * 3000, "nested"),
        ("a" + ".a" * 3000 + " = 1", "nested more than 20 deep"),
        ("a = " + "{ a = " * 30 + "1" + " }" * 30, "nested more than 20 deep"),
        (good(samples="1" * 6000), "not TOML: Exceeds the limit"),
        (good(samples="1" * 4000), "budgets.smoke.samples: a whole number beyond 64 bits"),
        (good(choices="{ low = 1, high = 1" + "0" * 400 + " }"), "beyond 64 bits"),
        (
            good(choices=f"[{', '.join(map(str, range(20_000)))}]"),
            "chi: 20,000 items; at most 2,000",
        ),
        (good(choices=f"[{', '.join(map(str, range(2_001)))}]"), "2,001 items; at most 2,000"),
        (good(choices=f"[{', '.join(map(str, range(700_000)))}]"), "bytes; at most 1,000,000"),
        (good(choices=f"[{', '.join(map(str, range(170_000)))}]"), "characters; at most 1,000,000"),
    ],
)
def test_a_file_beyond_all_bounds_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read(find(Workspace(tmp_path), str(file)), "smoke")
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(file))
    assert len(str(caught.value)) < 300


def test_the_longest_list_is_read(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(good(choices=str([0.5 + i / 5000 for i in range(2000)])))
    assert read(find(Workspace(tmp_path), str(file)), "smoke").trials == 2000


def test_a_broken_table_of_families_does_not_hide_other_studies(tmp_path: Path) -> None:
    families = tmp_path / "studies" / "families"
    families.mkdir(parents=True)
    (families / "datasets.toml").write_text("a = " + "[" * 3000 + "]" * 3000)
    (tmp_path / "studies" / "mine.toml").write_text(good())
    assert "mine" in names(Workspace(tmp_path))
    (error,) = broken_families(Workspace(tmp_path)).values()
    assert "nested" in error


@pytest.mark.parametrize("name", ["...toml", "..toml", ".toml", "a\x1b.toml", "a\\b.toml"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    """A report's folder is called as the study is."""
    (tmp_path / name).write_text(good())
    with pytest.raises(UserError, match=r"its name .* good for a folder"):
        find(Workspace(tmp_path), str(tmp_path / name))


def test_a_family_of_a_bad_name_is_refused(tmp_path: Path) -> None:
    families = tmp_path / "studies" / "families"
    families.mkdir(parents=True)
    (families / "datasets.toml").write_text('["../../x"]\ntitle = "x"\n')
    assert not any("x-" in name for name in names(Workspace(tmp_path)))
    (error,) = broken_families(Workspace(tmp_path)).values()
    assert "'../../x'" in error


def extending(folder: Path, **bases: str) -> Workspace:
    (folder / "studies").mkdir()
    for name, base in bases.items():
        (folder / "studies" / f"{name}.toml").write_text(f'extends = "{base}"\n')
    return Workspace(folder)


@pytest.mark.parametrize(
    "bases",
    [
        {"a": "b", "b": "a"},
        {"a": "b.toml", "b": "a.toml"},
        {"a": "../studies/b.toml", "b": "../studies/../studies/a.toml"},
    ],
)
def test_files_that_extend_each_other_say_so(bases: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"extends itself: a -> b -> a"):
        find(extending(tmp_path, **bases), "a")


def test_a_file_that_extends_itself_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"extends itself: a -> a"):
        find(extending(tmp_path, a="a"), "a")
    with pytest.raises(UserError, match=r"extends itself: a -> a"):
        find(Workspace(tmp_path), str(tmp_path / "studies" / "a.toml"))


def test_a_file_extends_the_shipped_study_that_it_replaces(tmp_path: Path) -> None:
    """One from a family and one from a file, each of its own name."""
    for name in ("digits-adls", "digits-training"):
        folder = tmp_path / name
        folder.mkdir()
        workspace = extending(folder, **{name: name})
        assert find(workspace, name).tables == find(Workspace(Path()), name).tables


# --- files that are none, and files beyond what is read ----------------------------------------


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * 10**9)  # a hole: it takes no room


@pytest.mark.parametrize(
    ("make", "words"),
    [(_pipe, "not a file"), (_endless, "not a file"), (_huge, "bytes; at most"), (Path.mkdir, "")],
)
def test_what_is_no_file_or_a_huge_one_is_not_read(
    make: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    """A pipe would be waited for, and /dev/zero has no end."""
    (tmp_path / "studies").mkdir()
    make(tmp_path / "studies" / "x.toml")
    with pytest.raises(UserError, match=rf"x\.toml: .*{words}"):
        find(Workspace(tmp_path), "x")
    with pytest.raises(UserError, match=rf"x\.toml: .*{words}"):
        read_recipe(tmp_path / "studies" / "x.toml")


@pytest.mark.parametrize("part", ["a", '"a b"', "'c'", "a-1 "])
def test_a_key_of_many_parts_takes_no_time(part: str, tmp_path: Path) -> None:
    """The parser takes time with the square of the parts: these would be hours."""
    (tmp_path / "x.toml").write_text(".".join([part] * (900_000 // len(part) // 2)) + " = 1\n")
    with pytest.raises(UserError, match="a key is nested more than 20 deep"):
        find(Workspace(tmp_path), str(tmp_path / "x.toml"))


def test_text_that_looks_like_no_key_is_read_as_before(tmp_path: Path) -> None:
    """A long list, a long word, and many quotes; looking at them takes no time, either."""
    words = {"a": "0.5, " * 1900, "b": f'"{"x" * 300_000}"', "c": '"' + "it's. " * 40_000 + '"'}
    text = f"a = [{words['a']}]\nb = {words['b']}\nc = {words['c']}\n"
    tables = parse_toml(text, "x")
    assert (len(tables["a"]), len(tables["b"]), len(tables["c"])) == (1900, 300_000, 240_000)


def test_a_long_chain_of_files_is_one_line(tmp_path: Path) -> None:
    """Twenty are read; a thousand were a traceback, also of `ablate list` for all others."""
    chain = {f"c{n}": f"c{n + 1}" for n in range(1500)}
    workspace = extending(tmp_path, **chain)
    with pytest.raises(UserError, match=r"c0\.toml: more than 20 files extend one another"):
        find(workspace, "c0")
    (tmp_path / "studies" / "c19.toml").write_text(good())
    assert find(workspace, "c0").question == "Which?"


def test_what_files_make_together_is_bounded(tmp_path: Path) -> None:
    """Each is within bounds; a template and the files of a chain are not."""
    families = tmp_path / "studies" / "families"
    families.mkdir(parents=True)
    (families / "datasets.toml").write_text(f"[x]\nmany = {[1] * 2000}\n")
    (families / "f.toml").write_text(good(choices=str(["$many"] * 2000)))
    with pytest.raises(UserError, match=r"search\.chi: 4,000,000 items"):
        find(Workspace(tmp_path), "x-f")
    for n in range(2):
        keys = "".join(f"k{n}{i} = 1\n" for i in range(1500))
        base = 'extends = "0.toml"\n' if n else ""
        (tmp_path / f"{n}.toml").write_text(base + keys)
    with pytest.raises(UserError, match="3,000 items; at most 2,000"):
        find(Workspace(tmp_path), str(tmp_path / "1.toml"))
