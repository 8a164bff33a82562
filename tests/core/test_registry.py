"""Registries: records by name, from this package and, by entry points, from others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ablate.core import registry as registries
from ablate.core.errors import UserError
from ablate.core.registry import Registry, resolved


@dataclass(frozen=True)
class Shape:
    name: str
    corners: int


GROUP = "ablate.shapes"
MODULE = "another_package_with_shapes"
SOURCE = """
from tests.core.test_registry import Shape

SQUARE = Shape("square", 4)
RENAMED = Shape("rectangle", 4)
NUMBER = 4
"""


@pytest.fixture
def shapes() -> Registry[Shape]:
    return Registry("shape", GROUP, Shape, [Shape("point", 1), Shape("triangle", 3)])


@pytest.fixture(autouse=True)
def points(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The installed entry points, name -> reference; tests add to it."""
    installed: dict[str, str] = {}

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == GROUP
        return [EntryPoint(name, value, group) for name, value in installed.items()]

    monkeypatch.setattr(registries, "entry_points", entry_points)
    return installed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of another package that is not imported yet."""
    path = tmp_path / f"{MODULE}.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop(MODULE, None)


# --- our own ------------------------------------------------------------------------------------


def test_records_are_found_by_name_in_order(shapes: Registry[Shape]) -> None:
    assert list(shapes) == ["point", "triangle"]
    assert len(shapes) == 2
    assert shapes["triangle"].corners == 3
    assert "triangle" in shapes
    assert "circle" not in shapes
    assert [record.corners for record in shapes.values()] == [1, 3]


def test_an_unknown_name_is_a_key_error_with_a_message_for_users(shapes: Registry[Shape]) -> None:
    with pytest.raises(KeyError, match="circle"):
        shapes["circle"]
    assert shapes.get("circle") is None
    assert shapes.unknown("circle") == "shape 'circle' is unknown; known: point, triangle"


def test_a_record_is_added_and_removed(shapes: Registry[Shape]) -> None:
    line = Shape("line", 2)
    assert shapes.add(line) is line
    assert shapes["line"] is line
    assert list(shapes) == ["point", "triangle", "line"]
    shapes.remove("line")
    assert "line" not in shapes
    assert list(shapes) == ["point", "triangle"]


def test_a_taken_name_is_refused(shapes: Registry[Shape], points: dict[str, str]) -> None:
    points["square"] = f"{MODULE}:SQUARE"
    for name in ("triangle", "square"):
        with pytest.raises(UserError, match=f"^shape '{name}' is registered already$"):
            shapes.add(Shape(name, 99))
    assert shapes["triangle"].corners == 3


def test_registries_do_not_share_records(shapes: Registry[Shape]) -> None:
    shapes.add(Shape("line", 2))
    assert "line" not in Registry("shape", GROUP, Shape, [])


# --- entry points -------------------------------------------------------------------------------


def test_names_of_entry_points_cost_no_import(
    shapes: Registry[Shape], points: dict[str, str], package: Path
) -> None:
    points["square"] = f"{MODULE}:SQUARE"
    assert list(shapes) == ["point", "triangle", "square"]
    assert len(shapes) == 3
    assert "square" in shapes
    assert "square" in shapes.unknown("circle")
    assert MODULE not in sys.modules
    assert shapes["square"] == Shape("square", 4)
    assert MODULE in sys.modules
    assert shapes["square"] is shapes["square"]
    assert list(shapes) == ["point", "triangle", "square"]


def test_our_own_record_comes_before_an_entry_point_of_its_name(
    shapes: Registry[Shape], points: dict[str, str], package: Path
) -> None:
    points["triangle"] = f"{MODULE}:SQUARE"
    assert shapes["triangle"].corners == 3
    assert len(shapes) == 2
    assert MODULE not in sys.modules


def refusal(shapes: Registry[Shape], name: str) -> str:
    with pytest.raises(UserError) as caught:
        shapes[name]
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_broken_import_is_one_line(
    shapes: Registry[Shape], points: dict[str, str], package: Path
) -> None:
    """The module may raise anything; the other names still work."""
    package.write_text("raise RuntimeError('no licence\\nfound')")
    points |= {"square": f"{MODULE}:SQUARE", "circle": "no_such_package.shapes:CIRCLE"}
    assert refusal(shapes, "square") == (
        f"shape 'square': {MODULE}:SQUARE cannot be imported (no licence)"
    )
    assert refusal(shapes, "circle") == (
        "shape 'circle': no_such_package.shapes:CIRCLE cannot be imported"
        " (No module named 'no_such_package')"
    )
    assert shapes["point"].corners == 1


def test_a_missing_attribute_is_one_line(
    shapes: Registry[Shape], points: dict[str, str], package: Path
) -> None:
    points["circle"] = f"{MODULE}:CIRCLE"
    assert f"shape 'circle': {MODULE}:CIRCLE cannot be imported" in refusal(shapes, "circle")


@pytest.mark.parametrize("attribute", ["NUMBER", "RENAMED"])
def test_a_wrong_type_or_name_is_one_line(
    shapes: Registry[Shape], points: dict[str, str], package: Path, attribute: str
) -> None:
    points["square"] = f"{MODULE}:{attribute}"
    expected = f"shape 'square': {MODULE}:{attribute} is not a Shape of that name"
    assert refusal(shapes, "square") == expected
    assert refusal(shapes, "square") == expected  # it is not registered by the first attempt


# --- references ---------------------------------------------------------------------------------


def test_a_reference_is_a_function_or_its_name(package: Path) -> None:
    assert resolved(len) is len
    assert resolved("ablate.core.registry:resolved") is resolved
    package.write_text("def area(): return 7")
    reference = f"{MODULE}:area"
    assert MODULE not in sys.modules
    assert resolved(reference)() == 7
