"""Search method `law`: where it begins, how it goes on, and that it repeats nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState

from ablate.generate.coordinates import law_step
from ablate.search import Entry, importance
from ablate.search.law import MOVE, by_law, predicted
from ablate.search.proposals import Proposal, propose
from ablate.search.ranges import beside, share_of
from ablate.study.definition import Study
from ablate.study.domain import Domain
from ablate.study.resolve import parse
from tests.search.test_search import opened, proposed
from tests.search.trials import finished, searched

TEXT = """
question = "Which?"
bundle = "digits"
method = "law"
[fixed]
sampler = "adls"
integrator = "exponential"
levels = 12
[search]
init = ["class-average", "lognormal", "class-gaussian"]
annealing = { low = 5e-5, high = 5e-3, log = true }
rho = { low = 0.7, high = 1.5, log = true }
L = { low = 1, high = 6 }
left = { low = 0.02, high = 1.0, log = true }
sigma = { low = 0.4, high = 1.6, log = true }
[budgets.quick]
samples = 8
trials = 60
"""

BEST = {"init": "class-gaussian", "annealing": 2e-4, "rho": 1.03, "sigma": 0.65, "left": 0.3}


def study(*changes: tuple[str, str]) -> Study:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text, "s", "quick")


def distance(spec: Study, params: Mapping[str, Any], knob: str) -> float:
    """From the best value, as a share of the knob's log range."""
    low, high = (math.log(float(end)) for end in spec.search[knob].ends())
    return abs(math.log(params[knob] / BEST[knob])) / (high - low)


def bowl(spec: Study) -> Callable[[Mapping[str, Any]], float]:
    """A quadratic bowl over the log ranges, steep along rho, with a penalty for a wrong start."""

    def value(params: Mapping[str, Any]) -> float:
        weights = {"sigma": 1.0, "left": 1.0, "annealing": 0.5, "rho": 20.0}
        bent = sum(w * distance(spec, params, knob) ** 2 for knob, w in weights.items())
        wrong = params["init"] != BEST["init"]
        return float(bent + 2.0 * wrong + 0.05 * (params["L"] - 1))

    return value


def shares(spec: Study, params: Mapping[str, Any]) -> list[float]:
    """Where the free knobs lie in their ranges, to a thousandth."""
    return [round(share_of(spec.search[k], params[k]), 3) for k in ("sigma", "annealing", "rho")]


def configurations(spec: Study, history: list[FrozenTrial]) -> list[str]:
    return [str(spec.settings(trial.params).knobs()) for trial in history]


def test_it_begins_at_the_law_s_prediction() -> None:
    """rho = 1, the first choice, the least L, and the middle of the log ranges."""
    assert by_law(study(), 0, []).params == {
        "init": "class-average",
        "annealing": 0.0005,
        "rho": 1.0,
        "L": 1,
        "left": 0.141421,  # √0.02
        "sigma": 0.8,
    }


def test_it_begins_there_in_the_paper_s_knobs_too() -> None:
    """r follows from chi; where "law" is a choice, it is taken."""
    chi, n = "chi = { low = 0.999, high = 0.9999 }", "n = { low = 0, high = 25 }"
    changes = [("annealing = { low = 5e-5, high = 5e-3, log = true }", chi)]
    changes += [("left = { low = 0.02, high = 1.0, log = true }", n)]
    rho = "rho = { low = 0.7, high = 1.5, log = true }"
    start = predicted(study(*changes, (rho, "r = { low = 0.4, high = 1.1 }")))
    assert start["r"] == pytest.approx(law_step(0.99945), rel=1e-5)  # proposals have 6 digits
    assert (start["chi"], start["n"], start["L"]) == (0.99945, 2, 1)
    by_choice = predicted(study(*changes, (rho, 'r = [0.6, "law", 0.7]')))
    assert by_choice["r"] == "law"
    by_delta = study(*changes, (rho, "delta = { low = 1e-4, high = 1e-3 }"))
    assert by_delta.settings(predicted(by_delta)).knobs()["rho"] == pytest.approx(1, rel=1e-5)


def test_r_follows_chi_wherever_the_search_goes() -> None:
    """Else a step along chi would leave the law, and look worse than it is."""
    spec = study(
        (
            "annealing = { low = 5e-5, high = 5e-3, log = true }",
            "chi = { low = 0.995, high = 1.0 }",
        ),
        ("rho = { low = 0.7, high = 1.5, log = true }", "r = { low = 0.4, high = 1.1 }"),
    )
    history = searched(spec, lambda params: abs(params["chi"] - 0.9991), 30)
    moved = {trial.params["chi"]: trial for trial in history}
    assert len(moved) > 3
    for trial in moved.values():
        knobs = spec.settings(trial.params).knobs()
        if trial.system_attrs.get(MOVE, ["r"])[0] == "chi":
            assert knobs["rho"] == pytest.approx(1, rel=0.05)  # after steps of r of 4 %


def test_it_finds_the_bottom_of_a_bowl_in_few_proposals() -> None:
    """The middle of the space is 2.2 above the bottom. A grid of five values a range would take
    3 · 5⁴ · 6 = 11,250 trials to come as near."""
    spec = study()
    history = searched(spec, bowl(spec), 40)
    values = [trial.values[0] for trial in history]
    assert values[0] > 2
    assert min(values[:20]) < 0.05
    best = min(history, key=lambda trial: trial.values[0]).params
    assert (best["init"], best["L"]) == ("class-gaussian", 1)
    assert min(values) < 0.01
    assert all(distance(spec, best, knob) < 0.07 for knob in ("sigma", "annealing", "rho"))


def test_every_choice_is_tried_before_any_range_and_l_last() -> None:
    spec = study()
    history = searched(spec, lambda params: float(params != predicted(spec)), 12)
    moves = [trial.system_attrs[MOVE][0] for trial in history[1:]]
    assert moves[:2] == ["init", "init"]
    assert moves[2:10:2] == moves[3:10:2] == ["sigma", "left", "annealing", "rho"]
    assert history[11].params["L"] == 2 or moves[10] in ("init", "L")


def test_steps_are_halved_after_a_round_without_improvement() -> None:
    spec = study()
    start = predicted(spec)
    history = searched(spec, lambda params: float(params != start), 40)
    sigmas = [t.params["sigma"] for t in history if t.system_attrs.get(MOVE, [""])[0] == "sigma"]
    factors = [abs(math.log(sigma / 0.8, 4)) for sigma in sigmas]
    assert factors[:6] == pytest.approx([0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625], rel=1e-4)


def test_it_never_proposes_a_configuration_twice() -> None:
    """Nor two values of `left` that give the same n, nor one that differs by rounding alone."""
    spec = study()
    for objective in (bowl(spec), lambda params: 0.0, lambda params: -float(params["sigma"])):
        history = searched(spec, objective, 120)
        places = [
            str([spec.settings(p).n, p["init"], p["L"], *shares(spec, p)])
            for p in (trial.params for trial in history)
        ]
        assert len(set(places)) == len(places)
        sigmas = {trial.params["sigma"] for trial in history if trial.system_attrs}
        assert len(sigmas) == len({round(math.log(sigma), 4) for sigma in sigmas})  # 0.8 stays 0.8


def test_a_small_space_is_tried_whole() -> None:
    spec = parse(
        """
question = "Which?"
bundle = "digits"
method = "law"
[fixed]
init = "gaussian"
sigma = 0.8
levels = 10
[search]
sampler = ["pf-heun", "adls"]
r = { low = 0.5, high = 1.0, step = 0.1, when = { sampler = "adls" } }
L = { low = 1, high = 3 }
[budgets.quick]
samples = 8
trials = 20
""",
        "s",
        "quick",
    )
    history = searched(spec, lambda params: abs(params.get("r", 2) - 0.7) + params.get("L", 0), 19)
    assert len(set(configurations(spec, history))) == 19
    for trial in history:
        has = trial.params["sampler"] == "adls"
        assert ("r" in trial.params) == ("L" in trial.params) == has
    assert min(trial.values[0] for trial in history[:8]) == pytest.approx(1)
    again = propose(spec, 19, history)  # nothing is left: any configuration will do
    assert spec.settings(again.params)


def test_a_knob_that_begins_to_apply_begins_at_its_prediction() -> None:
    spec = study(
        ('init = ["class-average"', 'init = ["gaussian"'),
        ("rho = { low = 0.7, high = 1.5, log = true }",
         "rho = { low = 0.7, high = 1.5, log = true, when = { init = 'class-gaussian' } }"),
    )  # fmt: skip
    history = searched(spec, lambda params: 1.0 - ("rho" in params), 12)
    assert "rho" not in history[0].params
    first = next(trial for trial in history if "rho" in trial.params)
    assert first.params["rho"] == 1.0
    assert len({trial.params.get("rho") for trial in history}) > 2


def test_it_depends_on_the_history_alone() -> None:
    """A killed study has the trials' parameters, values and attributes, and nothing else."""
    spec = study()
    whole, again = searched(spec, bowl(spec), 30), searched(spec, bowl(spec), 30)
    assert [trial.params for trial in whole] == [trial.params for trial in again]
    for count in (0, 1, 7, 29):
        assert propose(spec, count, whole[:count]).params == whole[count].params


def test_workers_do_not_propose_the_same() -> None:
    """Three at a time: each sees what is finished, and that others are running."""
    spec, value = study(), bowl(study())
    history: list[FrozenTrial] = []
    running: list[tuple[int, Proposal]] = []
    for n in range(60):
        proposal = propose(spec, n, history)
        running.append((n, proposal))
        history.append(finished(spec, n, proposal, None, TrialState.RUNNING))
        if len(running) == 3:
            number, proposal = running.pop(n % 2)  # not always the oldest
            history[number] = finished(spec, number, proposal, value(proposal.params))
    tried = configurations(spec, history)
    assert len(set(tried)) == len(tried)
    assert min(trial.values[0] for trial in history if trial.values) < 0.05
    assert propose(spec, 2, history[:1]).params == propose(spec, 2, history[:2]).params


def test_workers_on_one_database_do_not_propose_the_same(tmp_path: Path) -> None:
    ledgers = [opened(tmp_path / "db", study()) for _ in range(3)]
    entries = [proposed(ledger) for ledger in ledgers]
    assert len({str(entry.params) for entry in entries}) == 3
    ledgers[1].complete(entries[1].number, [0.1], {})
    assert proposed(ledgers[1]).params not in [entry.params for entry in entries]


def test_pruned_failed_and_forbidden_trials_are_never_the_best() -> None:
    spec = study()
    start = propose(spec, 0, [])
    centre = finished(spec, 0, start, 1.0)
    state, bad = TrialState.COMPLETE, {"flip_rate": 0.5}
    for other in (
        finished(spec, 1, propose(spec, 1, [centre]), 0.1, TrialState.PRUNED),
        finished(spec, 1, propose(spec, 1, [centre]), 0.1, state, bad),
        finished(spec, 1, propose(spec, 1, [centre]), None, TrialState.FAIL),
        finished(spec, 1, propose(spec, 1, [centre]), math.inf),
    ):
        third = propose(spec, 2, [centre, other]).params
        changed = {knob for knob in third if third[knob] != start.params[knob]}
        assert changed == {"init"}
        assert third != other.params


def test_without_any_usable_trial_it_looks_around_the_prediction() -> None:
    spec = study()
    lost = finished(spec, 0, propose(spec, 0, []), None, TrialState.FAIL)
    second = propose(spec, 1, [lost]).params
    assert second != lost.params
    assert second["rho"] == 1.0


def test_a_larger_value_may_be_better() -> None:
    spec = study(("[fixed]", 'objectives = [{ metric = "precision" }]\n[fixed]'))
    assert spec.objectives[0].direction == "maximize"
    low = bowl(spec)
    history = searched(spec, lambda params: -low(params), 30)
    assert max(trial.values[0] for trial in history) > -0.05


def test_the_study_s_first_configurations_come_first_and_count() -> None:
    row = '{ init = "class-gaussian", chi = 0.9998, r = 0.77, n = 1, L = 1, sigma = 0.65 }'
    spec = study(("[fixed]", f"first = [{row}]\n[fixed]"))
    history = searched(spec, bowl(spec), 3)
    assert spec.settings(history[0].params).chi == 0.9998
    assert history[1].params == predicted(spec)
    changed = {k for k, v in history[2].params.items() if v != history[0].params[k]}
    assert changed == {"init"}  # a neighbour of the first, which is better than the prediction


@pytest.mark.parametrize(
    "domain",
    [
        Domain(low=0.4, high=1.6, log=True),
        Domain(low=0.4, high=1.6),
        Domain(low=1, high=6),
        Domain(low=1, high=64, log=True),
        Domain(low=0.5, high=1.0, step=0.1),
    ],
)
@pytest.mark.parametrize("share", [0.25, 0.01, 2.0])
def test_neighbours_are_values_of_the_domain(domain: Domain, share: float) -> None:
    for end in domain.ends():
        for sign in (1, -1):
            value = beside(domain, float(end), sign * share)
            assert domain.contains(value)
            assert value != end or (sign > 0) == (end == domain.high)


def test_importance_reads_the_coordinates() -> None:
    """Left of the noise decides everything here; on the paper's scale that would be n, r and L."""
    spec = study(('method = "law"', 'method = "random"'))
    rows = [propose(spec, n, []).params for n in range(60)]
    entries = [
        Entry(n, row, "complete", (math.log(float(row["left"]) / 0.3) ** 2,))
        for n, row in enumerate(rows)
    ]
    shares = importance(spec, entries)["kid"]["fANOVA"]
    assert set(shares) == {"init", "annealing", "rho", "L", "left", "sigma"}
    assert max(shares, key=lambda knob: shares[knob]) == "left"
    assert shares["left"] > 0.8
