"""Bundles: what goes in comes out, to float16; what is no bundle is refused in one line."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset, Images, to_unit_interval_plus_one
from ablate.diffusion.moments import Gaussian, Moments, fit_moments
from ablate.metrics.extractors.extractor import Extractor, extract, load_extractor, shipped_path
from ablate.models import bundle as bundles
from ablate.models.bundle import Card, build_model
from ablate.models.recipe import Recipe
from ablate.nets.classifier import Classifier
from ablate.nets.config import Net
from ablate.nets.precondition import Model, Preconditioned
from ablate.training.pack import MOST_BYTES, MOST_IMAGES, _order, split_features
from tests.support.beds import generator, normal

HALF = 2.0**-11
"""Relative rounding of float16."""


def perturbed(model: Model) -> Model:
    """Weights of the size that trained ones have, from a generator of their own."""
    source = generator(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=source))
    return model.eval()


class Parts:
    """The parts of a bundle, for a given rank of its moments."""

    def __init__(self, digits: Dataset, rank: int, class_rank: int) -> None:
        x = to_unit_interval_plus_one(digits.train.pixels)
        net = Net(widths=(8, 12), blocks=1, dropout=0.1)
        recipe = Recipe(dataset="digits", steps=7, rank=rank, class_rank=class_rank, net=net)
        self.moments = fit_moments(x, digits.train.labels, rank, class_rank)
        self.model = perturbed(build_model((1, 8, 8), recipe, self.moments))
        self.features = {
            "train": normal((40, 5), 2).float(),
            "heldout": 30 * normal((20, 5), 3).float(),
        }
        self.card = Card(
            format=bundles.FORMAT,
            name="parts",
            dataset="digits",
            dataset_hash=digits.hash(),
            shape=(1, 8, 8),
            s_min=0.002,
            s_max=3.0,
            recipe=recipe,
            extractor="0123456789abcdef",
            licence="none, for tests: © ½",
            note="made up",
            provenance={"heldout_error": {"0.05": 0.1 + 0.2}, "seen": 12},
        )

    def write(self, path: Path) -> Path:
        bundles.write(path, self.card, self.model, self.moments, self.features)
        return path


@pytest.fixture(scope="module", params=[(64, 16), (20, 6), (0, 0)], ids="rank {0[0]}".format)
def parts(request: pytest.FixtureRequest, digits: Dataset) -> Parts:
    return Parts(digits, *request.param)


def covariance(gaussian: Gaussian) -> Tensor:
    basis, d = gaussian.basis.double(), gaussian.mean.numel()
    kept = basis.T @ torch.diag(gaussian.variances.double()) @ basis
    return kept + gaussian.tail.double() * (torch.eye(d, dtype=torch.float64) - basis.T @ basis)


def check_classes(read: Moments, expected: Moments) -> None:
    """Mean, variances and tail are float32. Directions are rotations in float16 of the shared
    ones: each coefficient is off by 2⁻¹¹ of itself (or by 3e-8, if subnormal), so a row of length
    1 by 2⁻¹¹, and a covariance of largest variance v by 2 · 2⁻¹¹ v √rank in any entry. Where the
    R shared ones are rounded too, that adds their whole error, √R times 2⁻¹¹ at most."""
    assert len(read.classes) == len(expected.classes)
    shared = expected.everything
    off = HALF * (1 + len(shared.basis) ** 0.5 if shared.tail > 0 else 1)
    for got, true in zip(read.classes, expected.classes, strict=True):
        for field in ("mean", "variances", "tail"):
            assert torch.equal(getattr(got, field), getattr(true, field).float()), field
        assert got.basis.shape == true.basis.shape
        if not len(true.basis):
            continue
        rows = (got.basis.double() - true.basis).norm(dim=1)
        assert float(rows.max()) < off + 1e-5
        bound = 2 * off * float(true.variances.max()) * len(true.basis) ** 0.5
        assert float((covariance(got) - covariance(true)).abs().max()) < bound


# --- there and back -----------------------------------------------------------------------------


def test_card_comes_back_equal(parts: Parts, tmp_path: Path) -> None:
    path = parts.write(tmp_path / "a.safetensors")
    back = bundles.read_card(path)
    assert back.content is not None
    assert len(back.content) == 64  # of the tensors, known when they are written
    assert back == parts.card.model_copy(update={"content": back.content})
    assert bundles.read(path).card == back


def test_weights_come_back_as_float16_keeps_them(parts: Parts, tmp_path: Path) -> None:
    back = bundles.read(parts.write(tmp_path / "a.safetensors")).model
    assert not back.training
    written = parts.model.net.state_dict()
    assert written.keys() == back.net.state_dict().keys()
    for name, value in back.net.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, written[name].half().float()), name


def test_denoiser_comes_back_close(parts: Parts, tmp_path: Path) -> None:
    """Each of some ten layers is off by 2⁻¹¹ of its output at most, so the network by 1 % of its
    own, and far less in the mean; the linear part is float32 both times where it has no tail, and
    else each direction's gain is off by 2⁻¹¹ twice, against a correction of order one."""
    back = bundles.read(parts.write(tmp_path / "a.safetensors")).model
    y, s = normal((20, 1, 8, 8), 4).float(), torch.logspace(-2.5, 0.4, 20)
    assert isinstance(parts.model, Preconditioned)
    with torch.no_grad():
        before, after = parts.model(y, s), back(y, s)
        linear = parts.model.gaussian.wiener(y.flatten(1), s[:, None]).view_as(y)
    assert float((after - before).abs().max()) < 0.01 * float((before - linear).abs().max())


def test_moments_come_back(parts: Parts, tmp_path: Path) -> None:
    back = bundles.read(parts.write(tmp_path / "a.safetensors")).moments
    true = parts.moments.everything
    rounded = true._replace(basis=true.basis.half()) if true.tail > 0 else true
    for got, kept in zip(back.everything, rounded, strict=True):
        assert torch.equal(got, kept.float())
    assert torch.equal(back.class_averages, parts.moments.class_averages.float())
    assert back.channels == 1
    check_classes(back, parts.moments)


def test_features_come_back(parts: Parts, tmp_path: Path) -> None:
    back = bundles.read(parts.write(tmp_path / "a.safetensors")).features
    assert back.keys() == parts.features.keys()
    for split, value in back.items():
        assert torch.equal(value, parts.features[split].half().float())


def test_colour_bundle_keeps_its_channels(tmp_path: Path) -> None:
    x = 1 + torch.rand(30, 3, 6, 6, generator=generator(5))
    recipe = Recipe(dataset="cifar10", steps=1, rank=9, class_rank=3, net=Net(widths=(8,), patch=2))
    moments = fit_moments(x, torch.arange(30) % 2, 9, 3)
    model = perturbed(build_model((3, 6, 6), recipe, moments))
    fields = {"name": "c", "dataset": "cifar10", "dataset_hash": "", "extractor": "", "licence": ""}
    card = Card(
        format=1, shape=(3, 6, 6), s_min=0.1, s_max=1, recipe=recipe, provenance={}, **fields
    )
    bundles.write(tmp_path / "c.safetensors", card, model, moments, {})
    back = bundles.read(tmp_path / "c.safetensors")
    assert back.moments.channels == 3
    assert back.features == {}
    check_classes(back.moments, moments)
    assert back.model(torch.zeros(2, 3, 6, 6), torch.ones(2)).shape == (2, 3, 6, 6)


def test_writing_what_was_read_changes_nothing_but_rounding(parts: Parts, tmp_path: Path) -> None:
    """float16 of float16 is itself; only the rotations are multiplied out and back again, by
    shared directions that are orthonormal to 2⁻¹⁰ √R where they are rounded."""
    first = parts.write(tmp_path / "a.safetensors")
    back = bundles.read(first)
    second = tmp_path / "b.safetensors"
    bundles.write(second, back.card, back.model, back.moments, back.features)
    one, two = load_file(first), load_file(second)
    assert one.keys() == two.keys()
    for name in one:
        if name != "classes.basis":
            assert torch.equal(one[name], two[name]), name
    shared = parts.moments.everything
    off = 2 * HALF * len(shared.basis) ** 0.5 if shared.tail > 0 else 1e-5
    torch.testing.assert_close(
        one["classes.basis"].float(), two["classes.basis"].float(), rtol=2 * HALF, atol=off
    )


def test_hash_is_of_the_content(parts: Parts, tmp_path: Path) -> None:
    first, second = parts.write(tmp_path / "a.safetensors"), parts.write(tmp_path / "b.safetensors")
    assert first.read_bytes() == second.read_bytes()
    before = bundles.read(first).hash
    assert bundles.read(second).hash == bundles.file_hash(second) == before
    card = parts.card.model_copy(update={"note": "made up, too"})
    bundles.write(second, card, parts.model, parts.moments, parts.features)
    assert bundles.read(second).hash != before
    features = parts.features | {"train": parts.features["train"] + 0.01}
    bundles.write(second, parts.card, parts.model, parts.moments, features)
    assert bundles.read(second).hash != before


# --- the bundles that are there -----------------------------------------------------------------


def test_made_bundle_has_everything(
    tiny_bundle: Path, tiny_recipe: Recipe, digits: Dataset
) -> None:
    bundle = bundles.read(tiny_bundle)
    extractor = load_extractor(shipped_path("digits"))
    assert bundle.card.name == "tiny"
    assert bundle.card.recipe == tiny_recipe
    assert bundle.card.dataset_hash == digits.hash()
    assert bundle.card.extractor == extractor.hash
    assert bundle.card.provenance["images_seen"] == 15 * 32
    x = to_unit_interval_plus_one(digits.train.pixels)
    check_classes(bundle.moments, fit_moments(x, digits.train.labels, 64, 16))
    for split, images in (("train", digits.train), ("heldout", digits.heldout)):
        chosen = images.pixels[_order(len(images.pixels))]
        assert torch.equal(bundle.features[split], extract(extractor, chosen).half().float())


def test_features_are_of_a_sample_without_repetition() -> None:
    order = _order(3 * MOST_IMAGES)
    assert sorted(order.tolist()) == list(range(3 * MOST_IMAGES))
    assert torch.equal(order, _order(3 * MOST_IMAGES))
    assert int(order[:MOST_IMAGES].max()) > 2 * MOST_IMAGES  # not the first ones


@pytest.mark.parametrize(("widths", "count"), [((48, 96), 5000), ((48, 96, 192), 2000)])
def test_features_of_a_split_are_bounded_in_number_and_in_bytes(
    widths: tuple[int, ...], count: int
) -> None:
    """2 Σ widths features in float16: 288 let 5,000 images in, 672 only 2,142, so 2,000."""
    net = Classifier(1, 10, widths).eval()
    grey = Images(torch.zeros(6000, 1, 4, 4, dtype=torch.uint8), torch.zeros(6000).long())
    dataset = Dataset("grey", grey, grey._replace(pixels=grey.pixels[:100]), "none")
    features = split_features(Extractor("grey", "0", net, {}), dataset)
    assert features["train"].shape == (count, 2 * sum(widths))
    assert features["train"].half().numpy().nbytes <= MOST_BYTES
    assert len(features["heldout"]) == 100
    few = split_features(Extractor("grey", "0", net, {}), dataset, 50)
    assert torch.equal(few["train"], features["train"][:50])
    assert len(few["heldout"]) == 50


def test_shipped_digits_hold_the_moments_of_their_dataset(digits: Dataset) -> None:
    """Read by this version's reader: a file of an older layout with the same shapes would pass
    every other check and start the samplers from the wrong Gaussians.

    Eigenvectors may differ in sign from machine to machine, so covariances are compared; the
    bound is that of `check_classes`.
    """
    bundle = bundles.read(bundles.find("digits", Workspace(Path())))
    assert bundle.card.dataset_hash == digits.hash()
    recipe, x = bundle.card.recipe, to_unit_interval_plus_one(digits.train.pixels)
    moments = fit_moments(x, digits.train.labels, recipe.rank, recipe.class_rank)
    gaussians = [bundle.moments.everything, *bundle.moments.classes]
    for got, true in zip(gaussians, [moments.everything, *moments.classes], strict=True):
        torch.testing.assert_close(got.mean.double(), true.mean, rtol=0, atol=1e-6)
        bound = 2 * HALF * float(true.variances.max()) * len(true.basis) ** 0.5
        assert float((covariance(got) - covariance(true)).abs().max()) < bound


def test_shipped_bundles_are_small_and_known_by_their_own_names() -> None:
    """So are the files beside them, which bundles of one dataset share."""
    shipped = bundles.shipped()
    assert "digits" in shipped
    for name, path in shipped.items():
        assert path.stat().st_size <= (24e6 if name.endswith("-large") else 12e6)
        assert bundles.read_card(path).name == name
    beside = set(bundles.ZOO.glob("*.safetensors")) - set(shipped.values())
    assert {path.stem.rpartition("-")[2] for path in beside} == {"features", "images"}
    assert all(path.stat().st_size <= 12e6 for path in beside)


# --- refusals -----------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    """Reading the card or all of it: one line that names the file."""
    texts = []
    for reader in (bundles.read_card, bundles.read):
        with pytest.raises(UserError) as caught:
            reader(path)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert str(path) in texts[0]
    assert "\n" not in texts[0]
    return texts[0]


@pytest.mark.parametrize("keep", [0, 4, 8, 200, -100_000, -1])
def test_truncated_bundle_is_refused(tiny_bundle: Path, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(tiny_bundle.read_bytes()[:keep])
    assert refusal(path)


def test_missing_bundle_and_folder_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    assert refusal(tmp_path / "folder.safetensors")


def test_foreign_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, path)
    assert "not one of ablate's" in refusal(path)
    save_file({"weight": torch.zeros(3)}, path, {"format": "pt"})
    assert "not one of ablate's" in refusal(path)
    shutil.copy(shipped_path("digits"), path)  # ablate's own, of the other kind
    assert refusal(path)


def with_card(source: Path, path: Path, text: str) -> Path:
    save_file(load_file(source), path, {"ablate": text})
    return path


def card_of(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        card: dict[str, Any] = json.loads(file.metadata()["ablate"])
    return card


@pytest.mark.parametrize("number", [0, 99, "1", None])
def test_other_formats_are_refused(tiny_bundle: Path, tmp_path: Path, number: object) -> None:
    card = card_of(tiny_bundle) | {"format": number}
    text = refusal(with_card(tiny_bundle, tmp_path / "f.safetensors", json.dumps(card)))
    assert f"format {number}" in text
    assert str(bundles.FORMAT) in text


@pytest.mark.parametrize("change", ["unknown key", "missing key", "not JSON", "not an object"])
def test_bad_cards_are_refused(tiny_bundle: Path, tmp_path: Path, change: str) -> None:
    card = card_of(tiny_bundle)
    texts = {
        "unknown key": json.dumps(card | {"colour": "blue"}),
        "missing key": json.dumps({k: v for k, v in card.items() if k != "recipe"}),
        "not JSON": "{",
        "not an object": "[1]",
    }
    assert refusal(with_card(tiny_bundle, tmp_path / "c.safetensors", texts[change]))


@pytest.mark.parametrize(
    "name", ["net.out.weight", "everything.mean", "classes.basis", "class_averages"]
)
def test_bundle_without_one_of_its_tensors_is_refused(
    tiny_bundle: Path, tmp_path: Path, name: str
) -> None:
    tensors = load_file(tiny_bundle)
    del tensors[name]
    path = tmp_path / "less.safetensors"
    card = {**card_of(tiny_bundle), "content": None}  # as it was before there were hashes of it
    save_file(tensors, path, {"ablate": json.dumps(card)})
    with pytest.raises(UserError, match="tensors do not fit its card") as caught:
        bundles.read(path)
    assert "\n" not in str(caught.value)


def test_bundle_of_another_network_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    card = card_of(tiny_bundle)
    card["recipe"]["net"]["widths"] = [8, 16]
    path = with_card(tiny_bundle, tmp_path / "other.safetensors", json.dumps(card))
    with pytest.raises(UserError, match="tensors do not fit its card") as caught:
        bundles.read(path)
    assert "\n" not in str(caught.value)


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_renamed_pickle_is_refused_and_not_opened(tmp_path: Path) -> None:
    path, mark = tmp_path / "pickle.safetensors", tmp_path / "mark"
    for content in (pickle.dumps(Trap(mark)), None):
        if content is None:
            torch.save({"net": Trap(mark)}, path)
        else:
            path.write_bytes(content)
        refusal(path)
        assert not mark.exists()
    torch.load(path.rename(tmp_path / "pickle.pt"), weights_only=False)
    assert mark.exists()  # the trap works


# --- finding ------------------------------------------------------------------------------------


@pytest.fixture
def zoo(tmp_path: Path, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in ("small", "large", "small-features"):
        shutil.copy(tiny_bundle, folder / f"{name}.safetensors")
    monkeypatch.setattr(bundles, "ZOO", folder)
    return folder


def test_find_by_name_and_by_path(zoo: Path, tmp_path: Path) -> None:
    assert bundles.find("small", Workspace(tmp_path)) == zoo / "small.safetensors"
    mine = tmp_path / "mine" / "own.safetensors"
    mine.parent.mkdir()
    shutil.copy(zoo / "small.safetensors", mine)
    assert bundles.find("mine/own.safetensors", Workspace(tmp_path)) == mine
    assert bundles.find(str(mine), Workspace(Path("/nowhere"))) == mine


def test_a_bundle_trained_under_the_root_comes_before_the_shipped_one(
    zoo: Path, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    own = workspace.bundles / "small.safetensors"
    own.parent.mkdir(parents=True)
    shutil.copy(zoo / "large.safetensors", own)
    assert bundles.find("small", workspace) == own
    assert bundles.available_bundles(workspace) == {
        "large": zoo / "large.safetensors",
        "small": own,
    }


@pytest.mark.parametrize("name", ["smal", "small-features", "none.safetensors", "zoo", ""])
def test_unknown_bundle_is_refused_with_the_known_ones(
    zoo: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UserError) as caught:
        bundles.find(name, Workspace(tmp_path))
    assert f"{name!r} is neither known (large, small) nor" in str(caught.value)


def test_empty_zoo_says_so(zoo: Path, tmp_path: Path) -> None:
    shutil.rmtree(zoo)
    with pytest.raises(UserError, match=r"known \(none\)"):
        bundles.find("moon", Workspace(tmp_path))


def test_a_bundle_that_can_be_trained_says_how(tmp_path: Path) -> None:
    """As the full budgets of the studies name them: the paper's networks do not ship."""
    with pytest.raises(UserError) as caught:
        bundles.find("paper-fashion", Workspace(tmp_path))
    assert "`ablate train paper-fashion`" in str(caught.value)
    assert "`ablate bundle import WEIGHTS --recipe paper-fashion" in str(caught.value)
