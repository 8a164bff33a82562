"""Search method `law`: begin at the configuration that the law predicts, then look around the best.

The law says which step belongs to a chi, so that r needs little search: rho = 1. What it leaves
open (the start, sigma, the noise left, annealing, L) is searched one knob at a time around the best
configuration so far, by steps up and down that are halved when none of them is an improvement.
All configurations are measured on the same random numbers, so their values are compared directly.

Proposals depend on the history alone: how often the step was halved is an attribute of each trial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from optuna.trial import FrozenTrial, TrialState

from ablate.results import Value
from ablate.search.proposals import Proposal, at_random, from_unit, keeps
from ablate.search.ranges import beside, nearest, share_of
from ablate.study.definition import Study
from ablate.study.domain import Domain

MOVE = "ablate:law"
"""Attribute of a trial with the move that led to it."""

FIRST_STEP = 1 / 4
"""The first step, as a share of a range: for sigma from 0.4 to 1.6 a factor of 1.4."""

FIRST_LAW_STEP = 1 / 16
"""The same for the knobs that the law predicts: 5 % for rho from 0.7 to 1.5. An r that is 0.1 off
multiplies KID by 1.3 to 57 (see reports/notes/samplers.md)."""

MOST_HALVINGS = 6
"""Then a step is 0.4 % of its range, far below what a search can resolve; random draws follow."""

PREDICTED: Mapping[str, Value] = {"rho": 1.0, "r": "law", "L": 1, "n": 2}
"""Where the search begins, if the study's space has it. n = 2 leaves about a tenth of the noise."""

BY_LAW = ("rho", "r", "delta")
IN_TURN = ("sigma", "left", "n", "annealing", "chi", *BY_LAW)
"""Ranges in the order in which they are tried, after those that are not named; L comes last."""

SAME = 1e-4
"""Shares of a range, below the last step and above rounding: what is nearer counts as the same."""

DRAWS = 100
"""Random draws in search of a configuration that is new, once there is nothing left to try."""


class Move(NamedTuple):
    """How a configuration differs from the best one before it."""

    knob: str
    value: Value
    sign: int  # up or down a range; 0 to another choice
    halved: int  # how often the step was halved
    origin: Value  # the value before


def by_law(study: Study, n: int, history: Sequence[FrozenTrial]) -> Proposal:
    """The first candidate that is new; the history has the trials that are running, too.

    If trials are missing from it, n - len(history) candidates are skipped in their place.
    """
    tried, missing = _Tried(study, history), n - len(history)
    for proposal in _candidates(study, history):
        if tried.adds(proposal.params):
            if missing <= 0:
                return proposal
            missing -= 1
    draws = [at_random(study, n + i, history) for i in range(DRAWS)]
    return next((each for each in draws if tried.adds(each.params)), draws[0])


class _Tried:
    """The configurations that were tried."""

    def __init__(self, study: Study, history: Sequence[FrozenTrial]) -> None:
        self._study = study
        self._places: dict[str, list[list[float]]] = {}
        for trial in history:
            self.adds(trial.params)

    def adds(self, params: Mapping[str, Any]) -> bool:
        """Whether a configuration is valid and new; if so it counts as tried from now on.

        Two values of `left` that give the same n are the same.
        """
        try:
            n = self._study.settings(params).n
        except ValueError:
            return False
        domains = {knob: self._study.search[knob] for knob in sorted(params) if knob != "left"}
        free = [k for k, d in domains.items() if d.choices is None and d.spacing is None]
        place = [share_of(domains[knob], params[knob]) for knob in free]
        exact = {knob: params[knob] for knob in domains if knob not in free}
        others = self._places.setdefault(str([n, exact, free]), [])
        if any(math.dist(place, other) < SAME for other in others):
            return False
        others.append(place)
        return True


def _candidates(study: Study, history: Sequence[FrozenTrial]) -> Iterator[Proposal]:
    """What the law predicts, then the neighbours of the best configuration, nearer and nearer."""
    start = predicted(study)
    yield Proposal(start, {})
    best = _best(study, history)
    centre: Mapping[str, Value] = best.params if best else start
    came = Move(*best.system_attrs[MOVE]) if best and MOVE in best.system_attrs else None
    for halved in range(came.halved if came else 0, MOST_HALVINGS + 1):
        for move in _moves(study, centre, halved, history, came):
            there = _spelt(study.search[move.knob], move, history)
            params = _completed(study, {**start, **centre, move.knob: there})
            if move.knob not in BY_LAW:
                params = _at_rho(study, params, _rho(study, centre))
            yield Proposal(params, {MOVE: list(move)})


def _spelt(domain: Domain, move: Move, history: Sequence[FrozenTrial]) -> Value:
    """The value that a move leads to; one that was tried before is spelt as it was then."""
    tried = (trial.params[move.knob] for trial in history if move.knob in trial.params)
    if domain.choices is not None:
        return move.value
    place = share_of(domain, float(move.value))
    alike = (v for v in tried if abs(share_of(domain, float(v)) - place) < SAME)
    return next(alike, move.value)


def _best(study: Study, history: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The best complete trial that keeps all constraints. Pruned ones have too few samples."""
    sign = study.objectives[0].sign
    ranked = [
        (sign * trial.values[0], trial.number, trial)
        for trial in history
        if trial.state == TrialState.COMPLETE and keeps(trial) and math.isfinite(trial.values[0])
    ]
    return min(ranked)[2] if ranked else None


def predicted(study: Study) -> dict[str, Value]:
    """The configuration to begin with: what the law predicts, the middle of ranges, first choices.

    On a log range the middle is that of the logarithm.
    """
    return _at_rho(study, _completed(study, {}), 1.0)


def _rho(study: Study, params: Mapping[str, Value]) -> float | None:
    """The relative step in units of the law's; None without one, or if the law itself sets it."""
    try:
        rho = study.settings(params).knobs().get("rho")
    except ValueError:
        return None
    return None if rho is None else float(rho)


def _at_rho(study: Study, params: dict[str, Value], rho: float | None) -> dict[str, Value]:
    """The configuration with r or delta, where they are ranges, at this multiple of the law's."""
    knob = "delta" if "delta" in params else "r"
    domain, now = study.search.get(knob), _rho(study, params)
    if knob not in params or domain is None or domain.choices or now is None or rho is None:
        return params
    return {**params, knob: nearest(domain, float(params[knob]) * rho / now)}


def _sensible(knob: str, domain: Domain) -> Value:
    """Where the search begins."""
    value = PREDICTED.get(knob)
    if domain.choices is not None:
        return domain.choices[0] if value not in domain.choices else value
    number = from_unit(domain, 0.5) if isinstance(value, str | None) else value
    return nearest(domain, float(number))


def _completed(study: Study, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """The searched knobs that apply. One that a move makes apply begins where it is predicted."""
    params: dict[str, Value] = {}
    for knob in study.order():
        if study.applies(knob, {**study.fixed, **params}):
            fresh = chosen[knob] if knob in chosen else _sensible(knob, study.search[knob])
            params[knob] = fresh
    return params


def _moves(
    study: Study,
    centre: Mapping[str, Value],
    halved: int,
    history: Sequence[FrozenTrial],
    came: Move | None,
) -> Iterator[Move]:
    """The moves from a configuration by steps of one size: what was not tried on the other side of
    the move that led to it, since a small improvement may be luck; on in its direction; to choices
    that were never tried; along the ranges; to the choices tried before, the better ones first and
    one more of them whenever the step is halved; and at last along L."""
    if came and came.sign and came.halved == halved and came.knob in centre:
        yield from _steps(study, {came.knob: came.origin}, came.knob, halved, (-came.sign,))
        yield from _steps(study, centre, came.knob, halved, (came.sign,))
    ranges = [k for k in centre if study.search[k].choices is None]
    known = {k: _by_value(study, k, history) for k in centre if k not in ranges}
    for knob, seen in known.items():
        others = (v for v in study.search[knob].choices or () if v not in seen)
        yield from (Move(knob, v, 0, halved, centre[knob]) for v in others if v != centre[knob])
    for knob in sorted(ranges, key=_turn):
        if knob != "L":
            yield from _steps(study, centre, knob, halved)
    again = halved - (came.halved if came else 0) + 1
    for knob, seen in known.items():
        others = (v for v in seen if v != centre[knob])
        some = itertools.islice(others, again)
        yield from (Move(knob, v, 0, halved, centre[knob]) for v in some)
    if "L" in ranges:
        yield from _steps(study, centre, "L", halved)


def _by_value(study: Study, knob: str, history: Sequence[FrozenTrial]) -> list[Value]:
    """The choices of a knob that were tried: by their best result, those without one last."""
    best: dict[Value, float] = {}
    for trial in history:
        if (choice := trial.params.get(knob)) is not None:
            found = _best(study, [trial])
            value = math.inf if found is None else study.objectives[0].sign * found.values[0]
            best[choice] = min(value, best.get(choice, math.inf))
    return sorted(best, key=lambda choice: best[choice])


def _turn(knob: str) -> int:
    return IN_TURN.index(knob) if knob in IN_TURN else -1


def _steps(
    study: Study,
    centre: Mapping[str, Value],
    knob: str,
    halved: int,
    signs: Sequence[int] = (1, -1),
) -> Iterator[Move]:
    size = (FIRST_LAW_STEP if knob in BY_LAW else FIRST_STEP) / 2**halved
    domain, value = study.search[knob], float(centre[knob])
    for sign in signs:
        yield Move(knob, beside(domain, value, sign * size), sign, halved, centre[knob])
