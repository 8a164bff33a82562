"""Bundles that are damaged or made up: refused by name in one line, and never in others' way."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ablate.cli.bundles import _listed
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.metrics.extractors.extractor import load_extractor
from ablate.models import bundle as bundles
from ablate.models.digests import LIST, digest, write_list


def card_of(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        card: dict[str, Any] = json.loads(file.metadata()["ablate"])
    return card


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        bundles.read(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize(
    "name", ["net.out.weight", "everything.variances", "classes.mean", "features.train"]
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_refused_by_name(
    name: str, value: float, tiny_bundle: Path, tmp_path: Path
) -> None:
    """Also where nothing has a digest, as in bundles of versions before 0.2."""
    tensors = load_file(tiny_bundle)
    tensors[name].view(-1)[-1] = value
    path = tmp_path / "bad.safetensors"
    save_file(tensors, path, {"ablate": json.dumps({**card_of(tiny_bundle), "content": None})})
    assert f"{name} has values that are not finite" in refusal(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"s_max": math.nan}, "s_max"),
        ({"s_min": -math.inf}, "s_min"),
        ({"s_min": 4.0}, "s_min = 4 is not below s_max = 3"),
        ({"shape": [1, 100_000, 100_000]}, "shape.1"),
        ({"shape": [1, 16, 16]}, "shape (1, 16, 16) is not that of 64 pixels"),
        ({"shape": [0, 8, 8]}, "shape.0"),
    ],
)
def test_impossible_cards_are_refused_by_key(
    change: dict[str, Any], words: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.safetensors"
    card = json.dumps({**card_of(tiny_bundle), **change})
    save_file(load_file(tiny_bundle), path, {"ablate": card})
    assert words in refusal(path)


def test_a_number_within_the_recipe_is_named(tiny_bundle: Path, tmp_path: Path) -> None:
    card = card_of(tiny_bundle)
    card["recipe"]["rate"] = math.inf
    path = tmp_path / "bad.safetensors"
    save_file(load_file(tiny_bundle), path, {"ablate": json.dumps(card)})
    assert "recipe.rate = inf is not a finite number" in refusal(path)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "9" * 6000])
def test_a_card_that_breaks_the_parser_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    save_file({"x": torch.zeros(1)}, path, {"ablate": text})
    refusal(path)


def test_one_bad_file_does_not_hide_the_other_bundles(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.bundles.mkdir(parents=True)
    path = workspace.bundles / "bad.safetensors"
    save_file({"x": torch.zeros(1)}, path, {"ablate": "[" * 100_000})
    found = {
        name: _listed(name, file) for name, file in bundles.available_bundles(workspace).items()
    }
    assert "cannot be read" in found["bad"]["error"]
    assert found["digits"]["shape"] == [1, 8, 8]
    assert "error" not in found["digits"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.bundles.mkdir(parents=True)
    os.mkfifo(workspace.bundles / "pipe.safetensors")
    file = bundles.available_bundles(workspace)["pipe"]
    assert "not a file" in _listed("pipe", file)["error"]
    assert "not a file" in refusal(file)


# --- digests of what is shipped ----------------------------------------------------------------


def test_every_shipped_file_is_listed_as_it_is() -> None:
    """After files changed: `python -m ablate.models.digests`."""
    listed = json.loads((bundles.ZOO / LIST).read_text())
    assert listed == {file.name: digest(file) for file in bundles.ZOO.glob("*.safetensors")}


def test_a_listed_file_that_changed_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    """One changed bit of a weight, and a card of another value: both keep the format."""
    path = tmp_path / "tiny.safetensors"
    path.write_bytes(tiny_bundle.read_bytes())
    write_list(tmp_path)
    assert bundles.read(path).hash == digest(path)[:16]
    card = {**card_of(path), "content": None}
    save_file(load_file(tiny_bundle), path, {"ablate": json.dumps(card)})
    assert "is damaged; its bytes are not those listed" in refusal(path)
    (tmp_path / LIST).write_text("{}")
    assert "is not listed in digests.json" in refusal(path)
    (tmp_path / LIST).write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"digests\.json: cannot be read"):
        bundles.read(path)


def test_a_listed_classifier_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits-features.safetensors"
    path.write_bytes((bundles.ZOO / path.name).read_bytes())
    write_list(tmp_path)
    assert load_extractor(path).card["dataset"] == "digits"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        load_extractor(path)


def test_a_classifier_of_numbers_that_are_not_finite_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "digits-features.safetensors"
    shipped = bundles.ZOO / path.name
    tensors = load_file(shipped)
    name = next(name for name, each in tensors.items() if each.is_floating_point())
    tensors[name].view(-1)[0] = math.nan
    save_file(tensors, path, {"ablate": json.dumps(card_of(shipped))})
    with pytest.raises(UserError, match=f"{name} has values that are not finite"):
        load_extractor(path)
