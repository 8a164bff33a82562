"""Images in fewer bytes, at no loss that can be seen: reports are committed and sent around."""

from __future__ import annotations

import io
import re

from PIL import Image, UnidentifiedImageError

COLOURS = 256
"""Of a figure: few are drawn, the others are the shades of edges and letters."""

PLACES = re.compile(r'((?: d| x| y|viewBox|transform)=")([^"]*)')
NUMBER = re.compile(r"-?\d+\.\d{3,}")
REFERENCE = re.compile(r'href="#([^"]+)"|url\(#([^)]+)\)')
ID = re.compile(r' id="([^"]+)"')
USEFUL = ("figure_", "trials")
KEPT = re.compile(r"scale\([^)]*\)")
QUALITY = 90
"""Of colour pictures inside a page, a third of their size. The files beside it have every bit."""


def packed_picture(png: bytes) -> bytes:
    """The same pixels; one channel if all three are equal. What is no image stays as it is."""
    try:
        image = Image.open(io.BytesIO(png)).copy()
    except (UnidentifiedImageError, OSError, SyntaxError):
        return png
    if image.mode == "RGB":
        red, green, blue = image.split()
        image = red if red.tobytes() == green.tobytes() == blue.tobytes() else image
    return min(_png(image), png, key=len)


def page_picture(png: bytes) -> bytes:
    """A picture for a page: colours as WebP, if that is smaller; grey ones as they are."""
    try:
        image = Image.open(io.BytesIO(png)).copy()
    except (UnidentifiedImageError, OSError, SyntaxError):
        return png
    if image.mode != "RGB":
        return png
    out = io.BytesIO()
    image.save(out, format="webp", quality=QUALITY, method=6)
    return min(out.getvalue(), png, key=len)


def packed_figure(png: bytes) -> bytes:
    """A figure with a palette of colours in place of four channels; it has nothing behind it."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    return _png(image.quantize(COLOURS, dither=Image.Dither.NONE))


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, format="png", optimize=True)
    return out.getvalue()


def packed_svg(svg: bytes) -> bytes:
    """Coordinates to a hundredth of a point, each path on one line; scales keep their digits. Ids
    that nothing refers to are left out, but for the first and those of dots."""
    text = PLACES.sub(lambda found: found[1] + _rounded(found[2]), svg.decode())
    used = {each for pair in REFERENCE.findall(text) for each in pair}

    def kept(found: re.Match[str]) -> str:
        return found[0] if found[1] in used or found[1].startswith(USEFUL) else ""

    return ID.sub(kept, text).encode()


def _rounded(text: str) -> str:
    kept = KEPT.findall(text)
    parts = [NUMBER.sub(_hundredth, part) for part in KEPT.split(" ".join(text.split()))]
    return "".join(part + scale for part, scale in zip(parts, [*kept, ""], strict=True))


def _hundredth(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")
