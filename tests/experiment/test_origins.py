"""Bundles that change under a study: it stops, and continues when they are back."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import torch

from ablate.cli.progress import StudyBar
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.experiment.earlier import begun_with_another
from ablate.experiment.portable import portable
from ablate.experiment.worker import run
from ablate.models import bundle as bundles
from tests.experiment.test_flights import Threads
from tests.support.commands import Command, ablate
from tests.support.studies import Quiet, litter, make_root, results, runs, setup_of, timeless


@pytest.fixture(scope="module")
def another(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny bundle with another note on its card: another file."""
    path = tmp_path_factory.mktemp("another") / "tiny.safetensors"
    read = bundles.read(tiny_bundle)
    card = read.card.model_copy(update={"note": "another"})
    bundles.write(path, card, read.model, read.moments, read.features, read.mixture)
    return path


def overwrite(source: Path, target: Path) -> None:
    """In place, as cp does it."""
    target.write_bytes(source.read_bytes())


def test_a_bundle_in_memory_does_not_change_with_its_file(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.safetensors"
    shutil.copy(tiny_bundle, path)
    read = bundles.read(path)
    before = [part.clone() for part in (*read.moments.everything, read.moments.class_averages)]
    path.write_bytes(bytes(path.stat().st_size))
    path.write_bytes(b"")  # reading a mapped file beyond its end would end this process
    after = (*read.moments.everything, read.moments.class_averages)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(after, before, strict=True))


def changing(bundle: Path, source: Path) -> None:
    """In a command's process: its first finished trial comes with another bundle."""
    finished = StudyBar.finished

    def then(self: StudyBar, number: int, state: str, metrics: Mapping[str, float]) -> None:
        finished(self, number, state, metrics)
        overwrite(source, bundle)

    StudyBar.finished = then  # type: ignore[method-assign]


def test_a_study_stops_when_its_bundle_changes_and_continues_when_it_is_back(
    whole: Path, another: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    """Whoever runs the command with the other bundle is told that it is another study."""
    root = make_root(tmp_path, tiny_bundle, trials=9)
    bundle, setup = root / "tiny.safetensors", setup_of(root)
    process = Command(root, "study", "tiny", first=partial(changing, bundle, another))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert errors == (
        f"error: {bundle} has changed since the study began with it ({setup.bundle.hash}): put it"
        " back and the same command continues; with another file it begins another study\n"
    )
    assert [row["state"] for row in results(root)] == ["complete"]
    assert "RUNNING" not in {each.info.status for each in runs(root)}
    assert litter(root) == []
    said = str(begun_with_another(setup_of(root), Workspace(root)))
    assert f"has bundle tiny {setup.bundle.hash} and is not complete" in said
    overwrite(tiny_bundle, bundle)
    assert begun_with_another(setup, Workspace(root)) is None
    ablate(root, "study", "tiny")
    assert timeless(results(root)) == timeless(results(whole))
    overwrite(another, bundle)
    assert begun_with_another(setup_of(root), Workspace(root)) is None  # that one is complete


def test_cells_elsewhere_are_drawn_with_the_bundle_of_the_beginning(
    whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    """Its file is removed while the trials are in flight: those that ended count."""

    class Removing(Quiet):
        def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
            super().finished(number, state, metrics)
            (tmp_path / "tiny.safetensors").unlink(missing_ok=True)

    setup = setup_of(make_root(tmp_path, tiny_bundle, trials=9))
    executor = Threads(setup, 2)
    with pytest.raises(UserError, match=r"tiny\.safetensors is gone since the study began with it"):
        run(setup, Workspace(tmp_path), Removing(), executor)
    executor.close()
    done = [row for row in timeless(results(tmp_path)) if row["state"] == "complete"]
    assert done
    assert done == timeless(results(whole))[: len(done)]
    assert "RUNNING" not in {each.info.status for each in runs(tmp_path)}


def test_no_path_of_this_machine_goes_to_others(tiny_bundle: Path, tmp_path: Path) -> None:
    setup = setup_of(make_root(tmp_path, tiny_bundle))
    assert [path for path, _ in setup.files] == [tmp_path / "tiny.safetensors"]
    assert str(tmp_path).encode() not in pickle.dumps(portable(setup))
