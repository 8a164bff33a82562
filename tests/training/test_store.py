"""The store of trained networks: each once, whoever asks and however processes end."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.models.bundle import read_card
from ablate.tracking.writer import Tracker
from ablate.training.store import Store
from ablate.training.variants import Variant, variant_of
from tests.support.studies import copy_of_record
from tests.support.trained_studies import files, small_recipe, trainings


@pytest.fixture
def store(tmp_path: Path, digits: Dataset) -> Store:
    copy_of_record(Workspace(tmp_path).record)
    return Store(Workspace(tmp_path), "small", digits, "cpu")


def test_a_network_is_trained_once_and_read_afterwards(store: Store, tmp_path: Path) -> None:
    variant = Variant(small_recipe())
    assert not store.is_trained(variant)
    steps: list[int] = []
    first = store.get(variant, progress=lambda step, loss: steps.append(step))
    assert steps == list(range(1, variant.recipe.steps + 1))
    again = store.get(variant)
    assert store.is_trained(variant)
    assert (first.hash, first.run_id) == (again.hash, again.run_id)
    (run,) = trainings(tmp_path)
    assert run.info.run_id == first.run_id
    assert run.info.run_name == f"small {store.key(variant)}"
    assert files(tmp_path) == [f"{store.key(variant)}.safetensors"]
    assert read_card(store.path(variant)).provenance["command"] == "ablate study (recipe small)"


def test_processes_that_ask_at_once_wait_for_one(
    store: Store, tmp_path: Path, digits: Dataset
) -> None:
    """As threads: a file's lock belongs to whoever opened it, so they exclude each other alike."""
    variant, hashes = Variant(small_recipe()), []

    def ask() -> None:
        hashes.append(Store(Workspace(tmp_path), "small", digits, "cpu").get(variant).hash)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hashes) == 3
    assert len(set(hashes)) == 1
    assert len(trainings(tmp_path)) == 1


def test_lengths_of_averages_do_not_train_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe().model_copy(update={"snapshots": 4})
    plain = store.get(Variant(recipe)).bundle
    monkeypatch.setattr("ablate.training.state.take_step", lambda *_: 1 / 0)  # not one step
    long = store.get(Variant(recipe, ema_length=0.2)).bundle
    assert len(trainings(tmp_path)) == 1
    pairs = zip(plain.model.net.parameters(), long.model.net.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)
    assert store.is_trained(Variant(recipe, ema_length=0.1))
    assert not store.is_trained(Variant(small_recipe(), ema_length=0.1))


def test_a_run_left_open_by_a_kill_is_closed(store: Store, tmp_path: Path) -> None:
    """Killed between writing the network and closing the run: as if the run were open again."""
    variant = Variant(small_recipe())
    run_id = store.get(variant).run_id
    assert run_id is not None
    Tracker(Workspace(tmp_path)).reopen(run_id, {})
    assert store.get(variant).run_id == run_id
    assert [run.info.status for run in trainings(tmp_path)] == ["FINISHED"]


def test_a_training_without_directions_is_stored(store: Store) -> None:
    """Rank 0 is EDM's scalar preconditioning; no mixture can be fitted along no directions."""
    variant = variant_of(small_recipe(), {"train.rank": 0, "train.class_rank": 0})
    assert store.get(variant).bundle.mixture is None


def test_an_interrupted_training_is_continued(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle leaves a checkpoint; the next call ends with the same weights."""
    variant, whole = Variant(small_recipe()), Store.get(store, Variant(small_recipe()))
    store.path(variant).unlink()

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("ablate.training.mlflow_log.TrainingLog.__call__", stop)
        with pytest.raises(KeyboardInterrupt):
            store.get(variant)
    assert files(tmp_path, ".pt") == [f"{store.key(variant)}.pt"]
    assert store.get(variant).hash == whole.hash
