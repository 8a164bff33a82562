"""The Python door: cheap to import, five lines for a notebook, objects that show themselves."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

import ablate
from ablate.core.errors import UserError
from ablate.door.samples import Images
from ablate.metrics.extractors.extractor import extract, find_extractor
from ablate.metrics.reference import make_reference, measure
from tests.support.studies import make_root

LOADED = """
import json, sys
import ablate
dir(ablate)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""


@pytest.fixture(scope="module")
def images() -> Images:
    return ablate.sample("digits", levels=6, samples=40, seed=3)


def test_importing_is_cheap() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = {"torch", "numpy", "mlflow", "optuna", "pandas", "pydantic", "matplotlib", "typer"}
    assert not heavy & set(json.loads(done.stdout))


def test_all_is_there_and_nothing_else_is_promised() -> None:
    assert set(ablate.__all__) == {
        "evaluate",
        "load_bundle",
        "load_results",
        "run_study",
        "sample",
    }
    assert all(callable(getattr(ablate, name)) for name in ablate.__all__)
    assert all(getattr(ablate, name).__doc__ for name in ablate.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ablate.nothing  # noqa: B018


@pytest.mark.parametrize(
    "module",
    ["ablate", "ablate.door.bundles", "ablate.door.samples", "ablate.door.measurements"],
)
def test_examples_run(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_images_say_what_they_are(images: Images) -> None:
    assert repr(images) == (
        "40 images of 1×8×8: digits, pf-heun, class-gaussian, 9 evaluations, seed 3"
    )
    assert images.numpy().shape == (40, 8, 8, 1)
    assert torch.equal(images[:5].pixels, images.pixels[:5])
    assert "data:image/png;base64," in images._repr_html_()
    assert images.grid(8).size == (8 * (32 + 2) + 2, 5 * (32 + 2) + 2)  # 8 pixels enlarged to 32
    with pytest.raises(TypeError, match="take a slice"):
        images[0]  # type: ignore[index]


def test_samples_are_those_of_the_seed(images: Images) -> None:
    """Sample i depends on (seed, i) alone; another number of samples changes none of them."""
    again = ablate.sample(ablate.load_bundle("digits"), levels=6, samples=7, seed=3)
    assert torch.equal(again.pixels, images.pixels[:7])
    other = ablate.sample("digits", levels=6, samples=7, seed=4)
    assert not torch.equal(other.pixels, again.pixels)


def test_knobs_are_those_of_a_study() -> None:
    found = ablate.sample(
        "digits", sampler="adls", init="class-average", chi=0.995, r=0.6, levels=5, samples=2
    )
    assert found.nfe == 4
    assert found.knobs["chi"] == 0.995
    assert found.knobs["grid"] == "geometric"
    for wrong, words in (
        ({"sampler": "nope"}, "sampler 'nope' is unknown"),
        ({"chi": 0.9}, "chi = 0.9 has no meaning with sampler 'pf-heun'"),
        ({"beauty": 1}, "sampler 'pf-heun' has no such knob"),
        ({"sigma": 99}, "trained for noise levels"),
    ):
        with pytest.raises(UserError, match=words):
            ablate.sample("digits", samples=2, **wrong)


def test_measurements_are_those_of_a_study(images: Images) -> None:
    """The same function on the same features: the same bits."""
    found = ablate.evaluate(images, against="digits/test")
    bundle = images.bundle.bundle
    small = find_extractor("digits", Path("nowhere"))
    reference = make_reference(bundle.features["heldout"], small, "digits/test", "", 40)
    ours = measure(extract(small, images.pixels), reference)
    assert {name: each.estimate for name, each in ours.items()} == found.estimates
    assert found.protocol.reference_count == len(bundle.features["heldout"])
    assert list(found.table().columns) == ["value", "error", "low", "high"]
    assert found.protocol.hash in repr(found)
    assert "<table" in found._repr_html_()
    as_tensor = ablate.evaluate(images.pixels, against="digits/test", metrics=["kid"])
    assert as_tensor.estimates == {"kid": found["kid"]}


def test_what_cannot_be_measured_is_one_line(images: Images) -> None:
    with pytest.raises(UserError, match="not DATASET/test or DATASET/train"):
        ablate.evaluate(images, against="digits")
    with pytest.raises(UserError, match="1×8×8, but fashion has images of 1×28×28"):
        ablate.evaluate(images, against="fashion/test")
    with pytest.raises(UserError, match="metric 'beauty' is not one to measure images by"):
        ablate.evaluate(images, against="digits/test", metrics=["beauty"])


def test_a_study_runs_and_is_found_again(tiny_bundle: Path, tmp_path: Path) -> None:
    root = make_root(tmp_path / "root", tiny_bundle, trials=2)
    study = ablate.run_study("tiny", root=root, progress=False)
    table = study.table()
    assert list(table.index) == [0, 1]
    assert set(table["state"]) == {"complete"}
    assert {"init", "r", "kid", "kid.interval"} <= set(table.columns)
    assert study.best is not None
    assert study.best.metrics["kid"] == table["kid"].min()
    again = ablate.load_results("tiny", root=root)
    assert again.results == study.results
    assert repr(again).startswith("study tiny (quick): 2 of 2 trials complete, best kid")
    assert "<table" in again._repr_html_()
    assert study.report() == root / "reports" / "tiny" / "index.html"
    with pytest.raises(UserError, match="'other' has not been run"):
        ablate.load_results("other", root=root)
