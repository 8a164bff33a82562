"""The torchmetrics classes: the same bits as our functions, however images arrive."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from ablate.data.datasets import Dataset
from ablate.metrics.copies import find_copies, make_control
from ablate.metrics.extractors.extractor import Extractor, extract, load_extractor, shipped_path
from ablate.metrics.reference import Reference, make_reference, measure
from ablate.metrics.torchmetrics_modules import FID, KID, NearestTrainingImages, PrecisionRecall

EXPECTED = {
    FID: {"fid"},
    KID: {"kid"},
    PrecisionRecall: {"precision", "recall", "density", "coverage"},
}


@pytest.fixture(scope="module")
def reference(extractor: Extractor, digits: Dataset) -> Reference:
    features = extract(extractor, digits.heldout.pixels)
    return make_reference(features, extractor, "digits/test", digits.hash(), 600)


@pytest.fixture(scope="module")
def samples(digits: Dataset) -> Tensor:
    """600 training images moved by a pixel: more than two of the extractor's batches."""
    return digits.train.pixels[:600].roll(1, 3)


@pytest.mark.parametrize("kind", EXPECTED)
@pytest.mark.parametrize("size", [600, 256, 64, 37])
def test_same_bits_for_any_batches(
    kind: type[FID], size: int, samples: Tensor, reference: Reference, extractor: Extractor
) -> None:
    metric = kind(reference, extractor)
    for part in samples.split(size):
        metric.update(part)
    ours = measure(extract(extractor, samples), reference)
    found = metric.compute()
    assert set(found) == EXPECTED[kind]
    assert {name: float(value) for name, value in found.items()} == {
        name: ours[name].value for name in found
    }


def test_features_may_be_given(samples: Tensor, reference: Reference, extractor: Extractor) -> None:
    features = extract(extractor, samples)
    metric = KID(reference)
    for part in features.split(100):
        metric.update(part)
    assert float(metric.compute()["kid"]) == measure(features, reference, ["kid"])["kid"].value


def test_neighbours_are_ours(samples: Tensor, extractor: Extractor, digits: Dataset) -> None:
    train, heldout = (extract(extractor, part.pixels) for part in (digits.train, digits.heldout))
    metric = NearestTrainingImages(train, heldout, extractor)
    for part in samples.split(50):
        metric.update(part)
    copies = find_copies(extract(extractor, samples), train, make_control(train, heldout))
    assert {k: float(v) for k, v in metric.compute().items()} == copies.values("feature")


def test_reset_forgets(samples: Tensor, reference: Reference, extractor: Extractor) -> None:
    metric: Metric = KID(reference, extractor)
    metric.update(samples[:300].roll(3, 2))
    metric.reset()
    metric.update(samples)
    ours = measure(extract(extractor, samples), reference, ["kid"])["kid"].value
    assert float(metric.compute()["kid"]) == ours


def _gather(rank: int, folder: str) -> None:
    """One of two processes: each adds half of the samples, in whole batches of the extractor."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    samples, heldout = torch.load(Path(folder, "images.pt"))
    small = load_extractor(shipped_path("digits"))
    features = extract(small, heldout)
    metric = KID(make_reference(features, small, "digits/test", "", len(samples)), small)
    metric.update(samples.split(512)[rank])
    value = float(metric.compute()["kid"])
    Path(folder, f"{rank}.txt").write_text(value.hex())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_two_processes_are_one(tmp_path: Path, extractor: Extractor, digits: Dataset) -> None:
    pixels = digits.train.pixels[:1024].roll(1, 3)
    torch.save([pixels, digits.heldout.pixels], tmp_path / "images.pt")
    team = get_context("spawn").Pool(2)
    with team:
        team.starmap(_gather, [(rank, str(tmp_path)) for rank in (0, 1)])
    features = extract(extractor, digits.heldout.pixels)
    reference = make_reference(features, extractor, "digits/test", digits.hash(), 1024)
    ours = measure(extract(extractor, pixels), reference, ["kid"])["kid"].value
    found = {float.fromhex((tmp_path / f"{rank}.txt").read_text()) for rank in (0, 1)}
    assert found == {ours}
