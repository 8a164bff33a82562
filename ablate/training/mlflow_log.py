"""Logging a training to MLflow: losses by noise level, held-out errors, samples and speed.

Nothing here draws from the training's random numbers, so logging does not change the weights.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch import Tensor

from ablate.core.errors import first_line
from ablate.core.provenance import provenance
from ablate.core.signals import shielded
from ablate.core.workspace import Workspace
from ablate.data.contact_sheet import save_grid
from ablate.data.datasets import to_pixels
from ablate.diffusion.inits import Source
from ablate.generate.draw import draw_batch
from ablate.generate.presets import few_step_settings
from ablate.models.recipe import Recipe
from ablate.models.score_model import ScoreModel
from ablate.results import Value
from ablate.tracking.writer import Tracker
from ablate.training.loop import Observer, StepReport, Trained
from ablate.training.options import Options

BANDS = 4
"""Bands of noise levels whose losses are logged."""

SAMPLES, SAMPLE_LEVELS = 64, 8
"""Images of a preview, and noise levels to draw them with."""

LOG_SECONDS, PREVIEW_SECONDS = 10.0, 60.0
"""Time between logged losses, and between previews: held-out errors and samples."""

PREVIEW_SHARE = 0.02
"""Largest share of the time that goes into previews."""


def bands(s_min: float, s_max: float) -> list[tuple[float, float]]:
    """(lowest, highest) level of each band: equal parts of log s."""
    edges = [s_min * (s_max / s_min) ** (k / BANDS) for k in range(BANDS + 1)]
    return list(itertools.pairwise(edges))


class BandLosses:
    """Mean loss by band of noise levels, over the steps since the last call of `take`."""

    def __init__(self, s_min: float, s_max: float) -> None:
        self._bands = bands(s_min, s_max)
        self._inner = torch.tensor([high for _, high in self._bands[:-1]])
        self._sums, self._counts = torch.zeros(BANDS).double(), torch.zeros(BANDS).double()

    def add(self, levels: Tensor, losses: Tensor) -> None:
        """Include a batch; both [B]."""
        band = torch.bucketize(levels, self._inner)
        self._sums.index_add_(0, band, losses.double())
        self._counts += torch.bincount(band, minlength=BANDS)

    def take(self) -> dict[str, float]:
        """The means by name, and start anew. `loss` is over all bands; empty bands are left out."""
        means = {"loss": float(self._sums.sum() / self._counts.sum())}
        for (low, high), total, count in zip(self._bands, self._sums, self._counts, strict=True):
            if count:
                means[f"loss by level/{low:.3g} to {high:.3g}"] = float(total / count)
        self._sums, self._counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)
        return means


def system_metrics() -> dict[str, float]:
    """CPU time and memory of this process. MLflow's own system metrics need psutil."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss: bytes there, kilobytes here
    metrics = {
        "system/cpu_seconds": used.ru_utime + used.ru_stime,
        "system/peak_memory_megabytes": used.ru_maxrss * unit / 1e6,
    }
    if torch.cuda.is_available():
        metrics["system/gpu_peak_memory_megabytes"] = torch.cuda.max_memory_allocated() / 1e6
    return metrics


def sample_grid(trained: Trained, shape: tuple[int, int, int]) -> Tensor:
    """64 images by a few steps of probability flow from class Gaussians, of the same noise."""
    moments = trained.moments.to(torch.float32)
    score = ScoreModel(trained.model, moments, shape, trained.recipe.net.classes)
    settings = few_step_settings(SAMPLE_LEVELS, trained.recipe.noise_range())
    drawn = draw_batch(score, Source(moments), settings, 0, range(SAMPLES), _device(trained))
    return to_pixels(drawn.x.cpu().nan_to_num(0.0))[0]


def _device(trained: Trained) -> str:
    return str(next(trained.model.net.parameters()).device)


class TrainingLog:
    """An observer of a training that logs to a run of MLflow at intervals."""

    def __init__(
        self,
        tracker: Tracker,
        run_id: str,
        recipe: Recipe,
        log_seconds: float = LOG_SECONDS,
        preview_seconds: float = PREVIEW_SECONDS,
    ) -> None:
        self._tracker, self._run_id = tracker, run_id
        self._losses = BandLosses(*recipe.noise_range())
        self._log_seconds, self._preview_seconds = log_seconds, preview_seconds
        self._logged = self._previewed = time.monotonic()

    def __call__(self, report: StepReport) -> None:
        self._losses.add(report.levels, report.losses)
        now, last = time.monotonic(), report.step == report.steps
        if last or now - self._logged >= self._log_seconds:
            metrics = self._losses.take() | {"images_per_second": report.images_per_second}
            with _failure_tolerated():
                self._tracker.log(self._run_id, metrics | system_metrics(), step=report.step)
            self._logged = now
        if last or now - self._previewed >= self._preview_seconds:
            self._preview(report)
            self._previewed = time.monotonic()
            took = self._previewed - now
            self._preview_seconds = max(self._preview_seconds, took / PREVIEW_SHARE)

    def _preview(self, report: StepReport) -> None:
        """Log held-out errors and samples of the average so far."""
        trained = report.averaged()
        errors = {f"held-out error/{s:g}": e for s, e in trained.heldout_error.items()}
        with _failure_tolerated():
            self._tracker.log(self._run_id, errors, step=report.step)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "samples.png"
            save_grid(path, sample_grid(trained, report.shape), columns=16)
            with _failure_tolerated():
                self._tracker.log_picture(self._run_id, path, report.step)


@contextmanager
def _failure_tolerated() -> Iterator[None]:
    """A write that a signal does not interrupt, and whose failure does not end the training."""
    try:
        with shielded():
            yield
    except Exception as error:
        print(f"not logged to MLflow: {type(error).__name__}: {first_line(error)}", file=sys.stderr)


def _flat(recipe: Recipe) -> dict[str, Value]:
    """The recipe as parameters of a run."""
    top = recipe.model_dump(exclude={"net"})
    return top | {f"net.{key}": str(value) for key, value in recipe.net.model_dump().items()}


def _params(recipe: Recipe, options: Options, steps: int) -> dict[str, Value]:
    params = _flat(recipe) | {"steps": steps}  # which --minutes may decide
    if options.minutes is not None:
        params["minutes"] = options.minutes
    if options.start is not None:
        params["from"] = f"{options.start.name} {options.start.hash}"
    return params


@contextmanager
def logged(
    workspace: Workspace,
    name: str,
    recipe: Recipe,
    options: Options,
    device: str,
    identity: str = "",
) -> Iterator[Observer]:
    """An observer that logs to the training's run in MLflow; the run's status is how it ended.

    identity: what the run is found by again; its parameters, if this is empty.

    An unfinished run of the same training is continued. The run is opened at the first step, so
    that a training that is refused before leaves none.
    """
    log: TrainingLog | None = None
    with ExitStack() as open_run:

        def watch(report: StepReport) -> None:
            nonlocal log
            if log is None:
                tracker, params = Tracker(workspace), _params(recipe, options, report.steps)
                what = identity or " ".join(f"{key} {value}" for key, value in params.items())
                with shielded():
                    run_id = tracker.open_training(name, what, params, provenance(device))
                open_run.enter_context(tracker.closing(run_id))
                log = TrainingLog(tracker, run_id, recipe)
            log(report)

        yield watch
