"""The last step of the probability-flow solvers."""

from __future__ import annotations

import torch

from ablate.diffusion.grids import geometric, plan
from ablate.diffusion.processes import GBM
from ablate.samplers.kernel import State
from ablate.samplers.registry import Sampler
from tests.samplers.runs import every_flow, first
from tests.support.beds import normal, two_modes

S_MIN = 0.005


@every_flow
def test_flow_ends_on_the_denoised(sampler: Sampler) -> None:
    oracle, process = two_modes(), GBM(0.8)
    last = plan(process, geometric(process, 5, S_MIN))[-1]
    y = normal((20, 1), 5)
    state, _ = sampler.kernel()(oracle.denoised, first(sampler, State.of_log(y)), last, y)
    torch.testing.assert_close(state.y, oracle.denoised(y, S_MIN), rtol=1e-12, atol=1e-12)
