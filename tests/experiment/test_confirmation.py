"""Confirmation: the best configurations are measured again on seeds that did not choose them."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.experiment import cell_attempts
from ablate.experiment.cell import CellResult, run_cell
from ablate.experiment.confirmation import (
    Again,
    best_few,
    compare,
    is_done,
    planned,
    to_confirm,
    unconfirmed,
)
from ablate.experiment.prepare import Setup
from ablate.experiment.replicates import firsts, replicate
from ablate.experiment.worker import run
from ablate.generate.settings import Settings
from ablate.metrics.estimate import Measured
from ablate.report.confirmed import sentences
from ablate.results import StudyResults
from ablate.search import Entry
from ablate.study.definition import Study
from ablate.study.resolve import parse
from tests.support.beds import normal
from tests.support.studies import Quiet, changed, make_root, record_of

TEXT = """
question = "?"
bundle = "b"
method = "random"
seeds = [0, 1]
first = [{ init = "gaussian" }, { init = "lognormal" }]
[fixed]
sampler = "adls"
sigma = 0.8
[search]
init = ["gaussian", "lognormal", "forward-data", "class-average"]
[budgets.quick]
samples = 40
trials = 8
"""
CONFIRM = 'confirm = { named = { "the paper\'s setting" = 1 } }\n'


def study(head: str = CONFIRM, **changes: object) -> Study:
    return parse(head + TEXT, "s", "quick").model_copy(update=changes)


def entry(number: int, value: float, init: str = "gaussian", **more: object) -> Entry:
    made = Entry(number, {"init": init}, "complete", (value,))
    return made._replace(params={"init": init, "r": number}, **more)  # type: ignore[arg-type]


VALUES = [0.5, 0.9, 0.1, 0.3, 0.2, 0.05, 0.4, 0.6]
SEARCH = [entry(number, value) for number, value in enumerate(VALUES)]


def test_the_best_and_the_named_are_measured_again_when_the_search_has_ended() -> None:
    spec = study()
    assert [e.number for e in to_confirm(spec, SEARCH)] == [5, 2, 1]  # a quarter of 8, the named
    assert to_confirm(spec, SEARCH[:-1]) == []
    assert to_confirm(spec, [*SEARCH[:-1], SEARCH[-1]._replace(state="running")]) == []
    begun = [*SEARCH, entry(8, 0.1, confirms=5, state="running")]
    assert [e.number for e in unconfirmed(spec, begun)] == [2, 1]
    done = [*SEARCH, *(entry(8 + i, 0.1, confirms=n) for i, n in enumerate((5, 2, 1)))]
    assert is_done(spec, done)
    assert not is_done(spec, done[:-1])
    assert not is_done(spec, begun)


def test_more_trials_later_confirm_what_is_new_among_the_best() -> None:
    spec = study(trials=9)
    again = [entry(8 + i, 0.1, confirms=n) for i, n in enumerate((5, 2, 1))]
    assert unconfirmed(spec, [*SEARCH, *again]) == []  # the search goes on first
    more = [*SEARCH, *again, entry(11, 0.01)]
    assert [e.number for e in unconfirmed(spec, more)] == [11]


def test_oracles_and_what_breaks_a_constraint_are_not_among_the_best() -> None:
    wrong = [entry(2, 0.1, "forward-data"), SEARCH[5]._replace(feasible=False)]
    field = [*SEARCH[:2], wrong[0], *SEARCH[3:5], wrong[1], *SEARCH[6:]]
    assert [e.number for e in best_few(study(), field)] == [4, 3]


def test_of_two_objectives_the_front_is_confirmed() -> None:
    front = study(objectives=parse(CONFIRM + 'objectives = [{ metric = "kid" }, { metric = "nfe" }]'
                                   + TEXT, "s", "quick").objectives)  # fmt: skip
    nfe = [10, 20, 30, 5, 40, 50, 60, 1]
    both = [e._replace(values=(*e.values, n)) for e, n in zip(SEARCH, nfe, strict=True)]
    # nothing is as good as 5, 2, 3 and 7 at their cost; 4 costs more than 2 and is worse
    assert [e.number for e in best_few(front, both)] == [5, 2]


def test_none_if_switched_off_or_if_there_are_few_trials() -> None:
    assert to_confirm(study("confirm = false\n"), SEARCH) == []
    assert to_confirm(study("", trials=3), SEARCH[:3]) == []


def test_a_cost_is_not_confirmed() -> None:
    text = 'objectives = [{ metric = "nfe" }, { metric = "kid" }]\n' + CONFIRM + TEXT
    spec = parse(text, "s", "quick")
    both = [e._replace(values=(1.0, *e.values)) for e in SEARCH]
    assert to_confirm(spec, both) == []
    assert planned(spec) == 0


def test_a_name_beyond_the_last_trial_is_left_out() -> None:
    """`--trials 1` of a study that compares with its second configuration."""
    assert to_confirm(study(trials=1), SEARCH[:1]) == []
    assert planned(study(trials=1)) == 0


def test_false_in_a_budget_switches_all_of_it_off() -> None:
    spec = parse(CONFIRM + TEXT + "confirm = false", "s", "quick")
    assert to_confirm(spec, SEARCH) == []


def test_values_of_left_that_give_the_same_n_are_one_configuration() -> None:
    """With r = 1/2 and L = 1 both leave a quarter, which is n = 2."""
    spec = study().model_copy(update={"fixed": {"sampler": "adls", "sigma": 0.8, "r": 0.5}})
    twice = [Entry(n, {"init": "gaussian", "left": left}, "complete", (0.1,))
             for n, left in enumerate((0.25, 0.26, 0.5))]  # fmt: skip
    assert [entry.number for entry in firsts(spec, twice)] == [2, 0]
    assert replicate(spec, twice[1], twice[:1]) == (0, (2, 3))
    assert replicate(spec, twice[2], twice[:2]) == (None, (0, 1))


def test_fid_is_confirmed_with_as_many_samples() -> None:
    text = 'objectives = [{ metric = "fid" }]\n' + TEXT + "confirm = { samples = 99 }"
    with pytest.raises(UserError, match="fid depends on the number of samples, which is 40"):
        parse(text, "s", "quick")


@pytest.mark.parametrize(
    ("confirm", "message"),
    [
        ("{ seeds = [1, 100] }", "confirm.seeds [1, 100] must be new and differ"),
        ("{ seeds = [100, 100] }", "confirm.seeds [100, 100] must be new and differ"),
        ('{ named = { "it" = 2 } }', "'it' is place 2 of `first`, which has 2"),
    ],
)
def test_what_cannot_be_confirmed_is_refused(confirm: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("[", r"\[").replace("]", r"\]")):
        study(f"confirm = {confirm}\n")


def test_a_budget_changes_the_confirmation() -> None:
    spec = parse(CONFIRM + TEXT + "confirm = { samples = 99 }", "s", "quick")
    assert (spec.confirm.samples, spec.confirm.seeds, spec.confirm.top) == (99, (100, 101), 3)
    assert spec.confirm.named == {"the paper's setting": 1}
    assert study().confirm.samples == 40


def test_pairs_are_compared_on_their_shared_noise() -> None:
    """One is lower by 0.1 on every image, in noise ten times as large: it is better, surely."""
    shared = normal((400,), 0).double()
    own = 0.1 * normal((400,), 1).double()
    low = Again(SEARCH[0], 8, None, [Measured(0.0, shared)], feasible=True)
    high = Again(SEARCH[1], 9, "it", [Measured(0.1, shared + own)], feasible=True)
    (pair,) = compare([(low, high)], sign=1)
    error = float(own.std()) / 20
    assert pair["difference"] == pytest.approx(-0.1)
    assert pair["error"] == pytest.approx(error)
    assert pair["probability"] > 0.999
    (other,) = compare([(low, high)], sign=-1)
    assert other["probability"] < 0.001
    (same,) = compare([(low, low)], sign=1)
    assert (same["probability"], same["p"]) == (0.5, 1.0)


ON = ("confirm = false", "first = [{ init = 'lognormal', r = 0.5 }]\n" + CONFIRM.replace("1", "0"))


def confirmed(root: Path) -> StudyResults:
    return record_of(Workspace(root))


def test_a_study_is_confirmed(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, "random", trials=8)
    setup = changed(root, ON, ("samples = 40", "samples = 64\nconfirm = { samples = 128 }"))
    watcher = Quiet()
    run(setup, Workspace(root), watcher)
    assert abs(watcher.share - 11) < 1e-9
    found = confirmed(root)
    assert len(found.trials) == 8
    rows = found.confirmation["trials"]
    assert sum(row["top"] for row in rows) == 2
    assert [row["name"] for row in rows if row["trial"] == 0] == ["the paper's setting"]
    assert [trial.number for trial in found.confirmations] == [8, 9, 10]
    for row in rows:
        again = next(t for t in found.confirmations if t.number == row["again"])
        original = next(t for t in found.trials if t.number == row["trial"])
        assert again.params == original.params
        assert [cell.seed for cell in again.cells] == [100, 101]
        assert again.metrics["samples"] == 128
        assert row["confirmed"] == pytest.approx(again.metrics["kid"], rel=2**-10)  # float16
        assert row["error"] > 0
        assert row["optimism"] == row["confirmed"] - row["searched"]
    assert len(found.confirmation["pairs"]) == 3
    assert all(math.isfinite(pair["holm"]) for pair in found.confirmation["pairs"])
    assert run(setup, Workspace(root), Quiet()).ran == 0


def test_a_limit_before_the_named_one_is_no_fault(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path, tiny_bundle, "random", trials=8)
    setup = changed(root, ON)
    stopped = setup._replace(study=setup.study.model_copy(update={"minutes": 1e-9}))
    assert run(stopped, Workspace(root), Quiet()).stopped is not None
    assert confirmed(root).confirmation == {}
    assert run(setup, Workspace(root), Quiet()).ran == 11


def test_one_that_diverges_in_the_search_or_again_is_no_fault(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The named one diverges in the search and is measured again; the best diverges again."""
    root = make_root(tmp_path, tiny_bundle, "random", trials=8)
    setup, lost = changed(root, ON), iter((True,))

    def fragile(setup: Setup, settings: Settings, seed: int, *more: Any) -> CellResult:
        result = run_cell(setup, settings, seed, *more)
        first = settings.init == "lognormal" and settings.r == 0.5 and seed == 1
        if first or (seed == 100 and next(lost, False)):
            metrics = {k: v for k, v in result.metrics.items() if not k.startswith(("kid", "fid"))}
            return result._replace(metrics=metrics, state="diverged", reason="made to")
        return result

    monkeypatch.setattr(cell_attempts, "run_cell", fragile)
    run(setup, Workspace(root), Quiet())
    found = confirmed(root)
    rows = {row["trial"]: row for row in found.confirmation["trials"]}
    assert rows[0]["searched"] is None
    assert len(rows) == 2
    assert [trial.state for trial in found.confirmations].count("diverged") == 1
    assert "made to" in " ".join(sentences(found))


class Killed(BaseException):
    """Ends a process's work at once, as a kill would: nothing catches it."""


@pytest.mark.parametrize("cells", [17, 19, 21])
def test_a_kill_during_confirmation_is_made_good(
    cells: int, tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study is killed as it writes a cell of a confirmation; the record is the same to a bit as
    that of a study that was not."""
    roots = [make_root(tmp_path / name, tiny_bundle, "random", trials=8) for name in ("a", "b")]
    setups = [changed(root, ON) for root in roots]
    run(setups[0], Workspace(roots[0]), Quiet())
    left = iter(range(cells - 1))
    write = MlflowClient.log_artifacts

    def counted(*arguments: object, **named: object) -> object:
        if next(left, None) is None:
            raise Killed
        return write(*arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(MlflowClient, "log_artifacts", counted)
        run(setups[1], Workspace(roots[1]), Quiet())
    assert not confirmed(roots[1]).confirmation
    run(setups[1], Workspace(roots[1]), Quiet())
    whole, again = (confirmed(root) for root in roots)
    assert again.confirmation == whole.confirmation
    for one, other in zip(again.confirmations, whole.confirmations, strict=True):
        assert one.params == other.params
        assert one.metrics | {"seconds": 0} == other.metrics | {"seconds": 0}
