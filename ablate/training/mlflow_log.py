"""A training on record as it goes: losses by noise level, held-out errors, samples, speed.

Nothing here is drawn from the training's random numbers, so a training that is watched ends in the
same weights as one that is not.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
from ablate.tracking import Tracker
from ablate.training.loop import Options, StepNews, Trained

BANDS = 4
SAMPLES, SAMPLE_LEVELS = 64, 8
LOG_SECONDS, LOOK_SECONDS = 10.0, 60.0
LOOK_SHARE = 0.02
"""Of the time, at most, that goes into held-out errors and samples."""


def bands(s_min: float, s_max: float) -> list[tuple[float, float]]:
    """Equal parts of log s."""
    edges = [s_min * (s_max / s_min) ** (k / BANDS) for k in range(BANDS + 1)]
    return list(itertools.pairwise(edges))


class BandLosses:
    """Mean loss by band of noise levels over the steps since it was last asked for."""

    def __init__(self, s_min: float, s_max: float) -> None:
        self._bands = bands(s_min, s_max)
        self._inner = torch.tensor([high for _, high in self._bands[:-1]])
        self._sums, self._counts = torch.zeros(BANDS).double(), torch.zeros(BANDS).double()

    def add(self, levels: Tensor, losses: Tensor) -> None:
        band = torch.bucketize(levels, self._inner)
        self._sums.index_add_(0, band, losses.double())
        self._counts += torch.bincount(band, minlength=BANDS)

    def take(self) -> dict[str, float]:
        """By name; `loss` is the mean over all of them, and a band without images is left out."""
        found = {"loss": float(self._sums.sum() / self._counts.sum())}
        for (low, high), total, count in zip(self._bands, self._sums, self._counts, strict=True):
            if count:
                found[f"loss by level/{low:.3g} to {high:.3g}"] = float(total / count)
        self._sums, self._counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)
        return found


def system_metrics() -> dict[str, float]:
    """Of this process. MLflow's own need psutil, which does not come with it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss: bytes there, kilobytes here
    found = {
        "system/cpu_seconds": used.ru_utime + used.ru_stime,
        "system/peak_memory_megabytes": used.ru_maxrss * unit / 1e6,
    }
    if torch.cuda.is_available():
        found["system/gpu_peak_memory_megabytes"] = torch.cuda.max_memory_allocated() / 1e6
    return found


def sample_grid(trained: Trained, shape: tuple[int, int, int]) -> Tensor:
    """64 images by a few steps of probability flow from class Gaussians: always the same noise."""
    moments = trained.moments.to(torch.float32)
    score = ScoreModel(trained.model, moments, shape, trained.recipe.net.classes)
    settings = few_step_settings(SAMPLE_LEVELS, trained.recipe.noise_range())
    drawn = draw_batch(score, Source(moments), settings, 0, range(SAMPLES), _device(trained))
    return to_pixels(drawn.x.cpu().nan_to_num(0.0))[0]


def _device(trained: Trained) -> str:
    return str(next(trained.model.net.parameters()).device)


class TrainingLog:
    """Told of every step; writes now and then."""

    def __init__(
        self,
        tracker: Tracker,
        run_id: str,
        recipe: Recipe,
        log_seconds: float = LOG_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._tracker, self._run_id = tracker, run_id
        self._losses = BandLosses(*recipe.noise_range())
        self._log_seconds, self._look_seconds = log_seconds, look_seconds
        self._logged = self._looked = time.monotonic()

    def __call__(self, news: StepNews) -> None:
        self._losses.add(news.levels, news.losses)
        now, last = time.monotonic(), news.step == news.steps
        if last or now - self._logged >= self._log_seconds:
            metrics = self._losses.take() | {"images_per_second": news.images_per_second}
            with _kept_going():
                self._tracker.log(self._run_id, metrics | system_metrics(), step=news.step)
            self._logged = now
        if last or now - self._looked >= self._look_seconds:
            self._look(news)
            self._looked = time.monotonic()
            self._look_seconds = max(self._look_seconds, (self._looked - now) / LOOK_SHARE)

    def _look(self, news: StepNews) -> None:
        """At the average so far: what it would do if training ended here."""
        trained = news.averaged()
        errors = {f"held-out error/{s:g}": e for s, e in trained.heldout_error.items()}
        with _kept_going():
            self._tracker.log(self._run_id, errors, step=news.step)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "samples.png"
            save_grid(path, sample_grid(trained, news.shape), columns=16)
            with _kept_going():
                self._tracker.log_picture(self._run_id, path, news.step)


@contextmanager
def _kept_going() -> Iterator[None]:
    """A write that a signal does not cut in two, and whose failure does not end hours of work."""
    try:
        with shielded():
            yield
    except Exception as error:
        print(f"not on record: {type(error).__name__}: {first_line(error)}", file=sys.stderr)


def _flat(recipe: Recipe) -> dict[str, Value]:
    """As parameters of a run."""
    top = recipe.model_dump(exclude={"net"})
    return top | {f"net.{key}": str(value) for key, value in recipe.net.model_dump().items()}


def _params(recipe: Recipe, options: Options, steps: int) -> dict[str, Value]:
    params = _flat(recipe) | {"steps": steps}  # known only by now if minutes decide them
    if options.minutes is not None:
        params["minutes"] = options.minutes
    if options.start is not None:
        params["from"] = f"{options.start.name} {options.start.hash}"
    return params


@contextmanager
def logged(
    workspace: Workspace, name: str, recipe: Recipe, options: Options, device: str
) -> Iterator[Callable[[StepNews], None]]:
    """The training's run in MLflow, taken up again if it was left; its status is how it ended.

    Opened at the first step, so that what is refused before leaves nothing behind.
    """
    log: TrainingLog | None = None
    with ExitStack() as open_run:

        def watch(news: StepNews) -> None:
            nonlocal log
            if log is None:
                tracker, params = Tracker(workspace), _params(recipe, options, news.steps)
                what = " ".join(f"{key} {value}" for key, value in params.items())
                with shielded():
                    run_id = tracker.open_training(name, what, params, provenance(device))
                open_run.enter_context(tracker.closing(run_id))
                log = TrainingLog(tracker, run_id, recipe)
            log(news)

        yield watch
