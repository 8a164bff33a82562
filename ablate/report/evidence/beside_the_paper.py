"""The paper's tables beside what a study measured: row by row, with both protocols."""

from __future__ import annotations

from ablate.report import paper_facts as paper
from ablate.report.answers.contrast import declared
from ablate.report.blocks import Block, Row, Table, numbers, words
from ablate.report.evidence.law import law, step_of
from ablate.report.names import Estimate, Item, estimate, metric_label, text
from ablate.report.ranking import contenders, ranking
from ablate.results import StudyResults, Trial

KNOWN = frozenset(paper.TABLE_1)
"""Datasets that the paper has."""


def blocks(results: StudyResults) -> list[Block]:
    """Table 1 where trials have its settings, Tables 3 and 4 where the study varies what they
    tune, Table 2 where starts are compared."""
    name = dataset(results)
    if name not in paper.TABLE_1:
        return []
    first = table_1(results, name)
    wanted = declared(results)
    if wanted is None or wanted.kind != "published":  # nobody asks for rows that ours has not
        first = first._replace(rows=[row for row in first.rows if row[3] is not None])
    made: list[Block] = [first] if any(row[3] is not None for row in first.rows) else []
    found = {key for trial in contenders(results) for key in ("chi", "r") if key in trial.params}
    if len(found) == 2 and results.spec.get("search"):
        made.append(tables_3_and_4(results, name))
    if len({trial.params.get("init") for trial in results.trials}) > 2:
        made.append(table_2(name))
    return made


def dataset(results: StudyResults) -> str:
    """The dataset that the first objective's reference images are of."""
    protocol = results.protocols.get(results.objectives[0].metric, {})
    return str(protocol.get("reference", "")).partition("/")[0]


def table_1(results: StudyResults, name: str) -> Table:
    """The paper's FID and KID, and those of our best trial with the same sampler, start and n."""
    header = [words("sampler"), words("init"), numbers("n"), numbers("trial")]
    header += [numbers("fid_paper", "FID, paper"), numbers("kid_paper", "KID, paper (± sd)")]
    header += [numbers("fid_ours", f"{metric_label(results, 'fid')}, ours")]
    header += [numbers("kid_ours", "KID, ours (± 95 %)")]
    rows: list[Row] = []
    for row in paper.TABLE_1[name]:
        ours = _ours(results, {"sampler": row.sampler, "init": row.init, "n": row.n})
        theirs: tuple[Item, ...] = (row.fid, Estimate(row.kid, row.kid_sd))
        own = (ours and estimate(ours, "fid"), ours and estimate(ours, "kid"))
        rows.append((row.sampler, row.init, row.n, ours and ours.number, *theirs, *own))
    caption = (
        f"Table 1 of the paper, row by row. The paper: {paper.PROTOCOL}. Ours: {_ours_by(results)}."
        " The numbers are never ranked together."
    )
    return Table("paper_table_1", caption, header, rows)


def _ours(results: StudyResults, wanted: dict[str, str | int]) -> Trial | None:
    return next((t for t in ranking(results) if wanted.items() <= t.params.items()), None)


def _ours_by(results: StudyResults) -> str:
    """256 samples × 3 seeds against 10,000 images of fashion/test by digits-features."""
    protocol = results.protocols.get(results.objectives[0].metric, {})
    drawn = f"{text(protocol.get('samples'))} samples × {text(protocol.get('seeds'))} seeds"
    against = f"{text(protocol.get('reference_count'))} images of {protocol.get('reference')}"
    return f"{drawn} against {against}, by {protocol.get('extractor')}"


def tables_3_and_4(results: StudyResults, name: str) -> Table:
    """The paper's tuned settings, the law's step for their chi, and what this study found best."""
    header = [
        words("setting"),
        words("sampler"),
        words("init"),
        numbers("L"),
        numbers("delta", "δ"),
    ]
    header += [numbers("r"), numbers("chi", "χ"), numbers("law", "r of the law")]
    samplers = {trial.params.get("sampler") for trial in results.trials}
    rows: list[Row] = [
        ("paper", t.sampler, t.init, t.L, t.delta, round(t.r, 4), t.chi, round(law(t.chi), 4))
        for t in paper.TABLES_3_AND_4[name]
        if t.sampler in samplers
    ]
    rows += [_best(trial) for trial in contenders(results)[:1]]
    caption = (
        "The settings that the paper tuned (its Tables 3 and 4), r = L δ N, beside the best of this"
        " study. The law gives the step that belongs to χ before any tuning."
    )
    return Table("paper_tuned", caption, header, rows)


def _best(trial: Trial) -> Row:
    knobs, r = trial.params, step_of(trial.params)
    chi = knobs.get("chi")
    predicted = None if chi is None else round(law(float(chi)), 4)
    named = (knobs.get("sampler"), knobs.get("init"), knobs.get("L"), knobs.get("delta"))
    return (f"best here, trial {trial.number}", *named, r and round(r, 4), chi, predicted)


def table_2(name: str) -> Table:
    """The printed fits of the start, and the means that the data give."""
    header = [words("channel"), numbers("mu", "μ, printed"), numbers("sigma", "σ, printed")]
    ours: tuple[Item, ...] = paper.FROM_DATA.get(name, ())
    if ours:
        header += [numbers("data", "μ of the data"), numbers("averages", "μ of class averages")]
    rows: list[Row] = [
        (f"{channel}", *fit, *ours) for channel, fit in enumerate(paper.TABLE_2[name], 1)
    ]
    caption = (
        "The log-normal start that the paper prints (Table 2; lognormal-paper). It is neither"
        " the data's fit (lognormal) nor that of class averages (lognormal-class)."
    )
    return Table("paper_table_2", caption, header, rows)
