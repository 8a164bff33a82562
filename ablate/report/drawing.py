"""Figure data -> images: SVG, PNG and PDF for files, a wide and a narrow SVG for the page."""

from __future__ import annotations

import io

import matplotlib
from matplotlib.figure import Figure

from ablate.report.law_plot import draw_law
from ablate.report.look import NARROW, STYLE, WIDTH
from ablate.report.packing import packed_figure, packed_svg
from ablate.report.plots import draw
from ablate.report.profile_plot import draw_profiles
from ablate.report.shapes import Drawn, Ladder, LawMap, Panels, Profiles, Scatter, Shape


def drawn(data: Shape) -> Drawn:
    """The figure as SVG, PNG and PDF, and as a narrow SVG; the same data give the same bytes."""
    if isinstance(data, Drawn):
        return data
    with matplotlib.rc_context(STYLE):
        figure = _figure(data)
        svg = packed_svg(_saved(figure, "svg", {"Date": None, "Creator": None}))
        figure.set_layout_engine("none")  # it is laid out: once is enough
        png = packed_figure(_saved(figure, "png", {"Software": None}))
        pdf = _saved(figure, "pdf", {"CreationDate": None, "Creator": None, "Producer": None})
    with matplotlib.rc_context(STYLE | {"figure.figsize": (NARROW, 3.2)}):
        figure = _figure(data)
        slim = figure.get_figwidth() < WIDTH  # else its shape has one width only
        narrow = _saved(figure, "svg", {"Date": None, "Creator": None}) if slim else b""
    return Drawn(svg, png, pdf, packed_svg(narrow))


def _figure(data: Ladder | Panels | Scatter | LawMap | Profiles) -> Figure:
    if isinstance(data, Profiles):
        return draw_profiles(data)
    return draw_law(data) if isinstance(data, LawMap) else draw(data)


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=200, metadata=metadata)
    return out.getvalue()
