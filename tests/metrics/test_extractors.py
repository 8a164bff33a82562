"""Feature extractors: the shipped one, their files and their training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset, Images
from ablate.data.registry import ClassifierRecipe
from ablate.metrics.extractors.extractor import (
    Extractor,
    extract,
    find_extractor,
    load_extractor,
    normalised,
    save_extractor,
    shipped_path,
)
from ablate.metrics.kid import features_to_kid
from ablate.models import bundle as bundles
from ablate.models.bundle import file_hash
from ablate.nets.classifier import Classifier
from ablate.training.classifier import (
    TrainedClassifier,
    accuracy,
    shifted,
    train_classifier,
)
from ablate.training.extractors import make_extractor
from tests.support.beds import generator

SMALL = ClassifierRecipe((8, 16), patch=1, epochs=2, batch=64)


# --- the shipped one ----------------------------------------------------------------------------


def test_shipped_extractor_is_as_accurate_as_it_says(extractor: Extractor, digits: Dataset) -> None:
    assert extractor.card["dataset"] == "digits"
    assert extractor.card["dataset_hash"] == digits.hash()
    assert isinstance(extractor.net, Classifier)
    found = accuracy(extractor.net, digits.heldout)
    assert found >= 0.99
    # float rounding on another machine may tip one image of the 359
    assert found == pytest.approx(extractor.card["accuracy"], abs=1.5 / 359)


def test_shipped_features_are_standardised(extractor: Extractor, digits: Dataset) -> None:
    """Mean 0 and spread 1 over the training images, all 192: float32 sums of 1,438 values."""
    features = extract(extractor, digits.train.pixels).double()
    assert features.shape == (1438, 192)
    assert float(features.mean(0).abs().max()) < 1e-4
    assert float((features.std(0) - 1).abs().max()) < 1e-4


def test_features_do_not_depend_on_the_batch(extractor: Extractor, digits: Dataset) -> None:
    """Other kernels, other rounding: 1e-5 of features of spread 1. Sample i stays sample i."""
    pixels = digits.heldout.pixels[:50]
    together = extract(extractor, pixels)
    one_by_one = torch.cat([extract(extractor, image[None]) for image in pixels])
    torch.testing.assert_close(one_by_one, together, rtol=0, atol=1e-5)
    sevens = extract(extractor._replace(batch=7), pixels)
    torch.testing.assert_close(sevens, together, rtol=0, atol=1e-5)
    order = torch.randperm(50, generator=generator(1))
    torch.testing.assert_close(
        extract(extractor, pixels[order]), together[order], rtol=0, atol=1e-5
    )


def test_features_are_of_the_frozen_network(extractor: Extractor, digits: Dataset) -> None:
    """Batch statistics must not move while measuring."""
    before = {name: value.clone() for name, value in extractor.net.state_dict().items()}
    features = extract(extractor, digits.heldout.pixels[:300])
    assert not features.requires_grad
    assert features.dtype == torch.float32
    assert all(torch.equal(before[name], v) for name, v in extractor.net.state_dict().items())


def test_features_tell_real_images_from_others(extractor: Extractor, digits: Dataset) -> None:
    """Held-out digits are nearer to the training ones than these are upside down, or with rows
    exchanged, by a wide margin: without that KID and FID would measure nothing."""
    reference, pixels = extract(extractor, digits.train.pixels), digits.heldout.pixels

    def distance(images: Tensor) -> float:
        return features_to_kid(extract(extractor, images), reference).value

    assert distance(pixels.flip(2)) > 20 * abs(distance(pixels))
    assert distance(pixels[:, :, [1, 0, 3, 2, 5, 4, 7, 6]]) > 20 * abs(distance(pixels))


def test_shipped_bundle_holds_the_features_of_its_dataset(
    extractor: Extractor, digits: Dataset
) -> None:
    """Every image occurs once, in any order: distances do not depend on it.

    float16 keeps 11 bits, so 2⁻¹¹ of each; features below 6e-5 are subnormal, off by 6e-8. The
    1e-5 is the bound on what another machine's convolutions may change.
    """
    bundle = bundles.read(bundles.find("digits", Workspace(Path())))
    assert bundle.card.dataset_hash == digits.hash()
    assert bundle.card.extractor == extractor.hash
    for split, images in (("train", digits.train), ("heldout", digits.heldout)):
        stored, expected = bundle.features[split], extract(extractor, images.pixels)
        nearest = torch.cdist(stored, expected).argmin(1)
        assert torch.equal(nearest.sort().values, torch.arange(len(expected)))
        torch.testing.assert_close(stored, expected[nearest], rtol=2**-11, atol=1.1e-5)


# --- files --------------------------------------------------------------------------------------


def small() -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = Classifier(1, 4, (4, 8)).eval()
    net.centre += 0.25
    net.spread *= 2
    return net


CARD = {"net": {"channels": 1, "classes": 4, "widths": [4, 8]}, "dataset": "made up"}


def test_an_extractor_comes_back_as_it_was(tmp_path: Path, digits: Dataset) -> None:
    path, net = tmp_path / "made-up-features.safetensors", small()
    save_extractor(path, net, CARD)
    back = load_extractor(path)
    assert (back.name, back.card) == ("made-up-features", CARD)
    assert back.hash == bundles.file_hash(path)
    assert not back.net.training
    for name, value in net.state_dict().items():
        assert torch.equal(back.net.state_dict()[name], value), name
    pixels = digits.heldout.pixels[:20]
    expected = net.features(pixels.float() / 127.5 - 1).detach()
    torch.testing.assert_close(extract(back, pixels), expected, rtol=0, atol=1e-5)


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_extractor(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_a_missing_extractor_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "ablate train-features" in refusal(tmp_path / "none.safetensors")


def test_ones_own_extractor_comes_first_unless_another_is_wanted(
    tmp_path: Path, extractor: Extractor
) -> None:
    ours = shipped_path("digits")
    assert find_extractor("digits", tmp_path).hash == file_hash(ours)
    own = tmp_path / "digits-features.safetensors"
    assert isinstance(extractor.net, Classifier)
    save_extractor(own, extractor.net, extractor.card | {"command": "made up"})
    assert find_extractor("digits", tmp_path).hash == file_hash(own) != file_hash(ours)
    assert find_extractor("digits", tmp_path, file_hash(ours)).hash == file_hash(ours)
    with pytest.raises(UserError, match=r"made by extractor beef; .* is "):
        find_extractor("digits", tmp_path, "beef")
    with pytest.raises(UserError, match="ablate train-features moons"):
        find_extractor("moons", tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.5, 0.999])
def test_a_truncated_extractor_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "cut.safetensors"
    whole = shipped_path("digits").read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert refusal(path)


def test_foreign_files_are_refused(tmp_path: Path, tiny_bundle: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    path.write_text("not a tensor in sight")
    assert refusal(path)
    save_file({"a": torch.zeros(3)}, path)
    assert refusal(path)
    shutil.copy(tiny_bundle, path)  # ablate's own, of the other kind
    assert refusal(path)
    path.unlink()
    path.mkdir()
    assert refusal(path)


@pytest.mark.parametrize(
    "card",
    [
        CARD | {"net": {"channels": 1, "classes": 5, "widths": [4, 8]}},
        CARD | {"net": {"channels": 1, "classes": 4}},
        CARD | {"net": {"depth": 7}},
        {"dataset": "made up"},
        [],
    ],
    ids=["classes", "default widths", "arguments", "no network", "no card"],
)
def test_a_card_that_does_not_fit_its_weights_is_refused(tmp_path: Path, card: object) -> None:
    path = tmp_path / "card.safetensors"
    save_extractor(path, small(), CARD)
    save_file(load_file(path), path, {"ablate": json.dumps(card)})
    assert refusal(path)


# --- training -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(digits: Dataset) -> TrainedClassifier:
    return train_classifier(digits, SMALL)


def test_training_learns_and_standardises(trained: TrainedClassifier, digits: Dataset) -> None:
    """Chance is 10 %, with a standard error of √(0.1 · 0.9/359) = 1.6 %: 17 % would be 4 of them.
    The last of 22 pooled batches is short, so sums differ by rounding only."""
    assert trained.accuracy > 0.17
    assert trained.accuracy == accuracy(trained.net, digits.heldout)
    made = Extractor("made", "", trained.net, {})
    features = extract(made, digits.train.pixels).double()
    alive = trained.net.spread > 1e-4  # a dead channel stays at zero
    assert int(alive.sum()) > 24
    assert float(features.mean(0).abs().max()) < 1e-4
    assert float((features.std(0) - 1)[alive].abs().max()) < 1e-4
    assert float(features.std(0)[~alive].sum()) < 1e-4 * len(alive)


def test_training_is_a_function_of_its_seed(trained: TrainedClassifier, digits: Dataset) -> None:
    """It does not use or change the global generator."""
    before = torch.get_rng_state()
    again = train_classifier(digits, SMALL)
    assert torch.equal(before, torch.get_rng_state())
    pairs = zip(again.net.parameters(), trained.net.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    other = train_classifier(digits, SMALL, seed=1)
    assert not torch.equal(other.net.head.weight, trained.net.head.weight)


def test_made_extractor_can_be_loaded(tmp_path: Path, digits: Dataset) -> None:
    path, seen = tmp_path / "made.safetensors", []
    found = make_extractor("digits", path, 1, lambda epoch, loss: seen.append(epoch))
    made = load_extractor(path)
    assert seen == [1]
    assert isinstance(made.net, Classifier)
    assert made.card["accuracy"] == found == accuracy(made.net, digits.heldout)
    assert made.card["dataset_hash"] == digits.hash()


def test_shifts_move_by_a_pixel_at_most_and_repeat_the_edge() -> None:
    """All nine shifts occur, each the padded image seen through another window."""
    image = torch.arange(12.0).view(1, 1, 3, 4)
    rows, columns = torch.arange(-1, 4).clamp(0, 2), torch.arange(-1, 5).clamp(0, 3)
    padded = image[:, :, rows][:, :, :, columns]
    windows = {
        (top, left): padded[:, :, top : top + 3, left : left + 4]
        for top in range(3)
        for left in range(3)
    }
    seen, source = set(), generator(5)
    for _ in range(200):  # the chance to miss one of nine is 9 (8/9)^200 < 1e-9
        moved = shifted(image, source)
        hits = [place for place, window in windows.items() if torch.equal(window, moved)]
        assert len(hits) == 1
        seen |= set(hits)
    assert len(seen) == 9


def test_pooled_features_are_every_layers_means() -> None:
    """Means of all layers, not only the last: 2 (4 + 8); the head uses the last 8."""
    net = small()
    image = torch.rand(3, 1, 7, 5, generator=generator(6))
    with torch.no_grad():
        pooled = net.pooled(image)
        assert pooled.shape == (3, 24)
        torch.testing.assert_close(net(image), net.head(pooled[:, -8:]))
        torch.testing.assert_close(pooled[:, :4], net.trunk[0](image).mean((2, 3)))
        torch.testing.assert_close(net.features(image), (pooled - net.centre) / net.spread)


def test_accuracy_counts_right_answers(digits: Dataset) -> None:
    """Labels are the network's answers, of which a third is then changed."""
    net = small()
    pixels = digits.heldout.pixels[:300]
    with torch.no_grad():
        answers = net(normalised(pixels)).argmax(1)
    assert accuracy(net, Images(pixels, answers)) == 1
    spoilt = torch.where(torch.arange(300) < 100, (answers + 1) % 4, answers)
    assert accuracy(net, Images(pixels, spoilt)) == pytest.approx(2 / 3)
