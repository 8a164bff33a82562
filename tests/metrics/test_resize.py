"""Resizes against Pillow, torch and TensorFlow 1's formula: up, down and at odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from ablate.metrics.extractors.resize import RESIZES, matrix, resized
from tests.support.beds import generator

SIZES = [(28, 28), (32, 32), (8, 8), (31, 45), (299, 299), (400, 350)]
ROUNDING = 255 * 2.0**-20
"""float32 sums of some ten products of grey levels up to 255: each 2⁻²⁴ of 255 off."""


def images(height: int, width: int) -> Tensor:
    return torch.randint(256, (2, 3, height, width), generator=generator(height))


every_size = pytest.mark.parametrize(("height", "width"), SIZES)


@every_size
def test_antialias_is_torchs(height: int, width: int) -> None:
    x = images(height, width)
    expected = functional.interpolate(
        x.double(), (299, 299), mode="bilinear", align_corners=False, antialias=True
    )
    torch.testing.assert_close(
        resized(x, "antialias", 299).double(), expected, rtol=0, atol=ROUNDING
    )


@every_size
def test_clean_is_pillows_bicubic_in_float(height: int, width: int) -> None:
    x = images(height, width)
    found = resized(x, "clean", 299)
    for image, ours in zip(x.flatten(0, 1), found.flatten(0, 1), strict=True):
        floats = Image.fromarray(image.numpy().astype(np.float32), mode="F")
        theirs = torch.from_numpy(np.array(floats.resize((299, 299), Image.Resampling.BICUBIC)))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2 * ROUNDING)  # both are float32


@every_size
def test_tf1_by_its_formula(height: int, width: int) -> None:
    """out[i, j] = Σ over the four pixels around (i h/299, j w/299), which are cut at the end."""
    x = images(height, width).double()
    found = resized(x, "tf1", 299).double()
    for i, j in [(0, 0), (298, 298), (150, 7), (13, 290), (298, 0)]:
        y0, x0 = int(i * height / 299), int(j * width / 299)
        fy, fx = i * height / 299 - y0, j * width / 299 - x0
        y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
        top = (1 - fx) * x[:, :, y0, x0] + fx * x[:, :, y0, x1]
        bottom = (1 - fx) * x[:, :, y1, x0] + fx * x[:, :, y1, x1]
        expected = (1 - fy) * top + fy * bottom
        torch.testing.assert_close(found[:, :, i, j], expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("kind", RESIZES)
@pytest.mark.parametrize("inputs", [7, 28, 299, 512])
def test_a_grey_image_stays_grey(kind: str, inputs: int) -> None:
    sums = matrix(kind, inputs, 299).double().sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-6)


def test_they_are_not_the_same() -> None:
    """TensorFlow's resize is half a pixel off: libraries disagree by this much."""
    x = images(32, 32)
    found = {kind: resized(x, kind, 299) for kind in RESIZES}
    assert float((found["tf1"] - found["antialias"]).abs().mean()) > 5
    assert float((found["clean"] - found["antialias"]).abs().mean()) > 1


def test_at_its_own_size_an_image_is_itself() -> None:
    x = images(299, 299)
    for kind in RESIZES:
        torch.testing.assert_close(resized(x, kind, 299), x.float(), rtol=0, atol=ROUNDING)
