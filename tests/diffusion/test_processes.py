"""Forward processes against quadrature and against their own random draws."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest

from ablate.diffusion.processes import (
    GBM,
    VEGBM,
    Drift,
    Process,
    discrete_sums,
    drift,
    forward,
    level,
    shift,
)
from tests.support.beds import P_FOUR, normal


def wave(t: torch.Tensor) -> torch.Tensor:
    return 0.3 + 0.5 * torch.sin(t)


DRIFTS: dict[str, Drift] = {"default": None, "constant": 0.5, "callable": wave}
PROCESSES = {
    f"{kind}-{name}": process
    for name, mu in DRIFTS.items()
    for kind, process in (("gbm", GBM(0.8, mu)), ("vegbm", VEGBM(0.1, 1.2, mu)))
}
every_process = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())


def at(t: float) -> torch.Tensor:
    return torch.tensor(t, dtype=torch.float64)


def integral(process: Process, t: float, what: str) -> float:
    """∫_0^t of mu or of sigma², from the process's pointwise functions only."""
    rate = {
        "mu": lambda u: float(drift(process, at(u))),
        "variance": lambda u: float(process.volatility(at(u))) ** 2,
    }[what]
    return float(quad(rate, 0, t, epsabs=1e-13, epsrel=1e-13)[0])


@every_process
@pytest.mark.parametrize("t", [0.1, 0.5, 1.0])
def test_level_and_shift_are_the_integrals(process: Process, t: float) -> None:
    variance = integral(process, t, "variance")
    assert float(level(process, at(t))) == pytest.approx(math.sqrt(variance), rel=1e-11)
    expected = integral(process, t, "mu") - variance / 2
    assert float(shift(process, at(t))) == pytest.approx(expected, abs=1e-11)


@every_process
@pytest.mark.parametrize("t", [0.25, 1.0])
def test_forward_marginal(process: Process, t: float) -> None:
    """log x_t is normal with the integrated mean and variance; E x_t = x_0 exp(∫mu)."""
    count, x0 = 20_000, 1.5
    x = forward(process, torch.full((count,), x0, dtype=torch.float64), at(t), normal((count,), 1))
    y = torch.log(x / x0)
    s = math.sqrt(integral(process, t, "variance"))
    m = integral(process, t, "mu") - s**2 / 2
    # standard errors: s/√n of a mean, s² √(2/(n - 1)) of a normal sample's variance
    assert abs(float(y.mean()) - m) < 4 * s / math.sqrt(count)
    assert abs(float(y.var()) / s**2 - 1) < 4 * math.sqrt(2 / (count - 1))
    assert kstest(((y - m) / s).numpy(), "norm").pvalue > P_FOUR
    mean = x0 * math.exp(integral(process, t, "mu"))
    assert abs(float(x.mean()) - mean) < 4 * float(x.std()) / math.sqrt(count)


@every_process
def test_forward_broadcasts_times(process: Process) -> None:
    x0, z, t = normal((4, 3), 2).exp(), normal((4, 3), 3), torch.linspace(0, 1, 4).double()
    together = forward(process, x0, t[:, None], z)
    apart = torch.stack([forward(process, x0[i], t[i], z[i]) for i in range(4)])
    torch.testing.assert_close(together, apart, rtol=1e-14, atol=0)
    torch.testing.assert_close(together[0], x0[0], rtol=0, atol=0)  # t = 0 does nothing


@every_process
def test_time_undoes_level(process: Process) -> None:
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    torch.testing.assert_close(process.time(level(process, t)), t, rtol=1e-13, atol=1e-15)


def test_ve_end_points() -> None:
    """The paper's printed sigma_max r^t would give sigma_max and sigma_max²/sigma_min."""
    process = VEGBM(0.1, 1.2)
    ends = process.volatility(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist()
    assert ends == pytest.approx([0.1, 1.2], rel=1e-14)


def test_default_drift_has_no_shift() -> None:
    t = torch.linspace(0, 1, 11, dtype=torch.float64)
    for process in (GBM(0.8), VEGBM(0.1, 1.2)):
        assert torch.equal(shift(process, t), torch.zeros_like(t))
        torch.testing.assert_close(drift(process, t), process.volatility(t) ** 2 / 2)


@every_process
def test_discrete_sums_are_the_loop(process: Process) -> None:
    """Up to rounding, which differs by processor where sums are computed in vectors: a sum
    of N terms errs by N - 1 half units of its terms' sizes at most, as does the loop's.
    """
    N = 37
    t = torch.arange(N, dtype=torch.float64) / N
    mu, sigma = drift(process, t), process.volatility(t)
    a, b = [0.0], [0.0]
    for j in range(N):  # X_{j+1} from X_j: one more summand, indexed j
        a.append(a[-1] + float(mu[j] - sigma[j] ** 2 / 2))
        b.append(b[-1] + float(sigma[j] ** 2))
    A, B = discrete_sums(process, N)
    rounding = N * sys.float_info.epsilon
    sizes = float((mu - sigma**2 / 2).abs().sum())
    assert A.tolist() == pytest.approx(a, rel=0, abs=rounding * sizes)
    assert B.tolist() == pytest.approx([math.sqrt(total) for total in b], rel=rounding)
    assert A[0] == B[0] == 0
    assert len(A) == len(B) == N + 1


@pytest.mark.parametrize("process", [GBM(0.8, wave), VEGBM(0.1, 1.2, wave)], ids=["gbm", "vegbm"])
def test_discrete_sums_tend_to_the_integrals(process: Process) -> None:
    """A left Riemann sum of f errs by (h/2)[f] - (h²/12)[f'] + …: first order.

    So the slope between h and h/2 is 1 - (h/(12 ln 2)) [f']/[f] + …, where [f] = f(1) - f(0).
    |[f']/[f]| is at most 13 (mu - sigma²/2 of VE-GBM), so with h = 1/256 it is 1 within 0.006.
    """

    def errors(N: int) -> tuple[float, float]:
        A, B = discrete_sums(process, N)
        m, s = float(shift(process, at(1.0))), float(level(process, at(1.0)))
        return abs(float(A[-1]) / N - m), abs(float(B[-1]) / math.sqrt(N) - s)

    (a, b), (a_half, b_half) = errors(256), errors(512)
    assert math.log2(a / a_half) == pytest.approx(1, abs=0.01)
    if isinstance(process, GBM):  # a constant is summed exactly, but for rounding
        assert max(b, b_half) < 1e-12
    else:
        assert math.log2(b / b_half) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("sigma", [0.0, -0.1, math.nan])
def test_gbm_refuses_sigma(sigma: float) -> None:
    with pytest.raises(ValueError, match=f"sigma must be positive, not {sigma}"):
        GBM(sigma)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.1, 1.0), (1.0, 0.5), (0.5, 0.5), (0.1, math.nan)])
def test_vegbm_refuses_ends(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="0 < sigma_min < sigma_max must hold"):
        VEGBM(*ends)
