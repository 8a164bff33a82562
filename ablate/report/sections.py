"""The sections of a report by name. A new one is a function and one record here.

A section's `build` turns a study's results into blocks (see `blocks`): tables, figures, pictures
and text. The page, the Markdown file and the folders of tables and figures follow from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ablate.core.errors import UserError
from ablate.core.registry import Registry
from ablate.report import answer, confirmed, effects, figures, ladder, tables, variance
from ablate.report.answers.contrast import declared
from ablate.report.blocks import (
    BLOCKS,
    Attachment,
    Block,
    Details,
    Figure,
    Table,
    figures_in,
    pictures_in,
    tables_in,
)
from ablate.report.coarse_trials import coarse_trials
from ablate.report.columns import searched_for_copies
from ablate.report.evidence import against, beside_the_paper, exchange, law, same_noise, search
from ablate.report.evidence import importance as together
from ablate.report.gallery import Fetch, pictures
from ablate.report.knobs import legend
from ablate.report.measurement import intervals, protocols, provenance, study_file
from ablate.report.names import LEAK, metric_name
from ablate.report.neighbours import neighbours
from ablate.report.published import published
from ablate.report.ranking import pruned_trials, ranking
from ablate.report.shapes import Shape
from ablate.results import StudyResults


class Context(NamedTuple):
    """What a section may need beside the results."""

    fetch: Fetch  # reads artifacts


@dataclass(frozen=True)
class Section:
    """A heading of the report and the function that makes what stands below it.

    build: `(results, context) -> blocks`. A section without a visible block is left out; tables
        and figures are written to the report's folders in any case.
    """

    name: str
    title: str
    build: Callable[[StudyResults, Context], Sequence[Block] | None]


class Built(NamedTuple):
    """A section of one study's report."""

    title: str
    blocks: Sequence[Block]


def built(results: StudyResults, context: Context) -> list[Built]:
    """All sections in order: ours, those of other packages, then how it was measured; the paper's
    tables first if a study asks what becomes of them."""
    names = [name for name in SECTIONS if name != LAST]
    wanted = declared(results)
    if wanted is not None and wanted.kind == "published":  # the table that the study asks for
        names.sort(key=lambda name: name != "paper")
    sections = [SECTIONS[name] for name in [*names, LAST]]
    made = [Built(each.title, _blocks(each, results, context)) for each in sections]
    _require_distinct_names([block for section in made for block in section.blocks])
    return made


def _blocks(section: Section, results: StudyResults, context: Context) -> Sequence[Block]:
    blocks = section.build(results, context) or []
    for block in blocks:
        if not isinstance(block, BLOCKS):
            raise UserError(
                f"report section {section.name!r} returns {block!r:.60}, which is no block; "
                f"blocks are {', '.join(kind.__name__ for kind in BLOCKS)}"
            )
    return blocks


def _require_distinct_names(blocks: list[Block]) -> None:
    """Refuse two tables, or two figures, that would be written to the same file."""
    files = [f"tables/{table.name}" for table in tables_in(blocks)]
    files += [f"figures/{figure.name}" for figure in figures_in(blocks)]
    files += [f"figures/{picture.name}" for picture in pictures_in(blocks)]
    twice = [name for name, count in Counter(files).items() if count > 1]
    if twice:
        raise UserError(f"two report sections write {twice[0]}: rename one of the two")


def best(results: StudyResults, context: Context) -> list[Block]:
    """The ranking and everything measured on its first configurations."""
    what = "of the best configurations; dashed: baselines"
    blocks: list[Block] = []
    if results.confirmation:
        blocks += [confirmed.table(results), confirmed.pairs(results)]
    blocks += [tables.best(results), legend(results)]
    blocks += _figure(results, "best", figures.ladder(results), what)
    if results.published:
        theirs = published(results)
        apart = beside_the_paper.dataset(results) in beside_the_paper.KNOWN  # below
        blocks.append(Attachment(theirs) if apart else theirs)
    others = [tables.measures(results)]
    if searched_for_copies(results):
        others.append(neighbours(results))
    blocks += _if_complete(results, others)
    return [
        *blocks,
        Details("Every trial", tables.trials(results)),
        Attachment(tables.baselines(results)),
    ]


def knobs(results: StudyResults, context: Context) -> list[Block]:
    """The effect of each knob on the first objective; a ladder's knobs change by steps instead."""
    if results.ladder:
        return []
    what = "by choice, a point per trial; upright: the mean of a choice"
    blocks: list[Block] = []
    crosses = " Crosses: pruned, at their last value." if pruned_trials(results) else ""
    blocks += _figure(results, "choices", figures.choices(results), what, crosses)
    swept = figures.sweeps(results)
    what = "against each numeric knob, a point per trial"
    what += f", coloured by {swept.by}" if swept is not None and swept.by else ""
    blocks += _figure(results, "sweeps", swept, what, crosses)
    blocks += exchange.blocks(results)
    made = [effects.effects(results)]
    if results.importance:
        made.append(effects.importance(results))
    blocks += _if_complete(results, [*made, effects.value_means(results)])
    return [*blocks, *together.blocks(results)]


def cost(results: StudyResults, context: Context) -> list[Block]:
    """The first objective against cost and against the second objective."""
    what = "against what a sample costs; dashed: baselines"
    blocks: list[Block] = [*_figure(results, "cost", figures.against_cost(results), what)]
    names = [metric_name(results, objective.metric) for objective in results.objectives]
    what = f"against {names[-1]}, with the Pareto front"
    blocks += _figure(results, "pareto", figures.tradeoff(results), what)
    if len(results.objectives) > 1:
        blocks += _if_complete(results, [tables.pareto(results)])
    return blocks


def looks(results: StudyResults, context: Context) -> list[Block]:
    """Samples on the same noise, then those and trajectories of the best and the worst trial."""
    return [*same_noise.pictures(results, context.fetch), *pictures(results, context.fetch)]


def unranked(results: StudyResults, context: Context) -> list[Block]:
    """Trials without a place in the ranking."""
    return [tables.troubles(results)]


def measurement(results: StudyResults, context: Context) -> list[Block]:
    """What it takes to measure this again."""
    coarse = [coarse_trials(results)] if any(t.too_coarse for t in results.trials) else []
    made: list[Block] = [protocols(results), provenance(results), study_file(results)]
    return [*coarse, intervals(results), *made]


def _figure(
    results: StudyResults, name: str, data: Shape | None, what: str, remark: str = ""
) -> list[Figure]:
    """The figure with a caption that explains its dots, if there is anything to draw."""
    if data is None:
        return []
    metric = metric_name(results, results.objectives[0].metric)
    bars = answer.NO_INTERVAL if answer.single_seed(results) else "bars: 95 % intervals"
    leaks = any(results.leaks(trial) for trial in results.trials)
    dots = f"{bars}; ringed: the best" + f"; hollow: {LEAK}" * leaks
    return [Figure(name, f"{metric} {what}; {dots}.{remark}", data)]


def _if_complete(results: StudyResults, made: list[Table]) -> list[Block]:
    """Tables of complete trials: shown only if there is one."""
    complete = bool(ranking(results))
    return [table if complete else Attachment(table) for table in made]


LAST = "measurement"
"""The section after all others, also after those of other packages."""

SECTIONS: Registry[Section] = Registry(
    "report section",
    "ablate.report_sections",
    Section,
    [
        Section("ladder", "What each step does", lambda results, _: ladder.blocks(results)),
        Section("best", "The best configurations", best),
        Section("against", "Paired differences", lambda results, _: against.blocks(results)),
        Section("knobs", "What each knob does", knobs),
        Section("law", "Annealing and step", lambda results, _: law.blocks(results)),
        Section("cost", "What it costs", cost),
        Section(
            "variance",
            "Where the variance comes from",
            lambda results, _: variance.blocks(results),
        ),
        Section("search", "What was tried, and at what cost", lambda r, _: search.blocks(r)),
        Section("looks", "What it looks like", looks),
        Section("paper", "Beside the paper", lambda r, _: beside_the_paper.blocks(r)),
        Section("unranked", "What is not ranked, and why", unranked),
        Section(LAST, "How this was measured", measurement),
    ],
)
