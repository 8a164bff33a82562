"""The samples that `ablate evaluate` draws: a few at once, many in shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ablate.core.workspace import Workspace

if TYPE_CHECKING:
    from ablate.experiment.evaluate import ImageSet
    from ablate.experiment.executors.place import Place
    from ablate.experiment.shard_files import ShardFiles
    from ablate.generate.settings import Settings
    from ablate.metrics.extractors.extractor import Extractor


class Work(NamedTuple):
    """What will be measured: all that can be checked before anything is drawn."""

    against: ImageSet
    shape: tuple[int, ...]  # of an image
    number: int  # of images a set
    sets: list[Callable[[], ImageSet]]
    knobs: list[dict[str, Any]]  # of each set
    files: list[ShardFiles]  # of samples that are drawn, to be removed at the end


class Wanted(NamedTuple):
    """What is to be drawn of a bundle."""

    bundle: str
    against: str | None
    samples: int
    seed: int
    knobs: list[str]
    versus: list[str]


def to_draw(workspace: Workspace, wanted: Wanted, network: Extractor, place: Place) -> Work:
    """Samples of a bundle, and of the second configuration, if there is one."""
    from ablate.experiment import evaluate as evaluation
    from ablate.models.bundle import find, read_card

    card = read_card(find(wanted.bundle, workspace))
    chosen = [evaluation.settings_of(card, wanted.knobs)]
    if wanted.versus:
        chosen.append(evaluation.settings_of(card, [*wanted.knobs, *wanted.versus]))
    target = evaluation.image_set(wanted.against or f"{card.dataset}/test")
    files: list[ShardFiles] = []
    sets = [partial(_draw, workspace, wanted, each, network, place, files) for each in chosen]
    classes, seed = card.recipe.net.classes, wanted.seed
    knobs = [{**each.knobs(), "seed": seed, "told": each.told(classes)} for each in chosen]
    return Work(target, card.shape, wanted.samples, list(sets), knobs, files)


def _draw(
    workspace: Workspace,
    wanted: Wanted,
    settings: Settings,
    network: Extractor,
    place: Place,
    files: list[ShardFiles],
) -> ImageSet:
    """Draw samples: a few at once, many in shards, whose files are added to `files`."""
    from ablate.cli.progress import counting_bar, image_bar
    from ablate.experiment import evaluate as evaluation
    from ablate.experiment.shards import SHARD
    from ablate.generate.draw import BATCH

    name, count, title = wanted.bundle, wanted.samples, f"sample {wanted.bundle}"
    if count > SHARD or not place.here:
        with image_bar(title, count) as advance:
            what = name, settings, count, wanted.seed, workspace
            images, own = evaluation.drawn_in_shards(*what, network, place, advance)
            files.append(own)
            return images
    calls = settings.nfe * -(-count // BATCH)
    with counting_bar(title, calls, "calls") as tick:
        step = iter(range(1, calls + 1))
        what = name, settings, count, wanted.seed, workspace
        return evaluation.drawn(*what, place.device, lambda: tick(next(step)))
