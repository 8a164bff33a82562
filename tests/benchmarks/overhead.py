"""The overhead of a study besides its cells, by trial: claiming, writing results, recording.

    python -m tests.benchmarks.overhead [TRIALS …] [--workers 1 4 8] [--database SQLite PostgreSQL]
                                        [--tracking off on]

By default 100 and 1,000 trials; more than 1,000 are for one worker only.

A fake objective of one millisecond, random search, one seed. Ours is `worker.run` without drawing,
pictures and the knobs' importance, for which the others have no counterpart; it records the study's
run, trials and cells with all their tags and knobs. `optuna` is `study.optimize` on the same
database; `optuna + mlflow` adds optuna-integration's MLflowCallback on a SQLite store, as ours is.
Without tracking, ours is the same worker with a record that keeps nothing. Opening and closing a
study, about a second, counts in neither. PostgreSQL, where installed, has its default settings.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import multiprocessing
import shutil
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import optuna

from ablate.core.workspace import Workspace
from ablate.search import make_tables
from ablate.search.database import driven, options
from tests.benchmarks.fake_cells import Sleep, install, objective
from tests.support.servers import postgres, postgres_programs
from tests.support.studies import Quiet

SECONDS = 0.001
"""Of a fake objective, if nothing else is said."""

WORKERS = (1, 4, 8)
MOST_FOR_ALL = 1000
"""Most trials for several workers; one worker is timed at more, too."""

STUDY = """
question = "What does it cost?"
bundle = "digits"
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
samples = 64
trials = {trials}
"""


class Clock(Quiet):
    """Keeps when a worker first claimed a trial and when it finished its last."""

    first = last = math.nan

    def trained(self, steps: int) -> None: ...

    def stands(self, done: int, best: float | None) -> None:
        self.first = time.perf_counter() if math.isnan(self.first) else self.first

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None:
        self.last = time.perf_counter()


class Forgetful:
    """A record that keeps nothing."""

    run_id = "none"

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: uuid.uuid4().hex  # a run of its own, where one is asked for

    def beside(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        return tags

    def has_baselines(self) -> bool:
        return True

    def has_trial(self, _: int) -> bool:
        return True

    def is_whole(self) -> bool:
        return False

    def at_once(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def past_cells(self, _: int) -> object:
        from ablate.tracking.study_run import NOTHING_PAST

        return NOTHING_PAST


def ours(
    url: str, folder: Path, _: int, seconds: float, *, tracked: bool
) -> Callable[[], tuple[float, float]]:
    """The real worker; only its samples and pictures are made up."""
    from ablate.experiment import worker
    from ablate.experiment.prepare import prepare
    from ablate.study.find import find, read

    install(seconds)
    made_up: Any = worker
    if not tracked:
        made_up.open_record = lambda *_: Forgetful()
        made_up.Tracker = lambda _: None
        made_up.find_study = lambda *_: Forgetful()
    workspace = Workspace(folder, storage=url)
    setup = prepare(read(find(workspace, "overhead"), "quick"), workspace)
    clock = Clock()

    def go() -> tuple[float, float]:
        worker.run(setup, workspace, clock)
        return clock.first, clock.last

    return go


def plain(
    url: str, folder: Path, trials: int, seconds: float, *, tracked: bool
) -> Callable[[], tuple[float, float]]:
    """`study.optimize`, with or without the callback."""
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
        return Sleep(seconds, objective({"chi": chi, "r": r, "L": steps}))(None)

    callbacks: list[Any] = [
        optuna.study.MaxTrialsCallback(trials, states=(optuna.trial.TrialState.COMPLETE,))
    ]
    if tracked:
        from optuna_integration import MLflowCallback  # type: ignore[import-not-found]

        callbacks.append(MLflowCallback(f"sqlite:///{folder / 'callback.db'}", metric_name="kid"))

    def go() -> tuple[float, float]:
        began = time.perf_counter()
        study.optimize(asked, callbacks=callbacks)
        return began, time.perf_counter()

    return go


RIVALS = {"ours": ours, "optuna": plain}


def timed(
    name: str,
    url: str,
    folder: Path,
    trials: int,
    workers: int,
    seconds: float = SECONDS,
    *,
    tracked: bool,
) -> float:
    """Milliseconds by trial besides the objective's, from the first claim to the last result."""
    crowd = multiprocessing.get_context("forkserver")  # imports are not overhead
    crowd.set_forkserver_preload(
        ["ablate.experiment.worker", "mlflow", "optuna_integration", "tests.support.studies"]
    )
    ends = [crowd.Pipe() for _ in range(workers)]
    what = name, url, folder, trials, seconds, tracked
    team = [crowd.Process(target=work, args=(theirs, *what)) for _, theirs in ends]
    for worker, (_, theirs) in zip(team, ends, strict=True):
        worker.start()
        theirs.close()  # else a worker's death would not end our waiting
    pipes = [ours for ours, _ in ends]
    for pipe in pipes:
        assert pipe.recv() == "ready"  # with its bundle and its connection
    for pipe in pipes:
        pipe.send("go")
    spans = [pipe.recv() for pipe in pipes]
    for worker in team:
        worker.join()
    worked = [
        span for span in spans if not math.isnan(span[1])
    ]  # a worker may start too late for any trial
    took: float = max(last for _, last in worked) - min(first for first, _ in worked)
    return 1000 * (took / trials - seconds / workers)


def work(
    pipe: Connection,
    name: str,
    url: str,
    folder: Path,
    trials: int,
    seconds: float,
    tracked: bool,
) -> None:
    """One of several workers: prepares everything, then waits for the start."""
    go = RIVALS[name](url, folder, trials, seconds, tracked=tracked)
    pipe.send("ready")
    pipe.recv()
    pipe.send(go())


@contextlib.contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """Name -> a function that returns the URL of a new database."""
    with contextlib.ExitStack() as stack:

        def sqlite(place: Path) -> str:
            make_tables(place / "search.db")
            return f"sqlite:///{place / 'search.db'}"

        makers: dict[str, Any] = {"SQLite": sqlite}
        if postgres_programs() is not None:
            server = stack.enter_context(postgres(durable=True))

            def fresh(place: Path) -> str:
                url = server.new_database()
                optuna.storages.RDBStorage(driven(url)).engine.dispose()  # workers would collide
                return url

            makers["PostgreSQL"] = fresh
        yield makers


def main() -> None:
    asked = parser().parse_args()
    print("| database | workers | trials | ours | optuna | ours, tracked | optuna + mlflow |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with databases() as places:
        for (database, make), workers, trials in (
            (place, workers, trials)
            for place in places.items()
            if place[0] in asked.database
            for workers in asked.workers
            for trials in asked.trials
            if workers == 1 or trials <= MOST_FOR_ALL
        ):
            cells = []
            for tracked in (False, True):
                for name in RIVALS:
                    if ("on" if tracked else "off") not in asked.tracking:
                        cells.append("")
                        continue
                    with tempfile.TemporaryDirectory() as scratch:
                        folder = Path(scratch)
                        url = make(folder)
                        (folder / "studies").mkdir()
                        file = folder / "studies" / "overhead.toml"
                        file.write_text(STUDY.format(trials=trials))
                        if tracked:  # tables are made once, not by trial
                            make_record(folder / "callback.db")
                            (folder / "mlruns").mkdir()
                            shutil.copy(folder / "callback.db", Workspace(folder).record)
                        took = timed(name, url, folder, trials, workers, tracked=tracked)
                        cells.append(f"{took:.1f} ms")
            print(f"| {database} | {workers} | {trials:,} | {' | '.join(cells)} |", flush=True)


def make_record(file: Path) -> None:
    from mlflow.tracking import MlflowClient

    MlflowClient(f"sqlite:///{file}").search_experiments(max_results=1)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("trials", nargs="*", type=int, default=[100, 1000])
    made.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    made.add_argument("--database", nargs="+", default=("SQLite", "PostgreSQL"))
    made.add_argument("--tracking", nargs="+", default=("off", "on"))
    return made


if __name__ == "__main__":
    main()
