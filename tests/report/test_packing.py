"""Images in fewer bytes."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from ablate.report import drawing
from ablate.report.names import Estimate
from ablate.report.packing import packed_figure, packed_picture, packed_svg, page_picture
from ablate.report.shapes import Axis, Dot, Ladder


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="png", compress_level=1)
    return out.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_a_picture_keeps_its_pixels() -> None:
    random = np.random.default_rng(0)
    grey = np.repeat(random.integers(0, 256, (40, 60, 1), dtype=np.uint8), 3, axis=2)
    colour = random.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for image in (grey, colour):
        packed = packed_picture(png(image))
        assert np.array_equal(pixels(packed), image)
        assert len(packed) <= len(png(image))
    assert Image.open(io.BytesIO(packed_picture(png(grey)))).mode == "L"
    assert packed_picture(b"no image") == b"no image"


def test_a_figure_looks_the_same() -> None:
    """A step of 16 of 255 is the least that side by side is seen as another shade."""
    ramp = np.zeros((64, 64, 3), dtype=np.uint8)
    ramp[..., 0] = np.arange(64)[:, None] * 4
    ramp[..., 2] = np.arange(64)[None, :] * 4
    packed = packed_figure(png(ramp))
    assert np.abs(pixels(packed).astype(int) - ramp).max() < 16
    drawn = drawing.drawn(Ladder(Axis("KID"), [Dot(7, "a", 0.0, Estimate(0.1, 0.02))], [], []))
    assert Image.open(io.BytesIO(drawn.png)).mode == "P"


def test_ids_that_nothing_refers_to_are_left_out() -> None:
    inside = b'<path id="a"/><use href="#a"/><g id="trials0.1-7"/></g></g>'
    packed = packed_svg(b'<g id="figure_1"><g id="axes_1">' + inside)
    assert packed == b'<g id="figure_1"><g>' + inside


def test_coordinates_are_rounded_and_scales_are_not() -> None:
    svg = (
        b'<g transform="translate(1.23456 2.5) scale(0.015625 -0.085)"><path d="M 435.507755 1\n'
        b'L -0.999999 11.699068 \n" style="stroke-width: 0.8125"/></g>'
    )
    assert packed_svg(svg) == (
        b'<g transform="translate(1.23 2.5) scale(0.015625 -0.085)"><path d="M 435.51 1 L -1 11.7"'
        b' style="stroke-width: 0.8125"/></g>'
    )


def test_a_page_shows_colours_as_webp_and_grey_as_it_is() -> None:
    """A colour picture looks the same: no pixel is off by a step that is seen side by side (16)."""
    row, column = np.mgrid[0:96, 0:128] / 16
    waves = (np.sin(row), np.cos(column), np.sin(row + column))
    grain = np.random.default_rng(0).uniform(-3, 3, (96, 128, 3))  # as in any photograph
    image = (np.stack([127 + 100 * wave for wave in waves], 2) + grain).astype(np.uint8)
    shown = page_picture(png(image))
    assert shown.startswith(b"RIFF")
    assert len(shown) < len(packed_picture(png(image))) / 2
    assert np.abs(pixels(shown).astype(int) - image).max() < 16
    grey = packed_picture(png(np.repeat(image[:, :, :1], 3, axis=2)))
    assert page_picture(grey) == grey
    assert page_picture(b"no image") == b"no image"
