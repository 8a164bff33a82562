"""Compiled training is the same training; without a compiler it goes on uncompiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ablate.data.datasets import Dataset
from ablate.models.recipe import Recipe
from ablate.nets.config import Net
from ablate.training.compiling import can_compile
from ablate.training.loop import train
from ablate.training.options import Options

STEPS = 4


@pytest.mark.long
def test_compiled_training_is_the_same(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """float32 sums in another order, some 20 roundings of 6e-8 in each of 10 layers: 1e-5 of a
    loss. The optimiser magnifies differences of a gradient by up to 500 (Muon), of which a loss
    sees a step of the rate's size, 3e-3: another 1e-5 a step.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    if not can_compile():
        pytest.skip("no C++ compiler")
    sizes = {"batch": 32, "warmup": 1, "rate": 3e-3, "rank": 64, "class_rank": 4}
    recipe = Recipe(dataset="digits", steps=STEPS, net=Net(widths=(8,), blocks=1), **sizes)
    compiled = []

    def counted(function: object) -> object:
        compiled.append(function)
        return real(function)  # type: ignore[call-overload]

    real = torch.compile
    monkeypatch.setattr(torch, "compile", counted)
    losses: dict[bool, list[float]] = {False: [], True: []}
    for compile_it, seen in losses.items():
        train(
            recipe,
            digits,
            tmp_path / f"{compile_it}.pt",
            progress=lambda step, loss, seen=seen: seen.append(loss),  # type: ignore[misc]
            options=Options(compile=compile_it),
        )
        assert len(compiled) == compile_it
    assert losses[True] == pytest.approx(losses[False], rel=1e-5 * (1 + STEPS))


def test_without_a_compiler_it_says_so_in_one_line(tmp_path: Path) -> None:
    """In a new process with an empty cache: a compiled function needs no compiler again."""
    ask = "from ablate.training.compiling import can_compile; print(can_compile())"
    missing = {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ask],
        cwd=Path(__file__).parents[2],
        env=os.environ | missing,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "False\n"
    assert done.stderr.startswith("--compile: not possible here (")
    assert done.stderr.endswith("); training without\n")
    assert done.stderr.count("\n") == 1


def test_any_failure_of_the_compiler_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(function: object) -> object:
        raise RuntimeError("no headers\nand more")

    monkeypatch.setattr(torch, "compile", fails)
    assert not can_compile()
    expected = "--compile: not possible here (no headers); training without\n"
    assert capsys.readouterr() == ("", expected)
