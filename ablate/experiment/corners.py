"""Checks of every corner of a study's space against the networks, before any work starts."""

from __future__ import annotations

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.diffusion.inits import Source
from ablate.experiment.networks import Training, card_of
from ablate.generate.guidance import check_guidance, load_guides
from ablate.generate.source import check_noise_range, check_starts
from ablate.models.bundle import Bundle
from ablate.models.recipe import Recipe
from ablate.study.definition import Study
from ablate.training.options import check_fits
from ablate.training.variants import is_whole


def check_corners(
    study: Study, bundle: Bundle, training: Training | None, source: Source, workspace: Workspace
) -> dict[str, Bundle]:
    """Raise an error if a configuration cannot be trained, has noise levels that its network is not
    trained for, or a start or a guide that it cannot have; returns the guides."""
    _check_whole(study)
    places = list(study.corners())
    corners = [study.settings(params) for params in places]
    check_starts(corners, source)
    guides = load_guides(corners, workspace)
    fitting: set[str] = set()  # networks that were checked
    for params, settings in zip(places, corners, strict=True):
        try:
            card = card_of(training, bundle.card, settings)
            if training and (net := _network(card.recipe)) not in fitting:
                check_fits(card.recipe, training.dataset)
                fitting.add(net)
            check_noise_range(settings, card)
        except UserError as error:
            knobs = ", ".join(f"{k} = {v}" for k, v in params.items())
            raise UserError(f"{error} [{knobs}]" if knobs else str(error)) from None
        check_guidance(settings, bundle._replace(card=card), guides)
    return guides


def _check_whole(study: Study) -> None:
    """Raise an error if whole numbers of a recipe are searched in a range of others: its ends may
    be whole, and what lies between is not."""
    for knob, domain in study.search.items():
        if is_whole(knob) and domain.choices is None and not domain.whole:
            raise UserError(f"search.{knob}: low and high must be whole numbers")


def _network(recipe: Recipe) -> str:
    """All that decides whether a network fits images."""
    return f"{recipe.objective} {recipe.net.model_dump_json()}"
