"""The driver stops a run that diverges, and says why."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ablate.samplers.adls import adls
from ablate.samplers.asams import asams
from ablate.samplers.drive import Limits, drive
from ablate.samplers.registry import SAMPLERS
from tests.samplers.runs import STEP, elementwise, run
from tests.support.beds import normal


def test_driver_stops_at_a_value_that_is_not_finite() -> None:
    calls: list[float] = []

    def failing(y: Tensor, s: float) -> Tensor:
        calls.append(s)
        bad = elementwise(y, s)
        if len(calls) == 3:
            bad[2, 1] = math.nan
        return bad

    drawn = run(SAMPLERS["adls"], [STEP] * 10, denoiser=failing)
    assert drawn.reason == "a value is not finite at step 3 of 10 (s = 0.5)"
    assert drawn.evaluations == len(calls) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_driver_stops_where_x_overflows_though_its_logarithm_does_not(dtype: torch.dtype) -> None:
    edge = math.log(torch.finfo(dtype).max)
    still = STEP._replace(variance=0.0, drift=0.0)
    z = torch.zeros(2, 3, dtype=dtype)
    below, above = (
        drive(adls, elementwise, torch.full_like(z, y), [still], lambda j: z)
        for y in (edge - 1, edge + 1)
    )
    assert below.reason is None
    assert bool(below.x.isfinite().all())
    assert above.reason == "a value is not finite at step 1 of 1 (s = 0.5)"


def test_driver_stops_outside_the_radius() -> None:
    """y grows by a factor of 1 + variance/s² = 1.19 a step: from |y - 2| < 10 to 100 in some 20."""
    steps, limits = [STEP._replace(kappa=0.0)] * 100, Limits(centre=2.0, radius=100.0)

    def away(y: Tensor, s: float) -> Tensor:
        return 2 * y - 2.0

    drawn = run(SAMPLERS["adls"], steps, denoiser=away, limits=limits)
    assert drawn.reason is not None
    assert "|log x - mean| = " in drawn.reason
    assert "exceeds 100" in drawn.reason
    assert 10 < drawn.evaluations < 40
    assert float((drawn.x.log() - 2.0).abs().amax()) > 100
    free = run(SAMPLERS["adls"], steps[: drawn.evaluations - 1], denoiser=away, limits=limits)
    assert free.reason is None


def test_radius_is_measured_from_the_centre() -> None:
    start = torch.full((2, 3), 5.0, dtype=torch.float64)
    still = STEP._replace(variance=0.0, drift=0.0)

    def reason(centre: float) -> str | None:
        limits = Limits(centre, radius=1.0)
        return drive(adls, elementwise, start, [still], lambda j: start, limits).reason

    assert reason(4.5) is None
    assert "exceeds 1" in (reason(0.0) or "")


def test_padding_does_not_stop_a_run() -> None:
    """Only the first `rows` samples count: for values, distance and crossings."""
    start = torch.zeros(4, 3, dtype=torch.float64)
    z = torch.zeros(4, 3, dtype=torch.float64)
    start[2], z[3] = 900.0, -100.0  # far away; crosses

    def reason(rows: int | None) -> str | None:
        limits = Limits(radius=10.0, flips=0, rows=rows)
        return drive(asams, elementwise, start, [STEP], lambda j: z, limits).reason

    assert reason(2) is None
    assert "not finite" in (reason(3) or "")
    assert "not finite" in (reason(None) or "")
    start[2] = 0.0
    assert reason(3) is None
    assert "pixels changed sign" in (reason(None) or "")


def test_signs_are_counted_only_where_a_kernel_reports_them() -> None:
    """Each entry at most once, however often it crosses."""
    plain = run(SAMPLERS["adls"], [STEP] * 3)
    assert torch.equal(plain.flipped, torch.zeros(5, dtype=torch.long))
    z = torch.zeros(4, 3, dtype=torch.float64)
    z[1, 0], z[3] = -100.0, -100.0
    drawn = drive(asams, elementwise, torch.zeros_like(z), [STEP] * 2, lambda j: z)
    assert drawn.flipped.tolist() == [0, 1, 0, 3]


@pytest.mark.parametrize("centre", [-0.7, 0.1, 3.3])
def test_the_furthest_value_is_found_on_either_side(centre: float) -> None:
    """From the least and the greatest y: rounding is monotone, so no value between is further."""
    still = STEP._replace(variance=0.0, drift=0.0)
    start = (normal((50, 3), 9) * 2).float()
    furthest = float((start - centre).abs().amax())
    for radius in (furthest, math.nextafter(furthest, 0.0)):
        limits = Limits(centre, radius)
        drawn = drive(adls, elementwise, start, [still], lambda j: start, limits)
        assert (drawn.reason is None) == (radius == furthest)
