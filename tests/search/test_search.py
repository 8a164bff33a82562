"""Proposals: a function of (study, n, earlier results), whatever was killed in between."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import sqlalchemy as sa

from ablate.results import Value
from ablate.search import Entry, Ledger, from_unit, importance, propose, summary
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.resolve import parse

METHODS = ["grid", "random", "tpe", "qmc", "cmaes", "gp"]

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


def finish(ledger: Ledger, entry: Entry) -> None:
    """Every fifth trial diverges, one fails: search methods must cope with both."""
    if entry.number == 9:
        ledger.fail(entry.number)
    elif entry.number % 5 == 4:
        ledger.prune(entry.number, {}, value(entry), 8)
    else:
        ledger.complete(entry.number, [value(entry)], {})


def uninterrupted(method: str, path: Path) -> list[Entry]:
    ledger = Ledger(f"sqlite:///{path}", "key", study(method))
    for _ in range(14):
        finish(ledger, ledger.propose_next(ledger.entries()))
    return ledger.entries()


def killed_after_every_step(method: str, path: Path) -> list[Entry]:
    """A new process would have nothing but the file: so has a new Ledger."""

    def opened() -> Ledger:
        return Ledger(f"sqlite:///{path}", "key", study(method))

    for number in range(14):
        ledger = opened()
        ledger.propose_next(ledger.entries())
        (left,) = [entry for entry in opened().entries() if entry.running]
        assert left.number == number
        finish(opened(), left)
    return opened().entries()


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_search_is_the_same_search(method: str, tmp_path: Path) -> None:
    whole = uninterrupted(method, tmp_path / "a.db")
    assert [entry.number for entry in whole] == list(range(14))
    assert whole == killed_after_every_step(method, tmp_path / "b.db")
    assert len({str(entry.params) for entry in whole}) > 5


@pytest.mark.parametrize("method", METHODS)
def test_proposals_stay_inside_the_space(method: str, tmp_path: Path) -> None:
    spec = study(method)
    for entry in uninterrupted(method, tmp_path / "a.db"):
        settings = spec.settings(entry.params)
        assert ("r" in entry.params) == (settings.sampler == "adls") == ("L" in entry.params)
        for knob, chosen in entry.params.items():
            values = spec.search[knob].values()
            assert values is not None
            # a step's multiples are rounded differently here and in Optuna
            assert chosen in values or min(abs(chosen - v) for v in values) < 1e-12


@pytest.mark.parametrize("method", ["random", "qmc", "tpe"])
def test_the_seed_matters(method: str, tmp_path: Path) -> None:
    other = study(method).model_copy(update={"seed": 8})
    ledger = Ledger(f"sqlite:///{tmp_path / 'b.db'}", "key", other)
    for _ in range(14):
        finish(ledger, ledger.propose_next(ledger.entries()))
    assert ledger.entries() != uninterrupted(method, tmp_path / "a.db")


def test_two_objectives(tmp_path: Path) -> None:
    text = TEXT.format(method="tpe").replace(
        "[fixed]", 'objectives = [{ metric = "kid" }, { metric = "nfe" }]\n[fixed]'
    )
    ledger = Ledger(f"sqlite:///{tmp_path / 'a.db'}", "key", parse(text, "s", "quick"))
    for _ in range(12):
        entry = ledger.propose_next(ledger.entries())
        if entry.number == 3:
            ledger.prune(entry.number, {}, None, 0)
        elif entry.number == 5:
            ledger.prune(entry.number, {"diverged": 1.0}, None, 0)
        else:
            ledger.complete(entry.number, [value(entry), 1.0], {})
    assert not any(entry.running for entry in ledger.entries())


WIDE = TEXT.replace("trials = 14", "trials = 60").replace("step = 0.1", "step = 0.01")


def chosen_under(bound: float | None, path: Path) -> list[float]:
    """r of the last 30 proposals, where the objective wants it small."""
    spec = parse(WIDE.format(method="tpe"), "s", "quick")
    ledger = Ledger(f"sqlite:///{path}", "key", spec)
    for _ in range(60):
        entry = ledger.propose_next(ledger.entries())
        r = float(entry.params.get("r", 1.2))
        ledger.complete(entry.number, [r], {} if bound is None else {"flip_rate": bound - r})
    late = [entry for entry in ledger.entries()[30:] if "r" in entry.params]
    assert all(entry.feasible == (entry.params["r"] >= (bound or 0)) for entry in late)
    return [float(entry.params["r"]) for entry in late]


def test_a_constraint_keeps_the_search_away(tmp_path: Path) -> None:
    """Free, the search goes where the objective is best; bound, it stays where that is allowed."""
    free, bound = chosen_under(None, tmp_path / "a.db"), chosen_under(0.8, tmp_path / "b.db")
    assert median(free) < 0.6
    assert median(bound) >= 0.8


def of_adls() -> Study:
    """Every trial has every knob."""
    text = WIDE.replace('sampler = ["adls", "pf-heun"]\n', "").replace(
        "[fixed]", '[fixed]\nsampler = "adls"'
    )
    return parse(text.format(method="random"), "s", "quick")


def test_importance_finds_the_knob_that_matters(tmp_path: Path) -> None:
    """Only r moves the objective, where all trials have it."""
    spec = of_adls()
    ledger = Ledger(f"sqlite:///{tmp_path / 'a.db'}", "key", spec)
    for _ in range(60):
        entry = ledger.propose_next(ledger.entries())
        ledger.complete(entry.number, [float(entry.params["r"]) ** 2], {})
    found = importance(spec, ledger.entries())["kid"]
    assert set(found) == {"PED-ANOVA", "fANOVA"}
    for shares in found.values():
        assert max(shares, key=lambda knob: shares[knob]) == "r"
        assert shares["r"] > 0.8
        assert abs(sum(shares.values()) - 1) < 1e-6


def test_importance_is_of_r_where_delta_was_searched() -> None:
    spec = parse(
        """
question = "?"
bundle = "digits"
method = "random"
[fixed]
sampler = "adls"
sigma = 0.8
init = "gaussian"
levels = 50
[search]
delta = { low = 0.005, high = 0.02 }
L = { low = 1, high = 4 }
[budgets.quick]
samples = 8
trials = 40
""",
        "s",
        "quick",
    )
    rows = [propose(spec, n, []).params for n in range(40)]
    steps = [spec.settings(row).relative_step for row in rows]
    entries = [
        Entry(n, row, "complete", (step,))
        for n, (row, step) in enumerate(zip(rows, steps, strict=True))
    ]
    found = importance(spec, entries)["kid"]["fANOVA"]
    assert "delta" not in found
    assert max(found, key=lambda knob: found[knob]) == "r"


def test_importance_of_too_few_trials_is_not_told() -> None:
    assert importance(study("random"), []) == {}
    spec = of_adls()
    rows = [propose(spec, n, []).params for n in range(9)]
    entries = [Entry(n, row, "complete", (float(n),)) for n, row in enumerate(rows)]
    assert len(rows[0]) == 2
    assert importance(spec, entries[:4]) == {}
    assert set(importance(spec, entries[:5])["kid"]) == {"fANOVA"}  # two a knob, and one


def test_importance_heeds_what_was_given_up(tmp_path: Path) -> None:
    """Two complete trials and many poor ones, as a search with rungs leaves them."""
    spec = of_adls()
    ledger = Ledger(f"sqlite:///{tmp_path / 'db'}", "key", spec)
    for n in range(40):
        entry = ledger.propose_next(ledger.entries())
        if n < 2:
            ledger.complete(entry.number, [float(entry.params["r"])], {})
        elif n < 39:
            ledger.prune(entry.number, {}, float(entry.params["r"]), samples=128)
        else:
            ledger.prune(entry.number, {}, None, samples=0)  # diverged at once
    entries = ledger.entries()
    assert [len(entry.values) for entry in entries] == [1] * 39 + [0]
    for shares in importance(spec, entries)["kid"].values():
        assert max(shares, key=lambda knob: shares[knob]) == "r"


def entries_of(
    text: str, objective: Callable[[dict[str, Value]], float]
) -> tuple[Study, list[Entry]]:
    spec = parse(text, "s", "quick")
    rows = [propose(spec, n, []).params for n in range(spec.trials)]
    return spec, [Entry(n, row, "complete", (objective(row),)) for n, row in enumerate(rows)]


def test_importance_of_rows_is_of_the_knobs_that_decide_the_others() -> None:
    """L goes with the sampler, r with sampler and start: neither can be told from those."""
    spec, entries = entries_of(ROWS, lambda row: float(row["sampler"] == "asams"))
    for shares in importance(spec, entries)["kid"].values():
        assert set(shares) == {"sampler", "init", "chi"}
        assert max(shares, key=lambda knob: shares[knob]) == "sampler"


ROWS = """
question = "Which?"
bundle = "digits"
method = "grid"
rows = [
  { sampler = "adls", init = "gaussian", L = 1, r = 0.6 },
  { sampler = "adls", init = "class-average", L = 1, r = 0.6 },
  { sampler = "asams", init = "gaussian", L = 3, r = 0.75 },
  { sampler = "asams", init = "class-average", L = 3, r = 0.43 },
]
[fixed]
sigma = 0.8
[search]
chi = [0.995, 0.9995, 1.0]
n = [2]
[budgets.quick]
samples = 8
"""


def test_fanova_is_not_told_where_some_trials_lack_a_knob() -> None:
    """It would say that the schedule explains everything: the others have no place in it."""
    spec, entries = entries_of(CONDITIONAL, lambda row: float(row.get("sigma", 0.5)))
    found = importance(spec, entries)["kid"]
    assert set(found) == {"PED-ANOVA"}
    assert set(found["PED-ANOVA"]) == {"schedule", "sigma", "sigma_min", "sigma_max"}


CONDITIONAL = """
question = "Which?"
bundle = "digits"
method = "random"
[fixed]
sampler = "adls"
init = "gaussian"
[search]
schedule = ["constant", "ve"]
sigma = { low = 0.1, high = 3.0 }
sigma_min = { low = 0.01, high = 0.3 }
sigma_max = { low = 0.8, high = 5.0 }
[budgets.quick]
samples = 8
trials = 40
"""


def trial_states(ledger: Ledger) -> list[str]:
    return [trial.state.name for trial in ledger._study.get_trials()]


def completed(ledger: Ledger, count: int) -> list[Entry]:
    """Goes on to so many trials; they are told by what they are, not by their number."""
    while len(entries := ledger.entries()) < count:
        entry = ledger.propose_next(entries)
        ledger.complete(entry.number, [value(entry)], {})
    return entries


@pytest.mark.parametrize("method", METHODS)
def test_a_proposal_that_two_write_down_counts_once(method: str, tmp_path: Path) -> None:
    """A server that goes away takes a worker's turn along: both have seen the same, both write."""
    url = f"sqlite:///{tmp_path / 'db'}"
    one, other = (Ledger(url, "key", study(method)) for _ in range(2))
    before = completed(one, 1), completed(other, 1)
    written = one.propose_next(before[0])
    assert written is not None
    assert other.propose_next(before[1]) is None
    for ledger in (one, other):
        assert ledger.entries()[1:] == [written]
        ledger.drop_doubles()
    one.complete(written.number, [value(written)], {})
    states = [trial.state.name for trial in one._study.get_trials()]
    assert states == ["COMPLETE", "COMPLETE", "FAIL"]
    entries = completed(one, 9)
    assert [entry.number for entry in entries] == [0, 1, *range(3, 10)]
    alone = completed(Ledger(f"sqlite:///{tmp_path / 'alone'}", "key", study(method)), 9)
    assert [entry.params for entry in entries] == [entry.params for entry in alone]


def test_a_proposal_whose_answer_gets_lost_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'db'}", "key", study("grid"))
    real = ledger._storage.create_new_trial

    def lost(*arguments: Any) -> None:
        real(*arguments)
        raise sa.exc.OperationalError("insert", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patched:
        patched.setattr(ledger._storage, "create_new_trial", lost)
        assert ledger.propose_next(ledger.entries()) is None
    assert [entry.params for entry in ledger.entries()] == [next(study("grid").grid())]
    assert ledger.propose_next(ledger.entries()).number == 1


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
