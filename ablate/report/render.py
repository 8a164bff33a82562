"""StudyResults -> a folder: index.html that opens offline, report.md, tables and figures."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jinja2

from ablate.core.errors import UserError
from ablate.report import answer, effects, figures, formats, plots, tables
from ablate.report.names import LEAK, LEGEND, knob_name, metric_name, shown, text, trial_name
from ablate.results import NEIGHBOURS, SAMPLES, TRAJECTORY, StudyResults, Trial

Fetch = Callable[[str, str], Path]
"""(run id, artifact) -> a local file; FileNotFoundError where there is none."""

PARTS = ("index.html", "report.md", "tables", "figures", ".DS_Store")

Shown = figures.Ladder | figures.Panels | figures.Scatter | None
FIGURES: dict[str, tuple[Callable[[StudyResults], Shown], str]] = {
    "best": (figures.ladder, "of the best configurations; dashed: baselines"),
    "choices": (figures.choices, "by choice, a point per trial; upright: the mean of a choice"),
    "sweeps": (figures.sweeps, "against each numeric knob, a point per trial"),
    "cost": (figures.against_cost, "against what a sample costs; dashed: baselines"),
    "pareto": (figures.tradeoff, "against the second objective, with the Pareto front"),
}


NEAREST = (
    "The samples nearest to the training set, nearest first; each is followed by its nearest "
    "training images where these were on the machine."
)


class Drawing(NamedTuple):
    name: str
    caption: str
    svg: bytes
    png: bytes


class Picture(NamedTuple):
    """An image that a cell left behind."""

    kind: str  # of KINDS
    role: str  # of the trial that it is of
    caption: str
    png: bytes | None  # None: the store has none

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.role}"


KINDS = {
    Path(SAMPLES).stem: "Samples",
    Path(TRAJECTORY).stem: "From noise to image",
    Path(NEIGHBOURS).stem: "Beside the training images",
}
"""Kinds of pictures that cells leave, and their headings on the page."""


def write(results: StudyResults, fetch: Fetch, folder: Path) -> Path:
    """Write the whole report and swap it in for an older one; the path of its index.html.

    A kill leaves the old report or none, and a hidden folder beside it; never half a report.
    """
    folder = folder.resolve()
    _refuse_strangers(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        new, old = Path(scratch, "new"), Path(scratch, "old")
        _fill(new, results, fetch)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    return folder / "index.html"


def _refuse_strangers(folder: Path) -> None:
    """Only a report may be replaced: whatever else lies in the folder would be lost."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; a report is a folder: name another place")
    strangers = sorted(p.name for p in folder.glob("*") if p.name not in PARTS)
    if strangers:
        raise UserError(
            f"{folder} holds {strangers[0]}, which is no part of a report and would be lost: "
            f"move it or name another folder"
        )


def _fill(folder: Path, results: StudyResults, fetch: Fetch) -> None:
    for part in ("tables", "figures"):
        (folder / part).mkdir(parents=True)
    seen = pictures(results, fetch)  # first: the one part that can fail
    made, drawn = all_tables(results), drawings(results)
    for table in made.values():
        _put(folder / "tables" / f"{table.name}.csv", formats.to_csv(table))
        _put(folder / "tables" / f"{table.name}.tex", formats.to_tex(table))
    for drawing in drawn.values():
        (folder / "figures" / f"{drawing.name}.svg").write_bytes(drawing.svg)
        (folder / "figures" / f"{drawing.name}.png").write_bytes(drawing.png)
    for picture in seen:
        if picture.png is not None:
            (folder / "figures" / f"{picture.name}.png").write_bytes(picture.png)
    context = {**words(results), "tables": made, "figures": drawn, "pictures": seen, "kinds": KINDS}
    _put(folder / "report.md", _template("template.md", escaped=False).render(context))
    _put(folder / "index.html", _template("template.html", escaped=True).render(context))


def _put(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", newline="\n")


def _template(name: str, *, escaped: bool) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent, encoding="utf-8")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "text": text,
        "md": formats.md,
        "table": formats.to_md,
        "uri": data_uri,
        "glue": glue,
    }
    return environment.get_template(name)


def data_uri(image: bytes) -> str:
    """An image inside the page: the page opens offline and travels as one file."""
    kind = "png" if image.startswith(b"\x89PNG") else "svg+xml"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def glue(sentence: str) -> str:
    """No line ends inside χ = 0.995, 0.042 ± 0.017 or 95 %."""
    for joint in (" = ", " ± ", " %"):
        sentence = sentence.replace(joint, joint.replace(" ", "\u00a0"))
    return sentence


def words(results: StudyResults) -> dict[str, Any]:
    """What the templates say besides tables and images."""
    knobs, fixed = tables.varied(results), tables.fixed(results)
    return {
        "title": results.name,
        "question": results.question,
        "answer": answer.answer(results),
        "state": answer.state(results),
        "objective": metric_name(results, results.objectives[0].metric),
        "legend": {knob_name(k): LEGEND[k] for k in [*knobs, *fixed] if k in LEGEND},
        "fixed": {knob_name(k): text(shown(results, v)) for k, v in fixed.items()},
        "partial": {knob_name(k) for k in fixed if any(k not in t.params for t in results.trials)},
        "leak": LEAK,
        "leaking": leaking(results),
        "complete": len(tables.ranking(results)),
        "first": next((t.number for t in tables.contenders(results)), None),
        "single": answer.ONE_SEED if answer.single_seed(results) else "",
    }


def leaking(results: StudyResults) -> bool:
    return any(results.leaks(trial) for trial in results.trials)


def all_tables(results: StudyResults) -> dict[str, tables.Table]:
    """Every table by its name: some only where there is something to show."""
    makers = [tables.best, tables.measures, tables.baselines, tables.trials]
    makers += [effects.effects, effects.value_means, tables.troubles]
    makers += [tables.protocols, tables.provenance]
    if len(results.objectives) > 1:
        makers.append(tables.pareto)
    if results.importance:
        makers.append(tables.importance)
    if results.published:
        makers.append(tables.published)
    if _looked_for_copies(results):
        makers.append(tables.neighbours)
    return {table.name: table for table in (make(results) for make in makers)}


def drawings(results: StudyResults) -> dict[str, Drawing]:
    """Every figure that the results have data for, drawn."""
    name = metric_name(results, results.objectives[0].metric)
    bars = answer.ONE_SEED if answer.single_seed(results) else "bars: 95 % intervals over seeds"
    key_to_dots = f"{bars}; ringed: the best" + f"; hollow: {LEAK}" * leaking(results)
    made = {key: make(results) for key, (make, _) in FIGURES.items()}
    captions = {key: f"{name} {what}; {key_to_dots}." for key, (_, what) in FIGURES.items()}
    if tables.pruned_trials(results):
        for key in ("choices", "sweeps"):
            captions[key] += " Crosses: pruned, at their last value."
    return {
        key: Drawing(key, captions[key], *plots.svg_and_png(data))
        for key, data in made.items()
        if data is not None
    }


def gallery(results: StudyResults) -> list[tuple[str, Trial]]:
    """(role, trial) to show: the best, the oracle if it is better still, and the worst."""
    ranked, field = tables.ranking(results), tables.contenders(results)
    roles = [("best", field[:1]), ("oracle", ranked[:1]), ("worst", ranked[-1:])]
    chosen: dict[int, tuple[str, Trial]] = {}
    for role, picked in roles:
        for trial in picked:
            chosen.setdefault(trial.number, (role, trial))
    return list(chosen.values())


def pictures(results: StudyResults, fetch: Fetch) -> list[Picture]:
    """Sample grids and trajectory strips of the gallery, and the best one's samples beside their
    nearest training images if a search for copies was made; from each trial's first seed."""
    knobs, shown = tables.varied(results), gallery(results)
    wanted = [
        (artifact, role, trial) for artifact in (SAMPLES, TRAJECTORY) for role, trial in shown
    ]
    wanted += [(NEIGHBOURS, *each) for each in shown[:1] if _looked_for_copies(results)]
    return [
        Picture(
            Path(artifact).stem,
            role,
            f"{role.capitalize()}, {trial_name(results, trial, knobs)}; "
            f"{answer.measured(results, trial)}."
            + (f" {NEAREST}" if artifact == NEIGHBOURS else ""),
            _fetched(fetch, trial, artifact),
        )
        for artifact, role, trial in wanted
    ]


def _looked_for_copies(results: StudyResults) -> bool:
    return any(metric.startswith(tables.COPIES) for metric in tables.metrics(results))


def _fetched(fetch: Fetch, trial: Trial, artifact: str) -> bytes | None:
    try:
        return fetch(trial.cells[0].run_id, artifact).read_bytes() if trial.cells else None
    except FileNotFoundError:
        return None
