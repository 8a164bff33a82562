"""Proposals: a function of (study, n, earlier results), whatever was killed in between."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ablate.search import Entry, Ledger, from_unit
from ablate.space import Domain
from ablate.spec import Study
from ablate.study_file import parse

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
    if entry.number % 5 == 4:
        ledger.give_up(entry.number, failed=entry.number == 9)
    else:
        ledger.complete(entry.number, [value(entry)])


def uninterrupted(method: str, path: Path) -> list[Entry]:
    ledger = Ledger(f"sqlite:///{path}", "key", study(method))
    for _ in range(14):
        finish(ledger, ledger.claim_next())
    return ledger.entries()


def killed_after_every_step(method: str, path: Path) -> list[Entry]:
    """A new process would have nothing but the file: so has a new Ledger."""

    def opened() -> Ledger:
        return Ledger(f"sqlite:///{path}", "key", study(method))

    for number in range(14):
        opened().claim_next()
        (left,) = [entry for entry in opened().entries() if entry.running]
        assert left.number == number
        finish(opened(), left)
    return opened().entries()


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_search_is_the_same_search(method: str, tmp_path: Path):
    whole = uninterrupted(method, tmp_path / "a.db")
    assert [entry.number for entry in whole] == list(range(14))
    assert whole == killed_after_every_step(method, tmp_path / "b.db")
    assert len({str(entry.params) for entry in whole}) > 5


@pytest.mark.parametrize("method", METHODS)
def test_proposals_stay_inside_the_space(method: str, tmp_path: Path):
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
def test_the_seed_matters(method: str, tmp_path: Path):
    other = study(method).model_copy(update={"seed": 8})
    ledger = Ledger(f"sqlite:///{tmp_path / 'b.db'}", "key", other)
    for _ in range(14):
        finish(ledger, ledger.claim_next())
    assert ledger.entries() != uninterrupted(method, tmp_path / "a.db")


def test_two_objectives(tmp_path: Path):
    text = TEXT.format(method="tpe").replace(
        "[fixed]", 'objectives = [{ metric = "kid" }, { metric = "nfe" }]\n[fixed]'
    )
    ledger = Ledger(f"sqlite:///{tmp_path / 'a.db'}", "key", parse(text, "s", "quick"))
    for _ in range(12):
        entry = ledger.claim_next()
        if entry.number == 3:
            ledger.give_up(entry.number, failed=False)
        else:
            ledger.complete(entry.number, [value(entry), 1.0])
    assert not any(entry.running for entry in ledger.entries())


@pytest.mark.parametrize(
    ("domain", "inverse"),
    [
        (Domain(low=0.5, high=2.5), lambda v: (v - 0.5) / 2),
        (Domain(low=0.01, high=1.0, log=True), lambda v: (2 + math.log10(v)) / 2),
    ],
)
def test_from_unit_is_onto_a_range(domain: Domain, inverse: Callable[[float], float]):
    for u in (0.0, 0.25, 0.5, 0.999):
        assert abs(inverse(float(from_unit(domain, u))) - u) < 1e-12


def test_from_unit_on_ranges_too_long_to_list():
    assert from_unit(Domain(low=0, high=20_000), 0.5) == 10_000
    assert from_unit(Domain(low=0.0, high=1.0, step=1e-5), 0.25) == 1e-5 * 25_000


def test_from_unit_gives_every_value_its_share():
    domain = Domain(choices=("a", "b", "c", "d"))
    assert [from_unit(domain, (i + 0.5) / 8) for i in range(8)] == list("aabbccdd")
    whole = Domain(low=1, high=4, log=True)
    assert {from_unit(whole, i / 100) for i in range(100)} == {1, 2, 3, 4}
