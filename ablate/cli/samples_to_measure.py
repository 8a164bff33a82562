"""The samples that `ablate evaluate` measures: read from files, or drawn, a few at once and many in
shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ablate.core.errors import UserError
from ablate.core.unknown_names import nearest
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
    """What is to be measured, as the command's arguments say."""

    source: str  # a bundle, a folder or a file
    against: str | None
    samples: int | None
    seed: int
    knobs: list[str]
    versus: list[str]

    @property
    def drawn(self) -> int:
        """The number of samples of a bundle."""
        return self.samples or DRAWN


DRAWN = 1000
"""Samples of a bundle, unless another number is asked for."""


def work_of(workspace: Workspace, wanted: Wanted, network: Extractor, place: Place) -> Work:
    """What is measured: samples of a bundle, or images in files."""
    from ablate.models.bundle import available_bundles

    named, source = available_bundles(workspace), wanted.source
    if source in named:
        return to_draw(workspace, wanted, network, place)
    if not Path(source).exists() and (close := nearest(source, named)):
        raise UserError(
            f"{source}: no such folder or file, nor a bundle; did you mean {close[0]!r}?"
        )
    if not place.here:
        raise UserError(f"--{'ray' if place.cluster else 'workers'}: {source} is not a bundle")
    return to_read(wanted)


def to_read(wanted: Wanted) -> Work:
    """Images of a folder or a file, or the first of them."""
    from ablate.experiment.evaluate import image_set

    source, against, count = wanted.source, wanted.against, wanted.samples
    if knobs := [*wanted.knobs, *wanted.versus]:
        raise UserError(f"{knobs[0]}: {source} is not a bundle, there is nothing to set")
    if against is None:
        raise UserError("--against: say what to measure against, for example cifar10/test")
    mine, target = image_set(source), image_set(against)
    if count is not None and count > len(mine.pixels):
        raise UserError(f"--samples {count}: {mine.name} has {len(mine.pixels)} images")
    if count is not None and count < len(mine.pixels):
        mine = mine._replace(pixels=mine.pixels[:count], dataset=None)
    return Work(target, tuple(mine.pixels.shape[1:]), len(mine.pixels), [lambda: mine], [{}], [])


def to_draw(workspace: Workspace, wanted: Wanted, network: Extractor, place: Place) -> Work:
    """Samples of a bundle, and of the second configuration, if there is one."""
    from ablate.experiment import evaluate as evaluation
    from ablate.models.bundle import find, read_card

    card = read_card(find(wanted.source, workspace))
    chosen = [evaluation.settings_of(card, wanted.knobs)]
    if wanted.versus:
        chosen.append(evaluation.settings_of(card, [*wanted.knobs, *wanted.versus]))
    target = evaluation.image_set(wanted.against or f"{card.dataset}/test")
    files: list[ShardFiles] = []
    sets = [partial(_draw, workspace, wanted, each, network, place, files) for each in chosen]
    classes, seed = card.recipe.net.classes, wanted.seed
    knobs = [{**each.knobs(), "seed": seed, "told": each.told(classes)} for each in chosen]
    return Work(target, card.shape, wanted.drawn, list(sets), knobs, files)


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

    name, count, title = wanted.source, wanted.drawn, f"sample {wanted.source}"
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
