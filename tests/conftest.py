"""What several tests share: one thread, the digits, and one tiny bundle made once per session."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from ablate.data.datasets import Dataset, load
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training.pack import make_bundle
from tests.support.studies import TRIALS, Quiet, make_root, setup_of

LONGEST = ("test_many_workers.py", "test_faults.py", "test_resume.py", "test_mutated_files.py")
"""Minutes each: files to begin with, lest one process is left with them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)  # else as they were


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Sums over several threads differ in their last bits from sums over one."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return load("digits")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """As in a terminal: Python leaves SIGINT ignored where a shell started it in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tiny_recipe() -> Recipe:
    """Everything a recipe can have, as small as it goes."""
    net = Net(widths=(8,), blocks=1, dropout=0.1)
    sizes = {"steps": 15, "batch": 32, "warmup": 3, "rate": 3e-3, "rank": 64, "class_rank": 16}
    return Recipe(dataset="digits", s_min=0.002, s_max=3.0, weight_decay=0.01, net=net, **sizes)


@pytest.fixture(scope="session")
def tiny_bundle(tiny_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of digits: its numbers mean little, its parts are all there."""
    folder = tmp_path_factory.mktemp("bundle")
    path = folder / "tiny.safetensors"
    extractor = load_extractor(shipped_path("digits"))
    make_bundle("tiny", tiny_recipe, load("digits"), extractor, folder / "tiny.pt", path)
    return path


@pytest.fixture(scope="session")
def whole(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a study of `studies.TRIALS` trials that one worker ran, never interrupted."""
    from ablate.core.workspace import Workspace
    from ablate.experiment.worker import run

    root = make_root(tmp_path_factory.mktemp("whole") / "root", tiny_bundle, trials=TRIALS)
    run(setup_of(root), Workspace(root), Quiet())
    return root
