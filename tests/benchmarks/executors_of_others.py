"""The same fake cells by others: our workers on PostgreSQL, Optuna's threads, Ray Tune."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from ablate.core.workspace import Workspace
from tests.benchmarks.fake_cells import Sleep, objective
from tests.benchmarks.overhead import STUDY, databases, make_record, timed

SPACE = (("chi", 0.99, 1.0), ("r", 0.5, 1.0))


def suggested(trial: optuna.Trial) -> dict[str, float]:
    floats = {name: trial.suggest_float(name, low, high) for name, low, high in SPACE}
    return {**floats, "L": trial.suggest_int("L", 1, 6)}


def postgres(workers: int, cells: int, seconds: float) -> float:
    """Our workers, started by hand, that share PostgreSQL; the record is in SQLite. Overhead in
    milliseconds a cell."""
    with databases() as places, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "studies").mkdir()
        text = STUDY.format(trials=cells).replace("seeds = [0]", "seeds = [0]\nconfirm = false")
        (folder / "studies" / "overhead.toml").write_text(text)
        (folder / "mlruns").mkdir()
        make_record(Workspace(folder).record)
        url = places["PostgreSQL"](folder)
        return timed("ours", url, folder, cells, workers, seconds, tracked=True)


def n_jobs(workers: int, cells: int, seconds: float) -> float:
    """`study.optimize(n_jobs=…)`: threads of one process, a SQLite file, no record."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as scratch:
        storage = f"sqlite:///{Path(scratch, 'search.db')}"
        sampler = optuna.samplers.RandomSampler()
        study = optuna.create_study(storage=storage, sampler=sampler)

        def asked(trial: optuna.Trial) -> float:
            return Sleep(seconds, objective(suggested(trial)))(None)

        began = time.perf_counter()
        study.optimize(asked, n_trials=cells, n_jobs=workers)
        return 1000 * ((time.perf_counter() - began) / cells - seconds / workers)


def ray_tune(workers: int, cells: int, seconds: float) -> float:
    """Ray Tune, its Optuna search with random proposals, its MLflow callback on a SQLite file."""
    import ray
    from ray import tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback
    from ray.tune.search.optuna import OptunaSearch

    warnings.simplefilter("ignore")
    os.environ |= {"TUNE_WARN_THRESHOLD_S": "1000", "RAY_AIR_NEW_OUTPUT": "0"}

    def trainable(config: dict[str, float]) -> None:
        tune.report({"kid": Sleep(seconds, objective(config))(None)})

    scratch = tempfile.mkdtemp()
    try:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        nap = ray.remote(num_cpus=1)(_nap)
        ray.get([nap.remote() for _ in range(2 * workers)])
        record = Path(scratch, "record.db")
        make_record(record)
        search: Any = OptunaSearch(
            suggested_by_ray, metric="kid", mode="min", sampler=optuna.samplers.RandomSampler()
        )
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=search,
                num_samples=cells,
                max_concurrent_trials=workers,
                reuse_actors=True,  # a process a trial would cost a second more
            ),
            run_config=tune.RunConfig(
                storage_path=scratch,
                verbose=0,
                callbacks=[MLflowLoggerCallback(f"sqlite:///{record}", experiment_name="fake")],
            ),
        )
        began = time.perf_counter()
        results = tuner.fit()
        took = time.perf_counter() - began
        assert len(results) == cells
        assert not results.errors
        return 1000 * (took / cells - seconds / workers)
    finally:
        ray.shutdown()
        shutil.rmtree(scratch, ignore_errors=True)


def _nap() -> None:
    time.sleep(0.5)


def suggested_by_ray(trial: optuna.Trial) -> None:
    """Ray Tune wants the knobs to be suggested, and takes them from the trial."""
    suggested(trial)


OTHERS: dict[str, Callable[[int, int, float], float]] = {
    "postgres": postgres,
    "n_jobs": n_jobs,
    "ray-tune": ray_tune,
}
