"""Figures as part of the page."""

from __future__ import annotations

import re

import pytest

from ablate.report import drawing, inline
from ablate.report.look import ACCENT, COLOURS, NARROW, WIDTH
from ablate.report.names import Estimate
from ablate.report.shapes import Axis, Dot, Drawn, Ladder

DOTS = [Dot(7, "a", 0.0, Estimate(0.1, 0.02), best=True), Dot(12, "b", 1.0, Estimate(0.2))]
LADDER = Ladder(Axis("KID"), [*DOTS, Dot(3, "c", 2.0, Estimate(0.3))], [], [])


def test_ids_and_references_get_the_figures_name() -> None:
    svg = drawing.drawn(LADDER).svg
    first, second = (inline.inlined(svg, name, "c", WIDTH) for name in ("one", "two"))
    assert first is not None
    assert second is not None
    assert 'id="one-figure_1"' in first
    assert "url(#one-" in first
    assert first.replace("one-", "two-") == second
    assert "xlink" not in first
    assert "http" not in first


def test_dots_name_their_trials_and_colours_follow_the_page() -> None:
    text = inline.inlined(drawing.drawn(LADDER).svg, "x", "a <b>", WIDTH)
    assert text is not None
    named = [part.split('"')[1] for part in text.split("<use data-trial=")[1:]]
    assert sorted(named, key=int) == ["3", "7", "12"]
    assert f"var(--accent,{ACCENT})" in text
    assert f"var(--c0,{COLOURS[0].lower()})" in text
    assert 'aria-label="a &lt;b&gt;"' in text


def test_a_dot_that_was_not_drawn_leaves_its_group_unnamed() -> None:
    """Better no name than the wrong one."""
    dots = [DOTS[0]._replace(best=False), Dot(4, "d", 1.0, Estimate(float("nan")))]
    text = inline.inlined(drawing.drawn(LADDER._replace(dots=dots)).svg, "x", "", WIDTH)
    assert text is not None
    assert "data-trial" not in text


def test_phones_have_a_figure_of_their_own_with_letters_as_large() -> None:
    drawn = drawing.drawn(LADDER)
    wide, narrow = (
        float(svg.decode().split('viewBox="')[1].split()[2]) for svg in (drawn.svg, drawn.narrow)
    )
    assert (wide, narrow) == pytest.approx((72 * WIDTH, 72 * NARROW))
    text = inline.inlined(drawn.narrow, "x", "", WIDTH)
    assert text is not None
    assert f'style="max-width:{100 * NARROW / WIDTH:.3g}%"' in text
    assert drawn.pdf.startswith(b"%PDF")


def test_what_could_run_code_is_left_to_an_image() -> None:
    start = "<svg xmlns='x' viewBox=\"0 0 9 9\">"
    for inside in ("<script>1</script>", '<g onclick="1"/>', "<foreignObject/>"):
        assert inline.inlined(f"{start}{inside}</svg>".encode(), "x", "", WIDTH) is None
    assert inline.inlined(b"<svg xmlns='x'/>", "x", "", WIDTH) is None


def test_the_same_data_give_the_same_bytes() -> None:
    assert drawing.drawn(LADDER) == drawing.drawn(LADDER)
    already = Drawn(b"svg", b"png")
    assert drawing.drawn(already) is already


def test_letters_are_drawn_from_one_place() -> None:
    svg = drawing.drawn(LADDER).svg
    figures = [inline.inlined(svg, name, "c", WIDTH) or "" for name in ("one", "two")]
    page = inline.with_shared_glyphs(f"<body>{''.join(figures)}</body>")
    letters, drawn = page.split("</defs></svg>", 1)
    outlines = re.findall(r'<path id="(G\d+)" d="', letters)
    assert len(outlines) == len(set(outlines)) > 10
    assert set(re.findall(r'href="#(G\d+)"', drawn)) == set(outlines)
    assert "DejaVuSans" not in page
    assert len(page) < 0.8 * sum(map(len, figures))
    assert inline.with_shared_glyphs("<body>none</body>") == "<body>none</body>"
