"""What the paper "Dale meets Langevin" (arXiv 2510.02730) prints, as data for reports.

Values of its Tables 1 to 4. `reports/notes/paper.md` has its misprints with what is done here.
"""

from __future__ import annotations

from typing import NamedTuple

PROTOCOL = (
    "50,000 samples against 10,000 test images, FID and KID by another Inception, KID with the"
    " spread over its subsets"
)


class Row(NamedTuple):
    """A row of Table 1."""

    sampler: str
    init: str
    n: int
    fid: float
    kid: float
    kid_sd: float


class Tuned(NamedTuple):
    """A setting of Tables 3 and 4."""

    sampler: str
    init: str
    L: int
    delta: float
    chi: float

    @property
    def r(self) -> float:
        """The relative step, L delta N with N = 1,000."""
        return self.L * self.delta * 1000


AVERAGE, LOGNORMAL = "class-average", "lognormal-paper"

TABLE_1: dict[str, list[Row]] = {
    "mnist": [
        Row("adls", AVERAGE, 0, 11.4858, 0.0663, 0.0021),
        Row("adls", LOGNORMAL, 0, 30.0030, 0.0385, 0.0016),
        Row("asams", AVERAGE, 0, 11.3855, 0.0859, 0.0022),
        Row("asams", LOGNORMAL, 0, 14.6595, 0.0489, 0.0020),
    ],
    "kmnist": [
        Row("adls", AVERAGE, 0, 16.3796, 0.0176, 0.0010),
        Row("adls", LOGNORMAL, 0, 27.5636, 0.0106, 0.0008),
        Row("asams", AVERAGE, 0, 26.8998, 0.0186, 0.0009),
        Row("asams", LOGNORMAL, 0, 21.6120, 0.0689, 0.0019),
    ],
    "fashion": [
        Row("adls", AVERAGE, 0, 21.2460, 0.0233, 0.0007),
        Row("adls", LOGNORMAL, 0, 90.7468, 0.0654, 0.0020),
        Row("asams", AVERAGE, 0, 21.4585, 0.0364, 0.0010),
        Row("asams", LOGNORMAL, 0, 103.2147, 0.1091, 0.0021),
    ],
    "cifar10": [
        Row("adls", AVERAGE, 0, 88.3223, 0.1575, 0.0140),
        Row("adls", AVERAGE, 25, 38.5620, 0.0437, 0.0071),
        Row("adls", LOGNORMAL, 0, 86.3112, 0.1585, 0.0034),
        Row("adls", LOGNORMAL, 25, 46.1921, 0.0520, 0.0022),
        Row("asams", AVERAGE, 0, 87.9819, 0.1629, 0.0132),
        Row("asams", AVERAGE, 16, 45.0849, 0.0700, 0.0094),
        Row("asams", LOGNORMAL, 0, 100.7164, 0.1812, 0.0148),
        Row("asams", LOGNORMAL, 25, 51.6470, 0.0645, 0.0086),
    ],
}

TABLE_2: dict[str, list[tuple[float, float]]] = {
    "mnist": [(0.1565, 0.8353)],
    "kmnist": [(0.2140, 0.8290)],
    "fashion": [(0.2771, 0.8428)],
    "cifar10": [(0.4075, 0.8016), (0.3785, 0.8004), (0.3693, 0.8005)],
}
"""Mean and standard deviation of the fitted terminal log-normal, for each channel."""

FROM_DATA = {"mnist": (0.095, 0.109), "fashion": (0.217, 0.230)}
"""The mean that the data give, and the one that the class averages give, where they were fitted."""

TABLES_3_AND_4: dict[str, list[Tuned]] = {
    "mnist": [
        Tuned("adls", AVERAGE, 1, 6.06e-4, 0.995),
        Tuned("adls", LOGNORMAL, 1, 6.06e-4, 0.995),
        Tuned("asams", AVERAGE, 4, 1.43e-4, 0.995),
        Tuned("asams", LOGNORMAL, 4, 1.43e-4, 0.995),
    ],
    "kmnist": [
        Tuned("adls", AVERAGE, 3, 2.11e-4, 0.995),
        Tuned("adls", LOGNORMAL, 3, 2.11e-4, 0.995),
        Tuned("asams", AVERAGE, 2, 3.30e-4, 0.995),
        Tuned("asams", LOGNORMAL, 3, 2.11e-4, 1.0),
    ],
    "fashion": [
        Tuned("adls", AVERAGE, 1, 5.86e-4, 0.995),
        Tuned("adls", LOGNORMAL, 1, 5.86e-4, 0.995),
        Tuned("asams", AVERAGE, 3, 2.50e-4, 0.9995),
        Tuned("asams", LOGNORMAL, 3, 1.43e-4, 0.9995),
    ],
    "cifar10": [
        Tuned("adls", AVERAGE, 6, 1.14e-4, 0.9995),
        Tuned("adls", LOGNORMAL, 6, 1.14e-4, 0.9995),
        Tuned("asams", AVERAGE, 5, 1.43e-4, 0.9995),
        Tuned("asams", LOGNORMAL, 5, 1.43e-4, 0.9995),
    ],
}
