"""Features of a dataset's split, computed piece by piece wherever there is room."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ablate.data.datasets import Dataset
from ablate.data.tensor_cache import cached_tensors
from ablate.experiment.executors.executor import Executor
from ablate.experiment.portable import on_device
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.metrics.feature_cache import missing_pieces


@dataclass(frozen=True)
class SharedExtractor:
    """What the jobs share."""

    extractor: Extractor

    def on(self, device: str) -> Extractor:
        return on_device(self.extractor, device)


@dataclass(frozen=True)
class ExtractJob:
    """The features of one piece."""

    images: Tensor  # uint8, [n, C, H, W]

    def __call__(self, extractor: Extractor) -> Tensor:
        return extract(extractor, self.images)


def fill_cache(
    dataset: Dataset,
    split: str,
    extractor: Extractor,
    folder: Path,
    executor: Executor,
    progress: Callable[[int], None] = lambda images: None,
) -> None:
    """Compute the pieces that the cache lacks; each is written as soon as it is there."""
    running: dict[Path, Future[Tensor]] = {}

    def take() -> None:
        wait(running.values(), return_when=FIRST_COMPLETED)
        for file in [file for file, future in running.items() if future.done()]:
            computed = {"features": running.pop(file).result()}
            cached_tensors(file, computed.copy)
            progress(len(computed["features"]))

    for file, images in missing_pieces(dataset, split, extractor, folder).items():
        running[file] = executor.submit(ExtractJob(images.clone()))  # a view would send the split
        while len(running) > 2 * executor.slots:
            take()
    while running:
        take()
