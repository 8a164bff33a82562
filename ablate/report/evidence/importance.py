"""What two knobs do together, and where the two ways of weighing knobs disagree."""

from __future__ import annotations

from ablate.report.blocks import Block, Paragraph, Row, Table, numbers, words
from ablate.report.effects import MAIN, OF_TREES, PAIRS
from ablate.report.names import Estimate, knob_name, metric_name
from ablate.results import StudyResults

MOST = 8
"""Pairs of knobs that are listed, at most."""


def blocks(results: StudyResults) -> list[Block]:
    """The pairs that matter most, and a sentence for each objective on which the two disagree."""
    made: list[Block] = [Paragraph(each) for each in disagreements(results)]
    table = pairs(results)
    return [*made, table] if table.rows else made


def pairs(results: StudyResults) -> Table:
    """The shares of the variance that only two knobs together explain."""
    header = [words("objective"), words("knobs"), numbers("share")]
    rows: list[Row] = []
    for metric, methods in results.importance.items():
        shares, errors = methods.get(PAIRS, {}), methods.get(PAIRS + OF_TREES, {})
        ordered = sorted(shares, key=lambda pair: -shares[pair])[:MOST]
        name = metric_name(results, metric)
        rows += [(name, _named(p), Estimate(shares[p], errors.get(p))) for p in ordered]
    caption = (
        "Pairs of knobs by fANOVA: the share of the objective's variance that the two explain"
        " together beyond what each explains alone, with its spread over the trees. Trials of a"
        " search are not spread evenly, so small shares may be the search's doing."
    )
    return Table("importance_pairs", caption, header, rows, grouped=True)


def _named(pair: str) -> str:
    return " and ".join(knob_name(knob) for knob in pair.split(" and "))


def disagreements(results: StudyResults) -> list[str]:
    """Sentences where fANOVA and PED-ANOVA do not put the same knob first."""
    said = []
    for metric, methods in results.importance.items():
        whole, best = methods.get(MAIN) or methods.get("fANOVA"), methods.get("PED-ANOVA")
        if not whole or not best:
            continue
        first, other = (max(shares, key=lambda k: shares[k]) for shares in (whole, best))
        if first != other:
            said.append(
                f"What moves {metric_name(results, metric)} most over the whole space is"
                f" {knob_name(first)} (fANOVA); what separates the best trials from the rest is"
                f" {knob_name(other)} (PED-ANOVA). The two ask different questions: the first"
                " counts poor values, the second only where the good ones are."
            )
    return said
