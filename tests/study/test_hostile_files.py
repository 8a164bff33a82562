"""Study files that nobody would write by hand: refused in one line, soon, without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.study.find import broken_families, find, names, read

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
        (good(choices=f"[{', '.join(map(str, range(700_000)))}]"), "characters; at most 1,000,000"),
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
