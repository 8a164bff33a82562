"""StudyResults -> where the variance comes from: training, sampling, or the metric's images.

A cell's value is x_gk = m + a_g + b_gk + e_gk for training seed g and sampling seed k. Its variance
is σ_T² (training: between training seeds) + σ_S² (sampling: between sampling seeds of a network) +
σ_I² (the metric: its error over the images of a cell, as recorded). They are estimated by nested
analysis of variance with random effects, for T training seeds of K cells:

    σ_T² = (MS_T - MS_S)/K      MS_T = K Σ_g (m_g - m)² / (T - 1)
    σ_S² = MS_S - MS_I          MS_S = Σ_gk (x_gk - m_g)² / (T (K - 1))
    σ_I² = MS_I                 MS_I = mean of the squared standard errors

where a negative estimate counts as 0 (`core.nested` has the expectations). The error over images
already holds what other noise would give, so σ_S² is what seeds differ by beyond that: near 0 if
the errors are right.
"""

from __future__ import annotations

from ablate.core.nested import Cells, Components, components
from ablate.report.blocks import Block, Paragraph, Row, Table, numbers, words
from ablate.report.knobs import distinguishing
from ablate.report.names import configuration, metric_name, number
from ablate.results import ERROR, StudyResults, Trial

ALL = "all together"


def blocks(results: StudyResults) -> list[Block]:
    """A table of the first objective; nothing for studies with one training seed."""
    metric = results.objectives[0].metric
    table = components_table(results, metric)
    if not table.rows:
        return []
    together = _found(results.ranked(), metric)
    return [*([Paragraph(_sentence(results, metric, together))] if together else []), table]


def components_table(results: StudyResults, metric: str) -> Table:
    """A row for each ranked trial with training seeds, and one over all of them."""
    header = [numbers("trial"), words("configuration")]
    header += [numbers(f"{name}_sd", f"{name}, sd") for name in Components._fields]
    header += [numbers(f"{name}_share", f"{name}, %") for name in Components._fields]
    knobs = distinguishing(results)
    rows: list[Row] = [
        (trial.number, configuration(results, trial, knobs), *_numbers(found))
        for trial in results.ranked()
        if (found := _found([trial], metric)) is not None
    ]
    if len(rows) > 1 and (found := _found(results.ranked(), metric)) is not None:
        rows.append((None, ALL, *_numbers(found)))
    caption = (
        f"The variance of {metric_name(results, metric)} of one cell by where it comes from: "
        "networks of other training seeds, other sampling seeds of one network beyond the error "
        "over images, and this error. Standard deviations, and shares of the variance. With few "
        "training seeds the numbers of a single trial are rough. All together: variances are "
        "averaged, so that the configurations with the largest decide."
    )
    return Table("variance", caption, header, rows)


def _numbers(found: Components) -> Row:
    spread = tuple(None if each is None else each**0.5 for each in found)
    return (*spread, *(None if share is None else round(100 * share, 1) for share in found.shares))


def _found(trials: list[Trial], metric: str) -> Components | None:
    """The components of trials; None if a trial lacks cells, errors or training seeds."""
    cells = []
    for trial in trials:
        measured = [cell.metrics for cell in trial.cells]
        if not all(metric in each and metric + ERROR in each for each in measured):
            return None
        values = [each[metric] for each in measured]
        errors = [each[metric + ERROR] for each in measured]
        cells.append(Cells(values, trial.training_seeds, errors))
    return components(cells)


def _sentence(results: StudyResults, metric: str, found: Components) -> str:
    shares = dict(zip(Components._fields, found.shares, strict=True))
    named = (
        f"{100 * share:.0f} % is {'the error over images' if name == 'images' else name}"
        for name, share in shares.items()
        if share is not None
    )
    total = sum(each for each in found if each is not None) ** 0.5
    return (
        f"One cell's {metric_name(results, metric)} has a standard deviation of {number(total, 2)},"
        f" over all configurations. Of this variance {', '.join(named)}. Intervals hold"
        f" {results.variation}."
    )
