"""The sign-agnostic step against its formula written out."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.samplers.asams import asams, asams_as_printed
from ablate.samplers.kernel import Kernel
from tests.samplers.runs import ORACLE, STEP, state
from tests.support.beds import normal


@pytest.mark.parametrize("drift", [0.5 * STEP.variance, 0.02, -0.1])
@pytest.mark.parametrize(("kernel", "sign"), [(asams, 1), (asams_as_printed, -1)])
def test_asams_by_hand(kernel: Kernel, sign: int, drift: float) -> None:
    step, start, z = STEP._replace(drift=drift, variance=0.3, kappa=3.0), state(), normal((6, 3), 7)
    hyvarinen = ORACLE.hyvarinen(start.x.abs(), step.s)
    v = step.variance
    factor = 1 + 2 * v - drift + sign * v * hyvarinen + step.kappa * math.sqrt(v) * z
    after, info = kernel(ORACLE.denoised, start, step, z)
    torch.testing.assert_close(after.x, start.x * factor)
    assert info.crossed is not None
    assert torch.equal(info.crossed, factor < 0)
    assert 0 < int(info.crossed.sum()) < factor.numel()  # so that both branches were seen
