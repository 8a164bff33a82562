"""Many workers on one study: every cell once, whoever dies, and whatever server goes away."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from mlflow.tracking import MlflowClient

from ablate.core.errors import PassingError
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from ablate.tracking import Reader
from tests.support.servers import PASSWORD, Mlflow, Postgres, mlflow, postgres, postgres_programs
from tests.support.studies import (
    TRIALS,
    Quiet,
    ablate,
    command,
    environment,
    make_root,
    results,
    setup_of,
    timeless,
)

needs_postgres = pytest.mark.skipif(
    postgres_programs() is None, reason="needs PostgreSQL (Debian: apt-get install postgresql)"
)


def cells(uri: str) -> Counter[tuple[str, str]]:
    """How often each (trial, seed) was brought to its end; and nothing is left RUNNING."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tiny")
    found = client.search_runs([experiment.experiment_id], max_results=1000)
    assert [run.info.run_id for run in found if run.info.status == "RUNNING"] == []
    return Counter(
        (run.data.tags["ablate.trial"], run.data.tags["ablate.seed"])
        for run in found
        if run.data.tags["ablate.kind"] == "cell" and run.info.status == "FINISHED"
    )


def every_cell_once(uri: str) -> bool:
    return cells(uri) == Counter({(str(n), s): 1 for n in range(TRIALS) for s in "01"})


def work(root: Path) -> None:
    """One of several, in a process of its own."""
    torch.set_num_threads(1)
    run(setup_of(root), Workspace(root), Quiet())


def test_eight_workers_run_every_cell_of_a_grid_once(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=20)
    file = root / "studies" / "tiny.toml"
    steps = ", ".join(str(0.5 + i / 20) for i in range(10))
    text = file.read_text().replace("{ low = 0.5, high = 1.0, step = 0.25 }", f"[{steps}]")
    file.write_text(text)
    crowd = multiprocessing.get_context("forkserver")  # they begin at once, imports done
    crowd.set_forkserver_preload(
        ["ablate.experiment.worker", "mlflow.tracking", "tests.support.studies"]
    )
    team = [crowd.Process(target=work, args=(root,)) for _ in range(8)]
    for worker in team:
        worker.start()
    for worker in team:
        worker.join()
    assert [worker.exitcode for worker in team] == [0] * 8
    assert cells(Workspace(root).tracking_uri) == Counter(
        {(str(n), s): 1 for n in range(20) for s in "01"}
    )


def test_a_random_search_is_the_same_with_several_workers(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    alone, shared = (
        make_root(tmp_path / name, tiny_bundle, "random", trials=8) for name in ("alone", "shared")
    )
    run(setup_of(alone), Workspace(alone), Quiet())
    ablate(shared, "study", "tiny", "--workers", "2")
    assert timeless(results(shared)) == timeless(results(alone))


def two_at_work(root: Path) -> subprocess.Popen[str]:
    """Workers of a study that has its first cell."""
    process = subprocess.Popen(
        command(root, "study", "tiny", "--workers", "2"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    until(lambda: done_cells(root) > 0, process)
    return process


def test_workers_that_are_killed_leave_a_clear_word(tiny_bundle: Path, tmp_path: Path) -> None:
    """All of them, as by a machine that runs out of memory: it is not finished, and says so."""
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = two_at_work(root)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == PassingError.code, errors
    (line,) = errors.strip().splitlines()
    assert "worker 0 was killed (SIGKILL); worker 1 was killed (SIGKILL): " in line
    cells(Workspace(root).tracking_uri)  # nothing is left RUNNING


def test_workers_stop_with_the_one_who_started_them(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = two_at_work(root)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command continues")
    client = MlflowClient(Workspace(root).tracking_uri)
    experiment = client.get_experiment_by_name("tiny")
    states = {run.info.status for run in client.search_runs([experiment.experiment_id])}
    assert "RUNNING" not in states


def until(happened: Callable[[], bool], *processes: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not happened():
        for process in processes:
            assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def done_cells(folder: Path) -> int:
    return sum("features.npz" in files for _, _, files in os.walk(folder))


class Site:
    """Machines that share a study: a root each, with nothing in common but two URLs."""

    def __init__(self, folder: Path, bundle: Path, database: Postgres, record: Mlflow) -> None:
        self._folder, self._bundle = folder, bundle
        self.database, self.record = database, record
        self.surroundings = {
            **environment(),
            "ABLATE_STORAGE": database.url,
            "MLFLOW_TRACKING_URI": record.url,
        }
        self.artifacts = folder / "servers" / "artifacts"
        self._machines = 0

    def join(self) -> subprocess.Popen[str]:
        """A further machine runs the same command."""
        self._machines += 1
        root = make_root(self._folder / f"machine{self._machines}", self._bundle, trials=TRIALS)
        return subprocess.Popen(
            command(root, "study", "tiny"),
            env=self.surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def rows(self) -> list[dict[str, object]]:
        record = Reader(Workspace(self._folder, self.database.url, self.record.url)).latest("tiny")
        assert record is not None
        from ablate.cli.console import trial_rows

        return trial_rows(record)


@pytest.fixture
def site(tiny_bundle: Path, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "servers").mkdir()
    with postgres() as database, mlflow(tmp_path / "servers") as record:
        yield Site(tmp_path, tiny_bundle, database, record)


def ended_well(process: subprocess.Popen[str]) -> str:
    said = process.communicate(timeout=400)[0]
    assert process.returncode == 0, said
    return said


@needs_postgres
def test_two_of_four_machines_die_and_nothing_is_lost(whole: Path, site: Site) -> None:
    team = [site.join() for _ in range(4)]
    until(lambda: done_cells(site.artifacts) >= 2, *team)
    for process in team[:2]:
        process.send_signal(signal.SIGKILL)
    team.append(site.join())
    for process in team[2:]:
        ended_well(process)
    assert every_cell_once(site.record.url)
    assert timeless(site.rows()) == timeless(results(whole))


@needs_postgres
def test_servers_may_go_away_for_a_while(whole: Path, site: Site) -> None:
    """PostgreSQL is restarted and the tracking server is gone for 20 s, in mid-study; workers wait
    and go on. No message says the password."""
    team = [site.join() for _ in range(2)]
    until(lambda: done_cells(site.artifacts) >= 1, *team)
    site.database.stop()
    time.sleep(3)
    site.database.start()
    until(lambda: done_cells(site.artifacts) >= 4, *team)
    site.record.stop()
    time.sleep(20)
    site.record.start()
    said = [ended_well(process) for process in team]
    assert every_cell_once(site.record.url)
    assert timeless(site.rows()) == timeless(results(whole))
    assert PASSWORD not in "".join(said)


@needs_postgres
def test_secrets_are_not_told(site: Site, tmp_path: Path) -> None:
    """Neither in messages, nor in the record, nor in the report; a wrong one neither."""
    said = ended_well(site.join())
    root = next(tmp_path.glob("machine*"))
    report = subprocess.run(
        command(root, "report", "tiny", "--tracking-uri", site.record.url),
        env=site.surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = site.database.url.replace(PASSWORD, "not-the-password")
    refused = ablate(
        root, "study", "tiny", "--storage", wrong, "--tracking-uri", site.record.url, check=False
    )
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "authentication failed" in refused.stderr
    texts = [said, report.stdout, report.stderr, refused.stdout, refused.stderr]
    texts += [
        path.read_text(errors="replace")
        for place in (tmp_path / "servers", root)
        for path in place.rglob("*")
        if path.is_file()
    ]
    assert not any(PASSWORD in text or "not-the-password" in text for text in texts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--storage", "sqlite://"], "--tracking-uri is missing"),
        (["--tracking-uri", "http://127.0.0.1:1"], "--storage is missing"),
        (
            ["--storage", "sqlite:///here.db", "--tracking-uri", "http://127.0.0.1:1"],
            "--storage sqlite:///here.db: machines share a PostgreSQL database",
        ),
        (["--storage", "nonsense", "--tracking-uri", "http://127.0.0.1:1"], "nonsense"),
        (
            ["--storage", "postgresql://a:b@127.0.0.1:1/c", "--tracking-uri", "http://x"],
            "postgresql://a:***@127.0.0.1:1/c",
        ),
    ],
)
def test_wrong_places_are_one_line(
    arguments: list[str], words: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    refused = ablate(make_root(tmp_path, tiny_bundle), "study", "tiny", *arguments, check=False)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_tracking_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    uri = "http://me:hush@127.0.0.1:1"
    refused = ablate(tmp_path, "results", "tiny", "--tracking-uri", uri, check=False)
    assert refused.returncode == 2
    assert "http://me:***@127.0.0.1:1: no MLflow server there" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
