"""SVG files -> SVG inside a page: ids of its own, the page's colours, dots that can be hit."""

from __future__ import annotations

import re
from html import escape

from ablate.report.look import THEME

ROOT = re.compile(r"<svg\b[^>]*>")
VIEW = re.compile(r'viewBox="\S+ \S+ (\S+) [^"]*"')
UNUSED = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>"
    r'|<style type="text/css">\*\{stroke-linejoin: round; stroke-linecap: butt\}</style>',
    re.DOTALL,
)
FOREIGN = re.compile(r"<(script|foreignObject|style)\b|\son\w+=", re.IGNORECASE)
IDS = re.compile(r'\bid="|(?:xlink:)?href="#|url\(#')
GLYPH = re.compile(r'<path id="([^"]*DejaVuSans[^"]*)" ([^>]*)/>')
LETTER = re.compile(r'href="#([^"]*DejaVuSans[^"]*)"')
BODY = "<body>"
COLOUR = re.compile(r"#[0-9a-f]{6}\b")
DOTS = re.compile(r'<g id="[^"]*?trials\d+\.\d+-([\d-]+)">(.*?)</g>', re.DOTALL)
BETWEEN = re.compile(r">\s+<")


def inlined(svg: bytes, name: str, label: str, whole: float) -> str | None:
    """The SVG as part of an HTML page; None for one that only an <img> should show.

    name: prefix of its ids, which a page must not hold twice. label: for those who cannot see it.
    whole: inches that fill the column; a smaller figure fills a part of it, with letters as large.
    Dots that were drawn with an id like `trials0.2-5-7` get `data-trial`, one after the other.
    """
    text = UNUSED.sub("", svg.decode())
    root = ROOT.search(text)
    view = VIEW.search(root[0]) if root else None
    if root is None or view is None or FOREIGN.search(text):
        return None
    inside = IDS.sub(lambda found: _prefixed(found[0], name), text[root.end() :])
    inside = DOTS.sub(_named, inside)
    inside = COLOUR.sub(_themed, inside)
    share = float(view[1]) / (72 * whole)
    size = f' style="max-width:{100 * share:.3g}%"' if share < 0.95 else ""
    start = f'<svg {view[0]}{size} role="img" aria-label="{escape(label)}">'
    return start + BETWEEN.sub("><", inside).strip()


def _prefixed(opening: str, name: str) -> str:
    """An id, or a reference to one; HTML needs no xlink."""
    return f"{opening.removeprefix('xlink:')}{name}-"


def _themed(found: re.Match[str]) -> str:
    variable = THEME.get(found[0])
    return f"var(--{variable},{found[0]})" if variable else found[0]


def _named(found: re.Match[str]) -> str:
    """The group with each dot's trial; as it is if a dot was not drawn, as one off the figure."""
    trials = found[1].split("-")
    head, *dots = found[0].split("<use ")
    if len(dots) != len(trials):
        return found[0]
    pairs = zip(trials, dots, strict=True)
    return head + "".join(f'<use data-trial="{trial}" {dot}' for trial, dot in pairs)


def with_shared_glyphs(page: str) -> str:
    """A page whose figures draw each letter from one place: outlines of its own are a quarter of a
    figure. They stand in an SVG without a size, as a hidden one would not be drawn from."""
    names: dict[str, str] = {}  # outline -> its id, which no heading has: those are in lower case
    places: dict[str, str] = {}  # id in a figure -> id of its outline
    for name, outline in GLYPH.findall(page):
        places[name] = names.setdefault(outline, f"G{len(names)}")
    if not names:
        return page
    bare = GLYPH.sub("", page).replace("<defs></defs>", "")
    drawn = LETTER.sub(lambda found: f'href="#{places.get(found[1], found[1])}"', bare)
    outlines = "".join(f'<path id="{name}" {each}/>' for each, name in names.items())
    sprite = f'<svg class="letters" aria-hidden="true"><defs>{outlines}</defs></svg>'
    return drawn.replace(BODY, f"{BODY}\n{sprite}", 1)
