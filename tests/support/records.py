"""Results of a synthetic study, realistic in kind and simple enough to work out by hand.

The KID of a trial's three seeds is base - a, base and base + a in some order: the mean is `base`,
the standard deviation a, and the half-width of the 95 % interval 4.303 a/√3 = 2.4843 a.
FID is 10 + 1000 KID throughout, so its half-width is 1000 times KID's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ablate.results import SAMPLES, Cell, Objective, StudyResults, Trial, Value, summarise

HALF = 4.303 / 3**0.5
"""Half-width of the interval over three seeds in units of their standard deviation."""

# number, sampler, init, chi, r, L, n, levels, KID, a; the few-step solver has no annealing knobs
ROWS: list[tuple[Any, ...]] = [
    (0, "adls", "class-average", 0.995, 0.57, 1, 1, 40, 0.031, 0.0004),
    (1, "adls", "class-gaussian", 0.995, 0.66, 1, 1, 40, 0.0185, 0.0003),
    (2, "adls", "lognormal", 0.995, 0.57, 1, 1, 40, 0.142, 0.002),
    (3, "adls-consistent", "class-gaussian", 0.995, 1.0, 1, 1, 40, 0.0122, 0.0004),
    (4, "adls-consistent", "class-average", 0.9995, 1.0, 1, 0, 40, 0.0245, 0.0005),
    (5, "adls-consistent", "class-gaussian", 0.999, 1.0, 2, 1, 40, 0.013, 0.0005),
    (6, "adls", "class-average", 0.9995, 0.75, 3, 1, 40, 0.0272, 0.0003),
    (7, "pf-heun", "class-gaussian", None, None, None, None, 10, 0.0126, 0.0003),
    (8, "asams", "class-average", 0.995, 0.43, 2, 2, 40, 0.0445, 0.0007),
    (9, "pf-heun", "forward-data", None, None, None, None, 10, 0.0094, 0.0003),
    (10, "pf-heun", "lognormal", None, None, None, None, 20, 0.128, 0.0015),
    (11, "asams", "class-gaussian", 0.9995, 0.63, 1, 1, 40, 0.0262, 0.0005),
    (12, "adls-consistent", "lognormal", 0.995, 1.0, 1, 1, 40, 0.119, 0.001),
    (13, "pf-heun", "class-gaussian", None, None, None, None, 20, 0.0119, 0.0004),
    (14, "adls", "forward-data", 0.9995, 0.7, 1, 1, 40, 0.0151, 0.0003),
]

BASELINES = {
    "held-out images": {"kid": 0.0008, "fid": 4.1},
    "class-gaussian, no network": {"kid": 0.21, "fid": 221.0},
}

PROTOCOL: dict[str, Value] = {
    "extractor": "small-classifier",
    "weights": "sha256:4f1c09ab",
    "reference": "fashion held-out",
    "reference_count": 10000,
    "samples": 1000,
    "quantisation": "uint8",
}

TAGS = {
    "commit": "0f3c2a9",
    "python": "3.11.9",
    "torch": "2.6.0",
    "device": "cpu (2 threads)",
    "bundle": "fashion-compact, sha256:91be77d0",
}


def cell(trial: int, seed: int, metrics: dict[str, float]) -> Cell:
    return Cell(f"run-{trial}-{seed}", seed, "complete", metrics)


def trial(number: int, params: dict[str, Value], cells: list[dict[str, float]]) -> Trial:
    """A complete trial of these cells, one per seed."""
    means, halves = summarise([*cells])
    drawn = [cell(number, seed, metrics) for seed, metrics in enumerate(cells)]
    return Trial(f"run-{number}", number, "complete", params, means, halves, None, drawn)


def lost(number: int, state: str, params: dict[str, Value], reason: str | None) -> Trial:
    """A trial in a state other than complete, without cells."""
    return Trial(f"run-{number}", number, state, params, {}, {}, reason, [])


def _params(row: tuple[Any, ...]) -> dict[str, Value]:
    knobs = ("sampler", "init", "chi", "r", "L", "n", "levels")
    named = {k: v for k, v in zip(knobs, row[1:8], strict=True) if v is not None}
    return {**named, "sigma": 0.8}


def _offsets(number: int) -> tuple[int, int, int]:
    """Rotated from trial to trial, so that differences within a seed vary too."""
    return ((-1, 0, 1), (0, 1, -1), (1, -1, 0))[number % 3]


def _cells(row: tuple[Any, ...], seeds: int) -> list[dict[str, float]]:
    sampler, L, n, levels, base, spread = row[1], row[5], row[6], row[7], row[8], row[9]
    nfe = 2.0 * (levels - 2) + 1 if L is None else L * (levels - 1.0) + n
    flips = 2e-4 if sampler == "asams" else 0.0
    kids = [base + spread * offset for offset in _offsets(row[0])] if seeds > 1 else [base]
    return [
        {"kid": kid, "fid": 10 + 1000 * kid, "nfe": nfe, "seconds": 0.1 * nfe + 0.2 * seed}
        | {"flip_rate": flips, "clamp_rate": 0.012 + base / 10}
        for seed, kid in enumerate(kids)
    ]


def study(seeds: int = 3) -> StudyResults:
    """18 trials of 20: 15 complete, one diverged, one failed, one still running."""
    trials = [trial(row[0], _params(row), _cells(row, seeds)) for row in ROWS]
    annealed: dict[str, Value] = {"chi": 0.995, "r": 1.0, "L": 1, "n": 1, "levels": 40}
    printed = {"sampler": "asams-as-printed", "init": "class-average", **annealed, "sigma": 0.8}
    asams = printed | {"sampler": "asams", "chi": 1.0}
    flipped = "3.1 % of the pixels changed sign (at most 0.1 % may) at level 12 of 39"
    trials += [
        lost(15, "diverged", printed, flipped),
        lost(16, "failed", asams | {"L": 3}, "OutOfMemoryError: 2.1 GB wanted, 0.9 GB_free & none"),
        lost(17, "running", asams | {"init": "class-gaussian"}, None),
    ]
    return StudyResults(
        run_id="run-study",
        name="fashion-start",
        budget="laptop",
        question="Which start and which sampler give the best Fashion-MNIST images, and what "
        "does each knob of the annealed samplers buy?",
        hash="b7e2d1c04a9f",
        spec={"name": "fashion-start"},
        objectives=[Objective("kid", "minimize")],
        planned=20,
        protocols={"kid": PROTOCOL | {"subsets": "100 of 500"}, "fid": PROTOCOL},
        baselines=BASELINES,
        tags=TAGS,
        trials=trials,
    )


def empty() -> StudyResults:
    """A study that has only just begun."""
    results = study()
    return results._replace(trials=[t for t in results.trials if t.state != "complete"])


def pictures(folder: Path) -> Callable[[str, str], Path]:
    """A fake artifact store: small PNGs, different for every run."""

    def fetch(run_id: str, name: str) -> Path:
        path = folder / run_id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = (224, 224) if name == SAMPLES else (448, 56)
        path.write_bytes(png(width, height, zlib.crc32(run_id.encode())))
        return path

    return fetch


def no_pictures(run_id: str, name: str) -> Path:
    """An artifact store that holds nothing."""
    raise FileNotFoundError(f"{run_id}/{name}")


def png(width: int, height: int, salt: int) -> bytes:
    """A grey PNG of 28 × 28 tiles, by hand: tests need no imaging library."""
    rows = [
        bytes([0])
        + bytes((x // 28 * 53 + y // 28 * 31 + x % 28 * y % 97 + salt) % 256 for x in range(width))
        for y in range(height)
    ]
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
