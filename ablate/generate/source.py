"""What samples start from, and whether a network knows the noise levels that they ask for."""

from __future__ import annotations

from collections.abc import Iterable

from ablate.core.errors import UserError
from ablate.data import datasets
from ablate.data.registry import DATASETS
from ablate.diffusion.inits import INITS, Source
from ablate.generate.settings import Settings
from ablate.models.bundle import Bundle, Card


def make_source(bundle: Bundle, inits: Iterable[str]) -> Source:
    """All that these initialisations draw from; an error says what is missing."""
    dataset, wanted, images = bundle.card.dataset, [INITS[name] for name in inits], None
    fit = DATASETS[dataset].paper_fit if dataset in DATASETS else None
    if fit is None and (missing := [init.name for init in wanted if init.needs_paper_fit]):
        known = ", ".join(name for name, source in DATASETS.items() if source.paper_fit)
        raise UserError(
            f"init {missing[0]!r}: the paper has no fit for {dataset}, only for {known}"
        )
    if any(init.leaks_data for init in wanted):
        pixels = datasets.load(dataset).train.pixels
        images = datasets.to_unit_interval_plus_one(pixels).flatten(1).log()
    return Source(bundle.moments, fit, images)


def check_noise_range(settings: Settings, card: Card) -> None:
    """Refuse noise levels that the bundle's network was not trained for."""
    high, low = settings.noise_range()
    if high > card.s_max * (1 + 1e-9) or low < card.s_min * (1 - 1e-9):
        raise UserError(
            f"bundle {card.name}: trained for noise levels {card.s_min} to {card.s_max},"
            f" the settings ask for {low:.4g} to {high:.4g}"
        )
