"""Many workers on one study: every cell once, even if workers die or servers restart."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from mlflow.tracking import MlflowClient

from ablate.cli.console import trial_rows
from ablate.core.errors import PassingError
from ablate.core.workspace import Workspace
from ablate.experiment.worker import run
from tests.support.commands import Command, ablate, environment, fork_server, until
from tests.support.servers import PASSWORD, Mlflow, Postgres, mlflow, postgres, postgres_programs
from tests.support.studies import (
    TRIALS,
    Quiet,
    copy_of_record,
    done_cells,
    make_root,
    record_of,
    results,
    runs,
    setup_of,
    timeless,
)

needs_postgres = pytest.mark.skipif(
    postgres_programs() is None, reason="needs PostgreSQL (Debian: apt-get install postgresql)"
)


def cells(uri: str) -> Counter[tuple[str, str]]:
    """How often each (trial, seed) was finished. Nothing may be left RUNNING."""
    all_runs = runs(uri)
    assert [run.info.run_id for run in all_runs if run.info.status == "RUNNING"] == []
    return Counter(
        (run.data.tags["ablate.trial"], run.data.tags["ablate.seed"])
        for run in all_runs
        if run.data.tags["ablate.kind"] == "cell" and run.info.status == "FINISHED"
    )


def every_cell_once(uri: str) -> bool:
    return cells(uri) == Counter({(str(n), s): 1 for n in range(TRIALS) for s in "01"})


def work(root: Path) -> None:
    """One of several workers, in a process of its own."""
    torch.set_num_threads(1)
    run(setup_of(root), Workspace(root), Quiet())


def test_eight_workers_run_every_cell_of_a_grid_once(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=20)
    file = root / "studies" / "tiny.toml"
    steps = ", ".join(str(0.5 + i / 20) for i in range(10))
    text = file.read_text().replace("{ low = 0.5, high = 1.0, step = 0.25 }", f"[{steps}]")
    file.write_text(text)
    team = [fork_server().Process(target=work, args=(root,)) for _ in range(8)]
    for worker in team:
        worker.start()
    for worker in team:
        worker.join()
    assert [worker.exitcode for worker in team] == [0] * 8
    assert cells(Workspace(root).tracking_uri) == Counter(
        {(str(n), s): 1 for n in range(20) for s in "01"}
    )


@pytest.mark.long
def test_a_random_search_is_the_same_with_several_workers(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    alone, shared = (
        make_root(tmp_path / name, tiny_bundle, "random", trials=8) for name in ("alone", "shared")
    )
    run(setup_of(alone), Workspace(alone), Quiet())
    ablate(shared, "study", "tiny", "--workers", "4")
    assert timeless(results(shared)) == timeless(results(alone))


def two_at_work(root: Path) -> Command:
    """A command with two workers, whose study has its first cell."""
    process = Command(root, "study", "tiny", "--workers", "2", new_session=True)
    until(lambda: done_cells(root) > 0, process)
    return process


def processes_of(parent: Command) -> list[int]:
    """The processes that draw for a command: its children, but the one that watches over them."""
    threads = Path(f"/proc/{parent.pid}/task").glob("*/children")
    children = {child for thread in threads for child in thread.read_text().split()}
    return [
        int(child)
        for child in children
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]


def test_processes_that_are_killed_are_replaced(
    whole: Path, tiny_bundle: Path, tmp_path: Path
) -> None:
    """As on a machine that runs out of memory: what they drew is drawn again."""
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = two_at_work(root)
    children = processes_of(process)
    assert len(children) == 2
    for child in children:
        os.kill(child, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert every_cell_once(Workspace(root).tracking_uri)
    assert timeless(results(root)) == timeless(results(whole))


def test_processes_end_with_the_command_that_started_them(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    """Also if it is killed: then they see that it is gone."""
    process = two_at_work(make_root(tmp_path, tiny_bundle, trials=TRIALS))
    children = processes_of(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_ctrl_c_stops_the_command_and_its_processes(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, trials=TRIALS)
    process = two_at_work(root)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.strip().endswith("interrupted; the same command continues")
    assert "RUNNING" not in {each.info.status for each in runs(root)}


class Servers(NamedTuple):
    """Servers that the tests of this file share: starting them takes seconds."""

    database: Postgres
    record: Mlflow
    folder: Path  # of the tracking server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    copy_of_record(folder / "mlflow.db")
    with postgres() as database, mlflow(folder) as record:
        yield Servers(database, record, folder)


class Site:
    """Machines that share a study: a root each, with nothing in common but two URLs."""

    def __init__(self, folder: Path, bundle: Path, servers: Servers) -> None:
        self._folder, self._bundle = folder, bundle
        self.database, self.record = servers.database, servers.record
        self.storage, self.servers_folder = servers.database.new_database(), servers.folder
        self.surroundings = environment(
            ABLATE_STORAGE=self.storage, MLFLOW_TRACKING_URI=self.record.url
        )
        self._before = done_cells(servers.folder)
        self._machines = 0

    def join(self) -> Command:
        """A further machine runs the same command."""
        return Command(self.root(), "study", "tiny", env=self.surroundings)

    def root(self) -> Path:
        """The root of a further machine."""
        self._machines += 1
        folder = self._folder / f"machine{self._machines}"
        return make_root(folder, self._bundle, trials=TRIALS, databases=False)

    def done_cells(self) -> int:
        return done_cells(self.servers_folder) - self._before

    def rows(self) -> list[dict[str, Any]]:
        return trial_rows(record_of(Workspace(self._folder, self.storage, self.record.url)))

    def close(self) -> None:
        """Move the study's record away, for the next test to begin with none."""
        client = MlflowClient(self.record.url)
        experiment = client.get_experiment_by_name("tiny")
        if experiment is None:  # the test was about something before that
            return
        client.rename_experiment(experiment.experiment_id, f"tiny of {self._folder.name}")


@pytest.fixture
def site(tiny_bundle: Path, tmp_path: Path, servers: Servers) -> Iterator[Site]:
    site = Site(tmp_path, tiny_bundle, servers)
    yield site
    site.close()


def ended_well(process: Command) -> str:
    output = "".join(process.communicate(timeout=400))
    assert process.returncode == 0, output
    return output


@pytest.mark.long
@needs_postgres
def test_two_of_four_machines_die_and_nothing_is_lost(whole: Path, site: Site) -> None:
    team = [site.join() for _ in range(4)]
    until(lambda: site.done_cells() >= 2, *team)
    for process in team[:2]:
        process.send_signal(signal.SIGKILL)
    team.append(site.join())
    for process in team[2:]:
        ended_well(process)
    assert every_cell_once(site.record.url)
    assert timeless(site.rows()) == timeless(results(whole))


AWAY = 6.0
"""Seconds for which the tracking server is stopped. Its start takes several more, and MLflow's
client tries again after 2, 4, 8, … seconds."""


@pytest.mark.long
@needs_postgres
def test_servers_may_be_unreachable_for_a_while(whole: Path, site: Site) -> None:
    """PostgreSQL is restarted and the tracking server is stopped for a while, in mid-study; workers
    wait and continue. No output has the password."""
    team = [site.join() for _ in range(2)]
    until(lambda: site.done_cells() >= 1, *team)
    site.database.stop()
    time.sleep(3)
    site.database.start()
    until(lambda: site.done_cells() >= 4, *team)
    site.record.stop()
    time.sleep(AWAY)
    site.record.start()
    outputs = [ended_well(process) for process in team]
    assert every_cell_once(site.record.url)
    assert timeless(site.rows()) == timeless(results(whole))
    assert PASSWORD not in "".join(outputs)


@needs_postgres
def test_a_worker_may_start_before_the_database(whole: Path, site: Site) -> None:
    """As a pod does: it waits, and says so. `test_reach` has the same of the tracking server."""
    site.database.stop()
    try:
        process = site.join()
        until(lambda: "waiting for up to 300 s" in process.errors(), process)
    finally:
        site.database.start()
    ended_well(process)
    assert every_cell_once(site.record.url)
    assert timeless(site.rows()) == timeless(results(whole))


AWAY_75 = {"ABLATE_PATIENCE_SECONDS": "0.5"}


@needs_postgres
def test_servers_that_stay_away_as_a_worker_starts_are_code_75(site: Site) -> None:
    """Trying again may help: a scheduler replaces the worker, where code 2 would end its place."""
    refused = ablate(
        site.root(),
        "study",
        "tiny",
        check=False,
        env=site.surroundings | AWAY_75 | {"MLFLOW_TRACKING_URI": "http://me:hush@127.0.0.1:1"},
    )
    assert refused.returncode == PassingError.code, refused.stderr
    waited, line = refused.stderr.strip().splitlines()
    where = "--tracking-uri http://me:***@127.0.0.1:1: no MLflow server there"
    assert waited.startswith(where)
    assert waited.endswith("waiting for up to 0.5 s")
    assert line.startswith(f"error: {where}")
    assert line.endswith("; the same command continues")


def test_a_database_that_stays_away_as_a_worker_starts_is_code_75(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle, databases=False)
    places = ["--storage", "postgresql://a:hush@127.0.0.1:1/c", "--tracking-uri", "http://x"]
    refused = ablate(root, "study", "tiny", *places, check=False, env=environment(**AWAY_75))
    assert refused.returncode == PassingError.code, refused.stderr
    _, line = refused.stderr.strip().splitlines()
    assert line.startswith("error: postgresql://a:***@127.0.0.1:1/c: ")
    assert "refused" in line


@needs_postgres
def test_a_database_that_does_not_exist_is_not_waited_for(site: Site) -> None:
    nowhere = site.storage.rpartition("/")[0] + "/nowhere"
    env = site.surroundings | {"ABLATE_STORAGE": nowhere}
    refused = ablate(site.root(), "study", "tiny", check=False, env=env)
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert 'database "nowhere" does not exist' in line


@needs_postgres
def test_secrets_are_not_shown(site: Site, tmp_path: Path) -> None:
    """Neither output, nor record, nor report has the password; nor a wrong one."""
    output = ended_well(site.join())
    root = next(tmp_path.glob("machine*"))
    arguments = ("report", "tiny", "--tracking-uri", site.record.url)
    report = ablate(root, *arguments, env=site.surroundings)
    wrong = site.storage.replace(PASSWORD, "not-the-password")
    refused = ablate(
        root, "study", "tiny", "--storage", wrong, "--tracking-uri", site.record.url, check=False
    )
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "authentication failed" in refused.stderr
    texts = [output, report.stdout, report.stderr, refused.stdout, refused.stderr]
    texts += [
        path.read_text(errors="replace")
        for place in (site.servers_folder, root)
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
            ["--storage", "postgresql://a:b@127.0.0.1:port/c", "--tracking-uri", "http://x"],
            "invalid literal for int",
        ),
    ],
)
def test_wrong_places_are_one_line(
    arguments: list[str], words: str, tiny_bundle: Path, tmp_path: Path
) -> None:
    root = make_root(tmp_path, tiny_bundle, databases=False)
    refused = ablate(root, "study", "tiny", *arguments, check=False)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_tracking_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    uri = "http://me:hush@127.0.0.1:1"
    refused = ablate(tmp_path, "results", "tiny", "--tracking-uri", uri, check=False)
    assert refused.returncode == 2
    assert "http://me:***@127.0.0.1:1: no MLflow server there" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
