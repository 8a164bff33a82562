"""Proposals: a function of (study, n, earlier results), even if workers are killed in between."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import sqlalchemy as sa

from ablate.search import Entry, Ledger, from_unit, summary
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.resolve import parse
from tests.support.studies import copy_of_search

METHODS = ["grid", "random", "tpe", "law", "qmc", "cmaes", "gp"]


every_method = pytest.mark.parametrize("method", METHODS)


TEXT = """
question = "Which?"
bundle = "digits"
method = "{method}"
seed = 7
[fixed]
init = "gaussian"
sigma = 0.8
levels = 10
[search]
sampler = ["adls", "pf-heun"]
r = {{ low = 0.5, high = 1.0, step = 0.1 }}
L = {{ low = 1, high = 3 }}
[budgets.quick]
samples = 8
trials = 14
"""


def study(method: str) -> Study:
    return parse(TEXT.format(method=method), "s", "quick")


def value(entry: Entry) -> float:
    """A made-up objective with an optimum inside."""
    return abs(float(entry.params.get("r", 1.2)) - 0.7) + int(entry.params.get("L", 2)) / 10


def opened(path: Path, spec: Study) -> Ledger:
    """A ledger on a file, which gets empty tables if it does not exist."""
    if not path.exists():
        copy_of_search(path)
    return Ledger(f"sqlite:///{path}", "key", spec)


def proposed(ledger: Ledger) -> Entry:
    """The next trial, written as running."""
    entry = ledger.propose_next(ledger.entries())
    assert entry is not None
    return entry


def finish(ledger: Ledger, entry: Entry) -> None:
    """Every fifth trial diverges and one fails: search methods must cope with both."""
    if entry.number == 9:
        ledger.fail(entry.number)
    elif entry.number % 5 == 4:
        ledger.prune(entry.number, {}, value(entry), 8)
    else:
        ledger.complete(entry.number, [value(entry)], {})


def run_through(spec: Study, path: Path) -> list[Entry]:
    """All trials of a search that is never killed."""
    ledger = opened(path, spec)
    for _ in range(14):
        finish(ledger, proposed(ledger))
    return ledger.entries()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Entry]]:
    """Method -> all trials of a search that is never killed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    return cache(lambda method: run_through(study(method), folder / f"{method}.db"))


def killed_after_every_step(method: str, path: Path) -> list[Entry]:
    """A new process would have nothing but the file; neither has a new ledger."""
    for number in range(14):
        proposed(opened(path, study(method)))
        successor = opened(path, study(method))
        (left,) = [entry for entry in successor.entries() if entry.running]
        assert left.number == number
        finish(successor, left)
    return opened(path, study(method)).entries()


@every_method
def test_a_killed_search_is_the_same_search(
    method: str, uninterrupted: Callable[[str], list[Entry]], tmp_path: Path
) -> None:
    whole = uninterrupted(method)
    assert [entry.number for entry in whole] == list(range(14))
    assert whole == killed_after_every_step(method, tmp_path / "db")
    assert len({str(entry.params) for entry in whole}) > 5


@every_method
def test_proposals_stay_inside_the_space(
    method: str, uninterrupted: Callable[[str], list[Entry]]
) -> None:
    spec = study(method)
    for entry in uninterrupted(method):
        settings = spec.settings(entry.params)
        assert ("r" in entry.params) == (settings.sampler == "adls") == ("L" in entry.params)
        for knob, chosen in entry.params.items():
            values = spec.search[knob].values()
            assert values is not None
            # Optuna rounds a step's multiples differently
            assert chosen in values or min(abs(float(chosen) - float(v)) for v in values) < 1e-12


@pytest.mark.parametrize("method", ["random", "qmc", "tpe"])
def test_the_seed_matters(
    method: str, uninterrupted: Callable[[str], list[Entry]], tmp_path: Path
) -> None:
    other = study(method).model_copy(update={"seed": 8})
    assert run_through(other, tmp_path / "db") != uninterrupted(method)


def test_two_objectives(tmp_path: Path) -> None:
    text = TEXT.format(method="tpe").replace(
        "[fixed]", 'objectives = [{ metric = "kid" }, { metric = "nfe" }]\n[fixed]'
    )
    ledger = opened(tmp_path / "db", parse(text, "s", "quick"))
    for _ in range(12):
        entry = proposed(ledger)
        if entry.number == 3:
            ledger.prune(entry.number, {}, None, 0)
        elif entry.number == 5:
            ledger.prune(entry.number, {"diverged": 1.0}, None, 0)
        else:
            ledger.complete(entry.number, [value(entry), 1.0], {})
    assert not any(entry.running for entry in ledger.entries())


WIDE = TEXT.replace("trials = 14", "trials = 60").replace("step = 0.1", "step = 0.01")


def chosen_under(bound: float | None, path: Path) -> list[float]:
    """r of the last 30 proposals, where a small r is best."""
    spec = parse(WIDE.format(method="tpe"), "s", "quick")
    ledger = opened(path, spec)
    for _ in range(60):
        entry = proposed(ledger)
        r = float(entry.params.get("r", 1.2))
        ledger.complete(entry.number, [r], {} if bound is None else {"flip_rate": bound - r})
    late = [entry for entry in ledger.entries()[30:] if "r" in entry.params]
    assert all(entry.feasible == (float(entry.params["r"]) >= (bound or 0)) for entry in late)
    return [float(entry.params["r"]) for entry in late]


def test_a_constraint_keeps_the_search_away(tmp_path: Path) -> None:
    """Without a bound the search goes where the objective is best, with one where it is allowed."""
    free, bound = chosen_under(None, tmp_path / "a.db"), chosen_under(0.8, tmp_path / "b.db")
    assert median(free) < 0.6
    assert median(bound) >= 0.8


def trial_states(ledger: Ledger) -> list[str]:
    return [trial.state.name for trial in ledger._study.get_trials()]


def completed(ledger: Ledger, count: int) -> list[Entry]:
    """Continue to `count` trials; results depend on the configuration, not on the number."""
    while len(entries := ledger.entries()) < count:
        entry = ledger.propose_next(entries)
        assert entry is not None
        ledger.complete(entry.number, [value(entry)], {})
    return entries


@every_method
def test_a_proposal_that_two_workers_write_counts_once(method: str, tmp_path: Path) -> None:
    """A server that restarts loses a worker's lock: two workers read the same, and both write."""
    one, other = (opened(tmp_path / "db", study(method)) for _ in range(2))
    before = completed(one, 1), completed(other, 1)
    written = one.propose_next(before[0])
    assert written is not None
    assert other.propose_next(before[1]) is None
    for ledger in (one, other):
        assert ledger.entries()[1:] == [written]
        ledger.drop_doubles()
    one.complete(written.number, [value(written)], {})
    assert trial_states(one) == ["COMPLETE", "COMPLETE", "FAIL"]
    entries = completed(one, 9)
    assert [entry.number for entry in entries] == [0, 1, *range(3, 10)]
    alone = completed(opened(tmp_path / "alone", study(method)), 9)
    assert [entry.params for entry in entries] == [entry.params for entry in alone]


def test_a_proposal_whose_answer_gets_lost_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(tmp_path / "db", study("grid"))
    real = ledger._storage.storage.create_new_trial

    def lost(*arguments: Any) -> None:
        real(*arguments)
        raise sa.exc.OperationalError("insert", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patched:
        patched.setattr(ledger._storage.storage, "create_new_trial", lost)
        assert ledger.propose_next(ledger.entries()) is None
    assert [entry.params for entry in ledger.entries()] == [next(study("grid").grid())]
    assert proposed(ledger).number == 1


def test_a_summary_counts_and_names_the_best() -> None:
    spec = study("grid")
    entries = [
        Entry(0, {}, "complete", (0.3,)),
        Entry(1, {}, "complete", (0.1,), feasible=False),
        Entry(3, {}, "complete", (0.2,)),
        Entry(4, {}, "pruned"),
    ]
    assert summary(spec, entries) == {
        "trials/complete": 3,
        "trials/pruned": 1,
        "trials/failed": 0,
        "best/kid": 0.2,
        "best/kid/trial": 3,
    }
    assert "best/kid" not in summary(spec, entries[3:])


@pytest.mark.parametrize(
    ("domain", "inverse"),
    [
        (Domain(low=0.5, high=2.5), lambda v: (v - 0.5) / 2),
        (Domain(low=0.01, high=1.0, log=True), lambda v: (2 + math.log10(v)) / 2),
    ],
)
def test_from_unit_is_onto_a_range(domain: Domain, inverse: Callable[[float], float]) -> None:
    for u in (0.0, 0.25, 0.5, 0.999):
        assert abs(inverse(float(from_unit(domain, u))) - u) < 1e-12


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.7), (0.05, 0.35), (0.6, 1.2)])
def test_rounding_takes_no_step_past_the_end(low: float, high: float) -> None:
    """0.1 + 6 · 0.1 is more than 0.7, which Optuna would refuse in the middle of a study."""
    domain = Domain(low=low, high=high, step=round((high - low) / 6, 2))
    values = domain.values()
    assert values is not None
    assert (values[0], values[-1]) == (low, high)
    assert from_unit(domain, 0.999) == high


def test_from_unit_on_ranges_too_long_to_list() -> None:
    assert from_unit(Domain(low=0, high=20_000), 0.5) == 10_000
    assert from_unit(Domain(low=0.0, high=1.0, step=1e-5), 0.25) == 1e-5 * 25_000


def test_from_unit_gives_every_value_its_share() -> None:
    domain = Domain(choices=("a", "b", "c", "d"))
    assert [from_unit(domain, (i + 0.5) / 8) for i in range(8)] == list("aabbccdd")
    whole = Domain(low=1, high=4, log=True)
    assert {from_unit(whole, i / 100) for i in range(100)} == {1, 2, 3, 4}
