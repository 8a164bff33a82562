"""Which samplers keep the sign of a pixel, and how the others' crossings are counted."""

from __future__ import annotations

import pytest
import torch

from ablate.samplers.drive import Limits
from ablate.samplers.registry import SAMPLERS
from tests.samplers.runs import STEP, elementwise, first, run, state
from tests.support.beds import normal

SIGN_PRESERVING = [name for name in SAMPLERS if "asams" not in name and name != "sign-agnostic"]


@pytest.mark.parametrize("name", SIGN_PRESERVING)
def test_sign_preserving_samplers_keep_signs_when_pushed(name: str) -> None:
    hard = STEP._replace(s=2.0, s_next=0.1, variance=9.0, drift=-4.0, kappa=3.0)
    sampler = SAMPLERS[name]
    start = first(sampler, state(2000))
    after, info = sampler.kernel()(elementwise, start, hard, normal((2000, 3), 9))
    assert torch.equal(after.sign, start.sign)
    assert bool((after.x.sign() == start.sign).all())
    assert info.crossed is None
    drawn = run(sampler, [hard, hard._replace(s=1.9)], limits=Limits(flips=0))
    assert drawn.reason is None
    assert int(drawn.flipped.sum()) == 0
    assert bool((drawn.x > 0).all())


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in SIGN_PRESERVING])
def test_sign_agnostic_samplers_cross_when_pushed_and_are_counted(name: str) -> None:
    pushed = [STEP._replace(variance=0.5, kappa=1.0)] * 6
    drawn = run(SAMPLERS[name], pushed, shape=(40, 3), frames=range(6))
    signs = torch.stack([*drawn.frames, drawn.x]).sign()  # [7, 40, 3]
    ever = (signs.diff(dim=0) != 0).any(0)
    assert torch.equal(drawn.flipped, ever.sum(1))
    assert int(drawn.flipped.sum()) > 0
    # a pixel that crossed twice is back at +1 and still counted
    assert int((drawn.x < 0).sum()) < int(drawn.flipped.sum())


def test_driver_stops_at_too_many_crossings() -> None:
    pushed = [STEP._replace(variance=0.5, kappa=1.0)] * 20
    within = run(SAMPLERS["asams"], pushed, shape=(40, 3), limits=Limits(flips=120))
    assert within.reason is None
    assert within.evaluations == 20
    stopped = run(SAMPLERS["asams"], pushed, shape=(40, 3), limits=Limits(flips=10))
    assert "pixels changed sign, more than 10, at step" in (stopped.reason or "")
    assert stopped.evaluations < 20
    assert int(stopped.flipped.sum()) > 10
