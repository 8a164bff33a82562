"""The denoiser that a sampler is given: the network's, guided and scaled as the knobs say.

Guidance acts on D and so on every sampler alike: D_guide + w (D - D_guide), the weight w above 1
going away from the guide. Both networks' evaluations count. The samples do not come from the
density that the weights seem to suggest, p^w / p_guide^(w-1), at any level below the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.generate.settings import Settings
from ablate.generate.source import check_noise_range
from ablate.models import bundle as bundles
from ablate.models.bundle import Bundle
from ablate.models.score_model import ScoreModel
from ablate.nets.precondition import Model
from ablate.samplers.kernel import Denoiser


def load_guides(every: Iterable[Settings], workspace: Workspace) -> dict[str, Bundle]:
    """The bundles that guide in any of these settings, by name."""
    names = dict.fromkeys(each.guide_bundle for each in every if each.guided)
    return {name: bundles.read(bundles.find(name, workspace)) for name in names if name}


def check_guidance(settings: Settings, bundle: Bundle, guides: dict[str, Bundle]) -> None:
    """Raise an error if the settings ask for labels or a guide that the bundle cannot have."""
    card = bundle.card
    if settings.unlabelled and not card.recipe.net.classes:
        return  # it never has labels
    if not settings.guided:
        return
    name = settings.guide_bundle
    if name is None:
        if not card.recipe.net.classes or settings.unlabelled:
            lacks = "is sampled without labels" if settings.unlabelled else "knows no classes"
            raise UserError(
                f"guidance = {settings.guidance:g}: bundle {card.name} {lacks}, so that it cannot"
                " be its own guide; give guide = 'bundle:NAME'"
            )
        return
    guide = guides[name].card
    if (guide.dataset, guide.shape) != (card.dataset, card.shape):
        raise UserError(f"guide = bundle:{name}: of {guide.dataset}, not of {card.dataset}")
    check_noise_range(settings, guide)


def make_denoiser(
    score: ScoreModel,
    settings: Settings,
    labels: Tensor | None,
    progress: Callable[[], None] = lambda: None,
) -> Denoiser:
    """D(y; s) for a batch whose samples are given these labels, [B]."""

    def of(model: Model, told: Tensor | None) -> Denoiser:
        def denoiser(y: Tensor, s: float) -> Tensor:
            progress()
            out: Tensor = model(y, torch.full((len(y),), s, device=y.device), told)
            return out

        return denoiser

    denoiser = of(score.model, labels)
    if settings.guided:
        if (name := settings.guide_bundle) is None:
            guide = of(score.model, None)
        else:
            other = score.guides[name]
            guide = of(other.model, labels if other.classes else None)
        denoiser = guided(denoiser, guide, settings)
    return denoiser if settings.score_scale in (None, 1) else scaled(denoiser, settings.score_scale)


def guided(denoiser: Denoiser, guide: Denoiser, settings: Settings) -> Denoiser:
    """D_guide + w (D - D_guide) where the guide acts, D elsewhere."""
    weight = settings.guidance
    assert weight is not None

    def combined(y: Tensor, s: float) -> Tensor:
        if not settings.guided_at(s):
            return denoiser(y, s)
        return torch.lerp(guide(y, s), denoiser(y, s), weight)

    return combined


def scaled(denoiser: Denoiser, scale: float | None) -> Denoiser:
    """y + scale (D - y): log_score times `scale`; epsilon scaling (Ning et al. 2024) by 1/scale."""
    assert scale is not None
    return lambda y, s: torch.lerp(y, denoiser(y, s), scale)


def evaluations(settings: Settings) -> Callable[[float], int]:
    """Network evaluations of one call of the denoiser at level s."""
    return lambda s: 2 if settings.guided_at(s) else 1
