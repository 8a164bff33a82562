"""The laws that samplers discretise, by which exponential integrators take long steps.

Write v = s², D = D(y; s). With small steps every sampler follows, as v falls,

    dy = pull (D - y)/v |dv| + bias |dv| + √noise dW_|v|

Importing this module imports no torch: rates are computed from floats or tensors alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Rates(NamedTuple):
    """The coefficients of a law at each level."""

    pull: Any
    noise: Any  # variance per variance removed
    bias: Any


Law = Callable[["Tensor", "Tensor"], Rates]
"""(kappa, relative step r) -> rates."""


def adls(kappa: Tensor, r: Tensor) -> Rates:
    """ADLS as printed: drift and noise are both scaled by r."""
    return Rates(r, kappa**2 * r, 0 * r)


def asams(kappa: Tensor, r: Tensor) -> Rates:
    """ASAMS as printed: log(1 + u) = u - u²/2 + … with u² -> kappa² r dv leaves a bias.

    In the limit of small steps this bias is all that distinguishes it from ADLS.
    """
    return Rates(r, kappa**2 * r, r * (1 - kappa**2) / 2)


def consistent(kappa: Tensor, r: Tensor) -> Rates:
    """The kappa-consistent samplers, which have no r: every kappa has the forward marginals."""
    return Rates((1 + kappa**2) / 2, kappa**2, 0 * kappa)
