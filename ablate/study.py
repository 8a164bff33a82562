"""Running a study: claims trials, runs their cells, records both, and can be killed at any time.

Every cell is recorded whole before the next begins, and a trial is told to the search only when
all its cells are: whatever a kill leaves behind is taken up where it stood.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from ablate.files import locked
from ablate.home import Home
from ablate.interrupts import shielded
from ablate.lab import Lab, yardsticks
from ablate.metrics.reference import DISTANCES
from ablate.pictures import save_grid
from ablate.provenance import provenance
from ablate.record import INTERVAL, summarise
from ablate.search import Entry, Ledger
from ablate.settings import Settings
from ablate.tracking import StudyRun, Tracker
from ablate.trial import BATCH, KEPT_IMAGES, CellResult, run_cell


class Watcher(Protocol):
    """Whoever wants to know how a study is getting on."""

    def began(self, done: int, total: int, best: float | None) -> None:
        """`best` is the first objective's, of the trials done before."""

    def advanced(self, share: float) -> None:
        """Another `share` of a trial is drawn."""

    def finished(self, number: int, state: str, metrics: Mapping[str, float]) -> None: ...


class Outcome(NamedTuple):
    already: int  # trials that were done before
    ran: int
    failures: list[tuple[int, str]]  # (trial, reason)


def run(lab: Lab, home: Home, watcher: Watcher) -> Outcome:
    """Bring the study to its total number of trials."""
    lock = home.mlruns / f".{lab.key.replace('/', '-')}.lock"
    with locked(lock, f"study {lab.key} is being run"):
        ledger = Ledger(home.search_url, lab.key, lab.study)
        entries = ledger.entries()
        already = sum(not entry.running for entry in entries)
        tracker = Tracker(home)
        watcher.began(already, lab.study.trials, ledger.best())
        if already >= lab.study.trials and already == len(entries):
            tracker.close_finished(lab.study.name, lab.key)
            failed = [(entry.number, "failed before") for entry in entries if entry.failed]
            return Outcome(already, 0, failed)
        with shielded():
            record = _open_record(tracker, lab)
        with record.closing():
            if not record.has_yardsticks():
                record.log_yardsticks(yardsticks(lab))
            reasons = {
                entry.number: _run_trial(lab, record, ledger, entry, watcher)
                for entry in _work(ledger, entries, lab.study.trials)
            }
        failures = [(number, reason) for number, reason in reasons.items() if reason]
        return Outcome(already, len(reasons), failures)


def _open_record(tracker: Tracker, lab: Lab) -> StudyRun:
    study, protocol = lab.study, lab.reference.protocol
    tags = _tags(lab) | {"ablate.budget": study.budget, "mlflow.note.content": study.question}
    measured = {name: {**protocol._asdict(), "hash": protocol.hash} for name in DISTANCES}
    measured |= {f"nn_{space.name}": space.protocol() for space in lab.neighbourhood.spaces}
    documents = {"study.json": study.model_dump(mode="json"), "protocols.json": measured}
    return tracker.open_study(study.name, lab.key, tags, documents)


def _work(ledger: Ledger, entries: list[Entry], total: int) -> Iterator[Entry]:
    """What a kill left unfinished, then new proposals."""
    yield from (entry for entry in entries if entry.running)
    for _ in range(len(entries), total):
        with shielded():
            entry = ledger.claim_next()
        yield entry


def _run_trial(
    lab: Lab, record: StudyRun, ledger: Ledger, entry: Entry, watcher: Watcher
) -> str | None:
    """All seeds of one configuration, up to the first that diverges; the reason of a failure."""
    settings = lab.study.settings(entry.params)
    with shielded():
        run_id = record.open_trial(entry.number, settings.knobs(), _tags(lab))
    cells: list[dict[str, float]] = []
    state, reason = "complete", None
    try:
        for seed in lab.study.seeds:
            metrics, reason = _cell(lab, record, run_id, entry.number, settings, seed, watcher)
            cells.append(metrics)
            if reason:
                state = "diverged"
                break
    except Exception as error:  # one configuration's trouble is not the study's
        state, reason = "failed", f"{type(error).__name__}: {error}"
    means, widths = summarise(cells)
    with shielded():
        record.log(run_id, means | {name + INTERVAL: width for name, width in widths.items()})
        record.close(run_id, state, reason)
        if state == "complete":
            ledger.complete(entry.number, [means[o.metric] for o in lab.study.objectives])
        else:
            ledger.give_up(entry.number, failed=state == "failed")
    watcher.finished(entry.number, state, means)
    return reason if state == "failed" else None


def _tags(lab: Lab) -> dict[str, str]:
    """What every run of a study says of where it comes from and how it was measured."""
    return provenance(lab.device) | {
        "ablate.hash": lab.identity,
        "ablate.bundle": f"{lab.bundle.card.name} {lab.bundle.hash}",
        "protocol.fid": lab.reference.protocol.hash,
        "protocol.kid": lab.reference.protocol.hash,
    }


def _cell(
    lab: Lab,
    record: StudyRun,
    trial_run: str,
    number: int,
    settings: Settings,
    seed: int,
    watcher: Watcher,
) -> tuple[dict[str, float], str | None]:
    """(metrics, reason of divergence) of one cell: from the record if it was run before."""
    share = 1 / len(lab.study.seeds)
    if (done := record.done_cell(number, seed)) is not None:
        watcher.advanced(share)
        return done
    with shielded():
        run_id = record.open_cell(trial_run, number, seed, settings.knobs(), _tags(lab))
    calls = settings.nfe * -(-lab.study.samples // BATCH)
    with record.failing(run_id):
        result = run_cell(lab, settings, seed, lambda: watcher.advanced(share / calls))
        with shielded():
            shows = trial_run if seed == lab.study.seeds[0] else None
            _record_cell(record, run_id, shows, result, _panel(lab, result))
    return result.metrics, result.reason


def _panel(lab: Lab, result: CellResult) -> Tensor | None:
    if result.reason is not None:
        return None
    return lab.neighbourhood.panel(result.drawing.pixels, result.neighbours)


def _record_cell(
    record: StudyRun,
    run_id: str,
    trial_run: str | None,
    result: CellResult,
    neighbours: Tensor | None,
) -> None:
    """Metrics, pictures, features; the status last. A trial shows its first seed's pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kept = result.drawing.pixels[:KEPT_IMAGES]
        save_grid(folder / "samples.png", kept, columns=16)
        strip = result.drawing.strip
        save_grid(folder / "trajectory.png", strip.flatten(0, 1), columns=strip.shape[1])
        shown = ["samples.png"]
        if neighbours is not None:
            shown.append("neighbours.png")
            columns = neighbours.shape[1]
            save_grid(folder / "neighbours.png", neighbours.flatten(0, 1), columns)
        np.savez_compressed(folder / "images.npz", images=kept.numpy())
        np.savez_compressed(folder / "features.npz", features=result.features.numpy())
        if trial_run is not None:
            for name in shown:
                record.log_picture(trial_run, folder / name)
        record.log_files(run_id, folder)
    record.log(run_id, result.metrics)
    record.close(run_id, "diverged" if result.reason else "complete", result.reason)
