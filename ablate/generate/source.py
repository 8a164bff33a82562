"""What samples start from, and whether a network knows the noise levels that they ask for."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ablate.core.errors import UserError
from ablate.data.registry import DATASETS
from ablate.diffusion.inits import INITS, Source
from ablate.generate.mixtures import Mixtures, in_log_space, training_images
from ablate.generate.settings import Settings
from ablate.models.bundle import Bundle, Card


def make_source(bundle: Bundle, inits: Iterable[str]) -> Source:
    """All that these initialisations draw from; an error says what is missing."""
    dataset, wanted = bundle.card.dataset, [INITS[name] for name in inits]
    fit = DATASETS[dataset].paper_fit if dataset in DATASETS else None
    if fit is None and (missing := [init.name for init in wanted if init.needs_paper_fit]):
        known = ", ".join(name for name, source in DATASETS.items() if source.paper_fit)
        raise UserError(
            f"init {missing[0]!r}: the paper has no fit for {dataset}, only for {known}"
        )
    source = Source(bundle.moments, fit)
    if any(init.leaks_data for init in wanted):
        train = training_images(bundle.card)
        source = source._replace(images=in_log_space(train.pixels), labels=train.labels)
    if any(init.needs_mixture for init in wanted):
        source = source._replace(mixture=Mixtures(bundle))
    return source


def check_starts(every: Iterable[Settings], source: Source) -> None:
    """Refuse own knobs of initialisations that do not fit the data, by drawing a sample of each."""
    u, z = torch.zeros(1), torch.zeros(1, source.moments.everything.mean.numel())
    chosen = {(each.init, str(each.start_knobs)): each for each in every if each.start_knobs}
    for settings in chosen.values():
        try:
            INITS[settings.init].draw(source, 1.0, u, z, **settings.start_knobs)
        except ValueError as error:
            raise UserError(f"init {settings.init!r}: {error}") from None


def check_noise_range(settings: Settings, card: Card) -> None:
    """Refuse noise levels that the bundle's network was not trained for."""
    high, low = settings.noise_range()
    if high > card.s_max * (1 + 1e-9) or low < card.s_min * (1 - 1e-9):
        raise UserError(
            f"bundle {card.name}: trained for noise levels {card.s_min} to {card.s_max},"
            f" the settings ask for {low:.4g} to {high:.4g}"
        )
