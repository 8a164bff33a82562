"""The cache of features: computed once, safe among processes, intact after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.data.datasets import Dataset
from ablate.metrics import coverage, fid
from ablate.metrics import feature_cache as cache
from ablate.metrics.coverage import reference_radii
from ablate.metrics.extractors.extractor import Extractor, extract
from ablate.metrics.feature_cache import (
    address_of,
    cached_features,
    export_features,
    import_features,
)
from ablate.metrics.fid import reference_statistics
from ablate.metrics.protocol import Protocol
from ablate.metrics.reference import Reference, measure


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PIECE", 500)


def counting(extractor: Extractor) -> tuple[Extractor, list[int]]:
    """The extractor, and a list of the number of images of each call."""
    calls: list[int] = []

    def prepare(pixels: torch.Tensor) -> torch.Tensor:
        calls.append(len(pixels))
        return extractor.prepare(pixels)

    return extractor._replace(prepare=prepare, batch=10_000), calls


def test_computed_once_and_the_same_ever_after(
    digits: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    watched, calls = counting(extractor)
    reported: list[int] = []
    first = cached_features(digits, "train", watched, tmp_path, reported.append)
    assert calls == [500, 500, 438]
    assert reported == [500, 500, 438]
    torch.testing.assert_close(first, extract(extractor, digits.train.pixels), rtol=0, atol=1e-5)
    again = cached_features(digits, "train", watched, tmp_path, reported.append)
    assert torch.equal(first, again)
    assert sum(reported) == 2 * 1438
    assert len(calls) == 3


def test_what_decides_the_features_decides_the_place(
    digits: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    other = digits._replace(train=digits.train._replace(pixels=digits.train.pixels.flip(3)))
    keys = {
        address_of(digits, "train", extractor).key,
        address_of(digits, "test", extractor).key,
        address_of(other, "train", extractor).key,
        address_of(digits, "train", extractor._replace(hash="beef")).key,
        address_of(digits, "train", extractor._replace(resize="clean")).key,
    }
    assert len(keys) == 5


def test_statistics_are_computed_once_for_all_processes(
    digits: Dataset,
    extractor: Extractor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second reference reads the statistics of the first: the same bits, nothing computed."""
    features = cached_features(digits, "test", extractor, tmp_path)
    folder = tmp_path / address_of(digits, "test", extractor).key
    protocol = Protocol("digits", "0", "none", True, "digits/test", "0", len(features), 100)
    first, samples = Reference(features, protocol, folder), features[:100] + 0.1
    found = {name: each.estimate for name, each in measure(samples, first).items()}
    for module, name in ((fid, "features_to_statistics"), (coverage, "radii")):
        monkeypatch.setattr(module, name, _never)
    assert torch.equal(
        reference_radii(Reference(features, protocol, folder)), reference_radii(first)
    )
    statistics = reference_statistics(Reference(features, protocol, folder))
    assert torch.equal(statistics.covariance, reference_statistics(first).covariance)
    monkeypatch.undo()
    again = measure(samples, Reference(features, protocol, folder))
    assert {name: each.estimate for name, each in again.items()} == found
    alone = measure(samples, Reference(features, protocol))
    assert {name: each.estimate for name, each in alone.items()} == found


def _never(*arguments: object) -> None:
    raise AssertionError("computed again")


def test_an_import_drops_statistics_of_what_was_there(
    digits: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    features = cached_features(digits, "test", extractor, tmp_path)
    address = address_of(digits, "test", extractor)
    protocol = Protocol("digits", "0", "none", True, "digits/test", "0", len(features), 100)
    before = reference_statistics(Reference(features, protocol, tmp_path / address.key))
    export_features(2 * features, address, tmp_path / "other.safetensors")
    import_features(tmp_path / "other.safetensors", tmp_path)
    doubled = cached_features(digits, "test", extractor, tmp_path)
    after = reference_statistics(Reference(doubled, protocol, tmp_path / address.key))
    torch.testing.assert_close(after.mean, 2 * before.mean)


def test_a_broken_piece_is_made_again(
    digits: Dataset, extractor: Extractor, tmp_path: Path
) -> None:
    watched, calls = counting(extractor)
    first = cached_features(digits, "test", watched, tmp_path)
    (piece,) = tmp_path.rglob("*.safetensors")
    piece.write_bytes(piece.read_bytes()[:-7])
    assert torch.equal(cached_features(digits, "test", watched, tmp_path), first)
    assert calls == [359, 359]
    assert torch.equal(cached_features(digits, "test", watched, tmp_path), first)
    assert calls == [359, 359]


WORKER = """
import os
import sys
from pathlib import Path

import torch

from ablate.data import tensor_cache
from ablate.data.datasets import Dataset, Images
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.metrics import feature_cache as cache

torch.set_num_threads(1)
cache.PIECE = 200
folder, images, fatal = Path(sys.argv[1]), Images(*torch.load(sys.argv[2])), sys.argv[3]
extractor = load_extractor(shipped_path("digits"))


def prepare(pixels):
    print(len(pixels), flush=True)
    return extractor.prepare(pixels)


def die(tensors, path):
    Path(path).write_bytes(b"half")
    os.kill(os.getpid(), 9)


if fatal == "die":
    tensor_cache.save_file = die
watched = extractor._replace(prepare=prepare, batch=10_000)
found = cache.cached_features(Dataset("digits", images, images, ""), "train", watched, folder)
print("sum", float(found.double().sum()))
"""


def worker(folder: Path, images: Path, fatal: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(folder), str(images), fatal]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def test_processes_share_the_work_and_a_kill_spoils_nothing(
    digits: Dataset, tmp_path: Path
) -> None:
    images = tmp_path / "images.pt"  # quicker to load than scikit-learn
    torch.save(list(digits.train), images)
    killed = worker(tmp_path, images, "die")
    assert killed.wait() == -signal.SIGKILL
    together = [worker(tmp_path, images) for _ in range(2)]
    lines = [process.communicate()[0].split("\n") for process in together]
    assert [process.returncode for process in together] == [0, 0]
    computed = [line for out in lines for line in out if line.isdigit()]
    assert sorted(computed) == ["200"] * 7 + ["38"]  # each piece once, by one of them
    sums = {line for out in lines for line in out if line.startswith("sum")}
    assert len(sums) == 1


def test_a_file_for_another_machine(digits: Dataset, extractor: Extractor, tmp_path: Path) -> None:
    watched, calls = counting(extractor)
    features = cached_features(digits, "train", watched, tmp_path / "here")
    address = address_of(digits, "train", extractor)
    export_features(features, address, tmp_path / "file.safetensors")
    assert import_features(tmp_path / "file.safetensors", tmp_path / "there") == address
    assert torch.equal(cached_features(digits, "train", watched, tmp_path / "there"), features)
    assert len(calls) == 3  # all of them here


def test_a_foreign_file_is_refused(digits: Dataset, extractor: Extractor, tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    for content in (b"", b"no tensors"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="cannot be read"):
            import_features(path, tmp_path)
    export_features(torch.zeros(3, 2), address_of(digits, "train", extractor), path)
    with pytest.raises(UserError, match="3 rows, but its address says 1438"):
        import_features(path, tmp_path)


@pytest.mark.parametrize(
    ("changes", "features"),
    [
        ({"dataset": "/tmp/elsewhere"}, torch.zeros(2, 3)),
        ({"dataset": ".."}, torch.zeros(2, 3)),
        ({"extractor": "a/b"}, torch.zeros(2, 3)),
        ({"split": "moon"}, torch.zeros(2, 3)),
        ({}, torch.full((2, 3), float("nan"))),
        ({}, torch.zeros(2, 3, dtype=torch.int64)),
        ({}, torch.zeros(2)),
    ],
)
def test_a_file_cannot_say_where_it_goes_or_hold_what_is_no_table(
    digits: Dataset,
    extractor: Extractor,
    tmp_path: Path,
    changes: dict[str, str],
    features: torch.Tensor,
) -> None:
    address = address_of(digits, "train", extractor)._replace(images=2, **changes)
    export_features(features, address, tmp_path / "file.safetensors")
    with pytest.raises(UserError, match=r"its address is not valid|not a table"):
        import_features(tmp_path / "file.safetensors", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
