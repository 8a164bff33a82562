"""What a study costs besides its cells: claiming, telling and recording, by trial.

    python -m tests.benchmarks.overhead [TRIALS …]       (100 1000; add 10000 for one worker)

A fake objective of one millisecond, random search, one seed. `optuna` is `study.optimize` on the
same database; `optuna + mlflow` adds optuna-integration's MLflowCallback on a SQLite store, as ours
is. Ours without tracking is the ledger and the leases; with it, the runs of trials and cells as
every study has them, without pictures, of which the callback has none. PostgreSQL where installed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna

from ablate.database import driven, options
from ablate.leases import Leases
from ablate.search import Ledger, make_tables
from ablate.spec import Study
from ablate.study_file import parse
from ablate.tracking import Tracker
from tests.servers import postgres, postgres_programs

WORKERS = (1, 4, 8)
MOST_FOR_ALL = 1000
"""Trials that several workers are timed at; more, for one alone."""

TEXT = """
question = "What does it cost?"
bundle = "none"
method = "random"
seeds = [0]
[fixed]
sampler = "adls"
init = "gaussian"
sigma = 0.8
[search]
chi = {{ low = 0.99, high = 1.0 }}
r = {{ low = 0.5, high = 1.0 }}
L = {{ low = 1, high = 6 }}
[budgets.quick]
samples = 2
trials = {trials}
"""


def spec(trials: int) -> Study:
    return parse(TEXT.format(trials=trials), "overhead", "quick")


def objective(params: Mapping[str, Any]) -> float:
    time.sleep(0.001)
    return float(params["r"]) * float(params["L"])


def ours(url: str, folder: Path, trials: int, *, tracked: bool) -> None:
    """What a worker does for every trial, as study.Worker does it."""
    from ablate.home import Home

    study, key = spec(trials), "overhead/quick/0"
    ledger, leases = Ledger(url, key, study), Leases(url, key)
    record = None
    if tracked:
        tracker = Tracker(Home(folder))
        with leases.alone():
            record = tracker.open_study("overhead", key, {}, {})
    while True:
        with leases.alone():
            entries = ledger.entries()
            if len(entries) >= trials:
                break
            entry = ledger.propose_next()
            leases.take(f"trial/{entry.number}")
        knobs = study.settings(entry.params).knobs()
        if record is None:
            value = objective(entry.params)
        else:
            trial = record.open_trial(entry.number, knobs, {}, again=False)
            cell = record.open_cell(trial, entry.number, 0, {})
            value = objective(entry.params)
            record.close(cell, "complete", None, {"kid": value, "nfe": 1.0}, knobs)
            record.close(trial, "complete", None, {"kid": value, "nfe": 1.0})
        leases.holds(f"trial/{entry.number}")
        ledger.complete(entry.number, [value], {})
        leases.release(f"trial/{entry.number}")
    leases.close()


def plain(url: str, folder: Path, trials: int, *, tracked: bool) -> None:
    """`study.optimize`, with the callback or without."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    url = driven(url)
    storage = optuna.storages.RDBStorage(url, engine_kwargs=options(url))
    study = optuna.create_study(
        storage=storage,
        study_name="plain",
        load_if_exists=True,
        sampler=optuna.samplers.RandomSampler(),
    )

    def asked(trial: optuna.Trial) -> float:
        chi = trial.suggest_float("chi", 0.99, 1.0)
        r, steps = trial.suggest_float("r", 0.5, 1.0), trial.suggest_int("L", 1, 6)
        return objective({"chi": chi, "r": r, "L": steps})

    callbacks: list[Any] = [
        optuna.study.MaxTrialsCallback(trials, states=(optuna.trial.TrialState.COMPLETE,))
    ]
    if tracked:
        from optuna_integration import MLflowCallback

        callbacks.append(MLflowCallback(f"sqlite:///{folder / 'callback.db'}", metric_name="kid"))
    study.optimize(asked, callbacks=callbacks)


RIVALS = {"ours": ours, "optuna": plain}


def timed(name: str, url: str, folder: Path, trials: int, workers: int, *, tracked: bool) -> float:
    """Milliseconds by trial beyond the objective's own, from the first claim to the last."""
    if workers == 1:
        began = time.perf_counter()
        RIVALS[name](url, folder, trials, tracked=tracked)
        took = time.perf_counter() - began
    else:
        command = [sys.executable, "-m", "tests.benchmarks.overhead", "--worker", name, url]
        command += [str(folder), str(trials), "tracked" if tracked else "untracked"]
        team = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(workers)
        ]
        for worker in team:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"  # imports are not overhead
        began = time.perf_counter()
        for worker in team:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in team:
            worker.wait()
        took = time.perf_counter() - began
    return 1000 * took / trials - 1.0 / workers


@contextlib.contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """Name -> a function that gives the URL of a fresh database."""
    with contextlib.ExitStack() as stack:

        def sqlite(place: Path) -> str:
            make_tables(place / "search.db")
            return f"sqlite:///{place / 'search.db'}"

        found: dict[str, Any] = {"SQLite": sqlite}
        if postgres_programs() is not None:
            server = stack.enter_context(postgres())

            def fresh(place: Path) -> str:
                import psycopg

                name = f"db{time.time_ns()}"
                with psycopg.connect(server.url, autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                return server.url.rsplit("/", 1)[0] + f"/{name}"

            found["PostgreSQL"] = fresh
        yield found


def main(counts: list[int]) -> None:
    print("| database | workers | trials | ours | optuna | ours, tracked | optuna + mlflow |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with databases() as places:
        for (database, make), workers, trials in (
            (place, workers, trials)
            for place in places.items()
            for workers in WORKERS
            for trials in counts
            if workers == 1 or trials <= MOST_FOR_ALL
        ):
            cells = []
            for tracked in (False, True):
                for name in RIVALS:
                    with tempfile.TemporaryDirectory() as scratch:
                        folder = Path(scratch)
                        url = make(folder)
                        if tracked:  # neither bears that several workers make the tables
                            make_record(folder / "callback.db")
                        took = timed(name, url, folder, trials, workers, tracked=tracked)
                        cells.append(f"{took:.1f} ms")
            print(f"| {database} | {workers} | {trials:,} | {' | '.join(cells)} |", flush=True)


def make_record(file: Path) -> None:
    from mlflow.tracking import MlflowClient

    MlflowClient(f"sqlite:///{file}").search_experiments(max_results=1)


def work(name: str, url: str, folder: str, trials: str, tracked: str) -> None:
    """As one of several: imports everything, then waits for the word."""
    if tracked == "tracked":
        import mlflow  # noqa: F401
    print("ready", flush=True)
    sys.stdin.readline()
    RIVALS[name](url, Path(folder), int(trials), tracked=tracked == "tracked")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        main([int(text) for text in sys.argv[1:]] or [100, 1000])
