"""A training logged to MLflow: what the run contains, and that logging does not change weights."""

from __future__ import annotations

import signal
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.tracking.reader import Reader
from ablate.tracking.writer import Tracker
from ablate.training import mlflow_log
from ablate.training.loop import StepReport, train
from ablate.training.mlflow_log import BandLosses, bands, logged, sample_grid, system_metrics
from ablate.training.options import DEFAULTS, Options
from tests.support.commands import Command, until
from tests.support.studies import copy_of_record

LEVELS = ("0.05", "0.1", "0.2", "0.4", "0.8", "1.6")


def runs_of(workspace: Workspace, name: str = "tiny") -> list[Run]:
    client = MlflowClient(workspace.tracking_uri)
    experiment = client.get_experiment_by_name(f"train-{name}")
    assert experiment is not None
    return client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])


def test_bands_are_equal_parts_of_log_s() -> None:
    edges = bands(0.01, 100.0)
    assert [low for low, _ in edges] == pytest.approx([0.01, 0.1, 1, 10])
    assert edges[-1][1] == pytest.approx(100)


def test_losses_are_means_by_band_since_last_asked() -> None:
    losses = BandLosses(0.01, 100.0)
    losses.add(torch.tensor([0.02, 0.05, 2.0]), torch.tensor([1.0, 3.0, 5.0]))
    losses.add(torch.tensor([100.0, 0.01]), torch.tensor([7.0, 2.0]))  # the ends are in
    assert losses.take() == {
        "loss": pytest.approx(3.6),
        "loss by level/0.01 to 0.1": pytest.approx(2.0),
        "loss by level/1 to 10": pytest.approx(5.0),
        "loss by level/10 to 100": pytest.approx(7.0),
    }
    losses.add(torch.tensor([0.5]), torch.tensor([4.0]))
    assert losses.take() == {"loss": 4.0, "loss by level/0.1 to 1": 4.0}


def test_system_metrics_are_of_this_process() -> None:
    first = system_metrics()
    assert 20 < first["system/peak_memory_megabytes"] < 1e5  # Python alone; a big machine
    while time.process_time() < first["system/cpu_seconds"] + 0.02:
        pass
    assert system_metrics()["system/cpu_seconds"] > first["system/cpu_seconds"]


@pytest.fixture(scope="module")
def short(tiny_recipe: Recipe) -> Recipe:
    return tiny_recipe.model_copy(update={"steps": 4})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One database for all tests here: making one takes seconds."""
    workspace = Workspace(tmp_path_factory.mktemp("log"))
    copy_of_record(workspace.record)
    return workspace


def watched(
    workspace: Workspace,
    name: str,
    recipe: Recipe,
    digits: Dataset,
    checkpoint: Path,
    stops: dict[int, BaseException] | None = None,
) -> dict[str, torch.Tensor]:
    """Train with a log, checkpointed at each step; `stops` are raised after the steps named."""
    with logged(workspace, name, recipe, DEFAULTS, "cpu") as log:

        def watch(report: StepReport) -> None:
            log(report)
            if stops and report.step in stops:
                raise stops[report.step]

        options = Options(due=lambda step: True)
        done = train(recipe, digits, checkpoint, options=options, watch=watch)
    return done.model.net.state_dict()


def test_a_training_is_on_record(
    workspace: Workspace,
    short: Recipe,
    digits: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every step here, so that each is seen; and the weights are those of a training unwatched."""
    plain = train(short, digits, tmp_path / "plain.pt").model.net.state_dict()
    every_step = partial(mlflow_log.TrainingLog, log_seconds=0.0, preview_seconds=0.0)
    monkeypatch.setattr(mlflow_log, "TrainingLog", every_step)
    seen = watched(workspace, "tiny", short, digits, tmp_path / "a.pt")
    assert all(torch.equal(value, plain[name]) for name, value in seen.items())
    (run,) = runs_of(workspace)
    assert run.info.status == "FINISHED"
    assert run.data.tags["version.torch"] == version("torch")
    assert run.data.params["steps"] == "4"
    assert run.data.params["net.widths"] == "(8,)"
    assert {f"held-out error/{s}" for s in LEVELS} <= set(run.data.metrics)
    assert len([name for name in run.data.metrics if name.startswith("loss by level/")]) == 4
    assert run.data.metrics["images_per_second"] > 0
    assert run.data.metrics["system/cpu_seconds"] > 0
    client = MlflowClient(workspace.tracking_uri)
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [entry.step for entry in history] == [1, 2, 3, 4]
    history = client.get_metric_history(run.info.run_id, "held-out error/0.4")
    assert [entry.step for entry in history] == [1, 4]  # dear: the first look puts off the next
    pictures = [file.path for file in client.list_artifacts(run.info.run_id)]
    assert "samples.png" in pictures


def test_an_interrupted_training_says_so_and_is_taken_up_in_its_run(
    workspace: Workspace, short: Recipe, digits: Dataset, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "a.pt"
    with pytest.raises(KeyboardInterrupt):
        watched(workspace, "stopped", short, digits, checkpoint, {2: KeyboardInterrupt()})
    (run,) = runs_of(workspace, "stopped")
    assert run.info.status == "KILLED"
    with pytest.raises(ZeroDivisionError):
        watched(workspace, "stopped", short, digits, checkpoint, {3: ZeroDivisionError("made up")})
    (run,) = runs_of(workspace, "stopped")
    assert run.info.status == "FAILED"
    assert "made up" in run.data.tags["ablate.reason"]
    watched(workspace, "stopped", short, digits, checkpoint)
    (run,) = runs_of(workspace, "stopped")
    assert run.info.status == "FINISHED"
    checkpoint.unlink()
    watched(workspace, "stopped", short, digits, checkpoint)  # again, from the start
    assert [run.info.status for run in runs_of(workspace, "stopped")] == ["FINISHED"] * 2


def test_a_record_that_cannot_be_written_does_not_end_a_training(
    workspace: Workspace,
    short: Recipe,
    digits: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = train(short, digits, tmp_path / "plain.pt").model.net.state_dict()

    def full(*args: object, **options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Tracker, "log_picture", full)
    seen = watched(workspace, "full", short, digits, tmp_path / "a.pt")
    assert all(torch.equal(value, plain[name]) for name, value in seen.items())
    assert capsys.readouterr().err == "not logged to MLflow: OSError: No space left on device\n"
    (run,) = runs_of(workspace, "full")
    assert run.info.status == "FINISHED"
    assert f"held-out error/{LEVELS[0]}" in run.data.metrics


def test_trainings_are_not_studies(
    workspace: Workspace, short: Recipe, digits: Dataset, tmp_path: Path
) -> None:
    watched(workspace, "third", short, digits, tmp_path / "a.pt")
    with pytest.raises(UserError, match="no study has been run"):
        Reader(workspace).names()
    assert Reader(workspace).latest("train-third") is None


def test_samples_are_images_and_always_the_same(
    digits: Dataset, short: Recipe, tmp_path: Path
) -> None:
    trained = train(short, digits, tmp_path / "a.pt")
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        first, second = (sample_grid(trained, digits.shape) for _ in range(2))
        assert torch.equal(before, torch.get_rng_state())
    assert first.shape == (64, 1, 8, 8)
    assert first.dtype == torch.uint8
    assert torch.equal(first, second)
    # the linear denoiser alone gives images as bright as digits are, within a tenth of the range
    assert abs(float(first.float().mean()) - float(digits.train.pixels.float().mean())) < 25


TOML = """
dataset = "digits"
steps = 4000
batch = 16
checkpoint_every = 200
rank = 8
class_rank = 4
[net]
widths = [8]
blocks = 1
"""


def test_the_command_is_on_record_and_ctrl_c_is_too(tmp_path: Path) -> None:
    path = tmp_path / "studies" / "train" / "long.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TOML)
    copy_of_record(Workspace(tmp_path).record)
    process, checkpoint = Command(tmp_path, "train", "long"), tmp_path / "mlruns/training/long.pt"
    until(checkpoint.exists, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "200/4000 steps" in out
    assert process.returncode == 130
    assert err == "interrupted; the same command continues\n"
    (run,) = runs_of(Workspace(tmp_path), "long")
    assert run.info.status == "KILLED"
