"""`ablate evaluate` and `ablate features`: numbers with intervals for any set of images."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mlflow.tracking import MlflowClient
from safetensors.torch import save_file

from ablate.cli import evaluate as commands
from ablate.cli import main
from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.data.datasets import Dataset
from ablate.diffusion.inits import Source
from ablate.experiment.evaluate import (
    ImageSet,
    check,
    evaluate,
    near_training_images,
    reference_of,
    settings_of,
)
from ablate.generate.draw import draw
from ablate.metrics.extractors.extractor import extract, load_extractor, shipped_path
from ablate.metrics.fid import features_to_statistics, statistics_to_fid
from ablate.metrics.kid import features_to_kid
from ablate.metrics.reference import measure
from ablate.metrics.registry import METRICS
from ablate.models.bundle import read, read_card, shipped
from tests.support.commands import ablate


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_numbers_are_those_of_the_features(digits: Dataset) -> None:
    """The plain functions give the same, with an empty cache and with a filled one."""
    small = load_extractor(shipped_path("digits"))
    samples = ImageSet("mine", digits.train.pixels[:200])
    target = ImageSet("digits/test", digits.heldout.pixels, digits, "test")
    for _ in range(2):
        found = evaluate(samples, reference_of(target, small, 200), small, ("fid", "kid"))
        a, b = (extract(small, images.pixels) for images in (samples, target))
        fid = statistics_to_fid(features_to_statistics(a), features_to_statistics(b))
        estimates = found.estimates()
        assert estimates["fid_n200"].value == pytest.approx(fid, rel=1e-6)
        assert estimates["kid_n200"].value == pytest.approx(features_to_kid(a, b).value, rel=1e-6)
        assert found.protocol.reference_count == 359
        assert found.protocol.samples == 200


@pytest.mark.parametrize("mirrored", [False, True])
def test_copies_are_found_and_held_out_images_are_not(
    digits: Dataset, tmp_path: Path, mirrored: bool
) -> None:
    """Mirrored copies are found where training mirrored the dataset, and only there."""
    near = replace(near_training_images(digits, Workspace(tmp_path)), mirrored=mirrored)
    mixed = digits.heldout.pixels[:60].clone()
    copies = digits.train.pixels[[7, 11]]
    mixed[[3, 40]] = copies.flip(3) if mirrored else copies
    found = near.find(mixed)
    assert set(found) == {"feature", "pixel"}
    for space in found.values():
        assert sorted(space.suspects) == [3, 40]
        assert space.samples.indices[[3, 40], 0].tolist() == [7, 11]
    shown, models = near.panel(mixed, found)[:2, :2].unbind(1)
    assert torch.equal(shown.flip(3) if mirrored else shown, models)
    if mirrored:
        blind = replace(near, mirrored=False).find(mixed)
        assert all(space.suspects == [] for space in blind.values())


def test_sizes_that_a_classifier_cannot_take() -> None:
    """MNIST's classifier folds two by two pixels into one."""
    odd = ImageSet("odd", torch.zeros(9, 1, 27, 27, dtype=torch.uint8))
    small = load_extractor(shipped_path("mnist"))
    with pytest.raises(UserError, match="1×27×27 against 1×27×27 do not fit mnist-features"):
        check("odd", (1, 27, 27), 9, odd, small, ("kid",), False)


def test_the_command_knows_every_metric() -> None:
    for name in ("kid", "fid", "fid_infinity", "precision", "recall", "density", "coverage"):
        assert METRICS[name].measure is not None
        assert name in commands.MEASURED
    assert "nfe" not in commands.MEASURED  # not of images


def test_knobs_in_the_place_of_the_few_step_solvers() -> None:
    card = read_card(shipped()["digits"])
    assert settings_of(card, []).sampler == "pf-heun"
    chosen = settings_of(card, ["sampler=adls", "chi=0.99", "grid=uniform", "levels=30", "n=2"])
    assert (chosen.chi, chosen.levels, chosen.n, chosen.s_min) == (0.99, 30, 2, None)
    ve = settings_of(card, ["schedule=ve", "sigma_min=0.1", "sigma_max=1.5"])
    assert ve.sigma is None
    for given, words in {
        "chi=0.9": "has no meaning with sampler 'pf-heun'",
        "chi": "not KNOB=VALUE",
        "moon=1": "no such knob; known: sampler",
        "levels=two": "levels",
        "sampler=magic": "'magic' is unknown",
    }.items():
        with pytest.raises(UserError, match=words):
            settings_of(card, [given])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, digits: Dataset) -> Path:
    folder = tmp_path_factory.mktemp("images")
    save_file({"images": digits.train.pixels[:64]}, folder / "some.safetensors")
    save_file({"images": digits.train.pixels[:3]}, folder / "few.safetensors")
    save_file({"images": torch.zeros(64, 1, 9, 9, dtype=torch.uint8)}, folder / "odd.safetensors")
    colour = digits.train.pixels[:64].expand(-1, 3, -1, -1).contiguous()
    save_file({"images": colour}, folder / "colour.safetensors")
    return folder


def test_a_file_against_a_dataset_as_json_and_in_mlflow(folder: Path, tmp_path: Path) -> None:
    file = str(folder / "some.safetensors")
    common = ("--against", "digits/test", "--extractor", "digits", "--json")
    done = ablate(tmp_path, "evaluate", file, *common, "--samples", "50", "--neighbours")
    shown = json.loads(done.stdout)
    metrics = ("fid", "kid", "precision", "recall", "density", "coverage")
    assert set(shown["metrics"]) == {f"{name}_n50" for name in metrics}
    fid = shown["metrics"]["fid_n50"]
    assert fid["interval"][0] < fid["value"] < fid["interval"][1]
    assert shown["protocol"]["reference"] == "digits/test"
    suspects = shown["neighbours"]["pixel"]["suspects"]
    assert shown["neighbours"]["pixel"]["closer"]["interval"][1] > 0.9
    assert shown["neighbours"]["pixel"]["c_t"] < -3
    assert shown["neighbours"]["pixel"]["authentic"]["value"] == 0
    assert shown["neighbours"]["pixel"]["authentic_heldout"]["value"] > 0.4
    assert shown["neighbours"]["feature"]["searched"] == 1
    assert sorted(suspects) == list(range(50))  # they are training images
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlruns' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("evaluations")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["fid_n50"] == pytest.approx(fid["value"])
    assert run.data.tags["protocol.hash"] == shown["protocol"]["hash"]
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"samples.png", "neighbours.png", "evaluation.json"} <= names
    assert "no study has been run" in ablate(tmp_path, "report", check=False).stderr


def test_two_configurations_of_a_bundle_are_compared_in_pairs(
    tmp_path: Path, digits: Dataset
) -> None:
    """The numbers are those of samples drawn here with the same knobs, and the error of their
    difference is smaller than that of independent sets."""
    knobs = ("--set", "levels=12", "--set", "init=gaussian", "--versus", "levels=13")
    common = ("--extractor", "digits", "--samples", "40", "--json")
    shown = json.loads(ablate(tmp_path, "evaluate", "digits", *common, *knobs).stdout)
    small, bundle = load_extractor(shipped_path("digits")), read(shipped()["digits"])
    target = ImageSet("digits/test", digits.heldout.pixels, digits, "test")
    reference = reference_of(target, small, 40)
    for levels, side in ((12, shown), (13, shown["versus"])):
        settings = settings_of(bundle.card, [f"levels={levels}", "init=gaussian"])
        assert side["knobs"]["levels"] == levels
        pixels = draw(bundle.score_model, Source(bundle.moments), settings, 0, 40).pixels
        expected = measure(extract(small, pixels), reference, ("fid",))["fid"].value
        assert side["metrics"]["fid_n40"]["value"] == pytest.approx(expected, rel=1e-3)
    fid = [side["metrics"]["fid_n40"] for side in (shown, shown["versus"])]
    between = shown["versus"]["difference"]["fid_n40"]
    assert between["value"] == pytest.approx(fid[0]["value"] - fid[1]["value"], abs=1e-9)
    assert between["error"] < 0.5 * (fid[0]["error"] ** 2 + fid[1]["error"] ** 2) ** 0.5


def test_numbers_are_not_lost_with_the_record(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mlruns").write_text("not a folder")
    file = str(folder / "some.safetensors")
    common = ("--against", "digits/test", "--extractor", "digits", "--json")
    done = ablate(tmp_path, "evaluate", file, *common, check=False)
    assert done.returncode == 2
    assert "measured, but not recorded in MLflow" in done.stderr.splitlines()[-1]
    assert "fid_n64" in json.loads(done.stdout)["metrics"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["some.safetensors"], "--against: say what to measure against"),
        (["some.safetensors", "--against", "digits/moon"], "digits/moon: no such folder or file"),
        (["none.png", "--against", "digits/test"], "none.png: no such folder or file"),
        (["few.safetensors", "--against", "digits"], "precision needs at least 6 samples"),
        (
            ["few.safetensors", "--against", "digits", "--metric", "fid_infinity"],
            "fid_infinity needs at least 768 samples, there are 3",
        ),
        (["few.safetensors", "--against", "digits", "--samples", "9"], "has 3 images"),
        (["colour.safetensors", "--against", "digits"], "colour.safetensors: images of 3×8×8"),
        (["some.safetensors", "--against", "digits", "--set", "chi=1"], "is not a bundle"),
        (["some.safetensors", "--against", "digits", "--versus", "chi=1"], "is not a bundle"),
        (["digits", "--against", "odd.safetensors"], "digits: images of 1×8×8 against 1×9×9"),
        (
            ["some.safetensors", "--against", "digits", "--metric", "is"],
            "metric 'is' is not one to measure images by; known: kid",
        ),
        (["digits", "--set", "sigma=9"], "ask for"),
        (
            ["some.safetensors", "--against", "some.safetensors", "--neighbours"],
            "is not a dataset with training images",
        ),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    words: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [str(folder / a) if a.endswith(".safetensors") else a for a in arguments]
    line = ["ablate", "--root", str(tmp_path), "evaluate", *files, "--extractor", "digits"]
    monkeypatch.setattr(sys, "argv", line)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_features_are_computed_exported_and_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "digits-test.safetensors")
    ablate(tmp_path, "features", "compute", "digits/test", "--extractor", "digits", "--out", out)
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "elsewhere"))
    done = ablate(tmp_path, "features", "import", out)
    assert "359 images of digits/test" in done.stdout
    (place,) = (tmp_path / "elsewhere").iterdir()
    assert place.name == next((tmp_path / "cache").iterdir()).name
    wrong = ablate(tmp_path, "features", "compute", "moon", "--extractor", "digits", check=False)
    assert "moon: no such folder or file" in wrong.stderr
