"""Which extractor a study measures in, where its file does not say."""

from __future__ import annotations

from collections.abc import Callable

from ablate.study.definition import ExtractorName, Study

PAPER = "-paper"
"""Ending of the names of studies that repeat the paper's table, which is in Inception features."""


def with_extractor(study: Study, device: str) -> Study:
    """The study with an extractor: its own, or the default on this machine."""
    if study.extractor is not None:
        return study
    chosen = default_extractor(study.name, study.budget, device, _installed)
    return study.model_copy(update={"extractor": chosen})


def default_extractor(
    name: str, budget: str, device: str, installed: Callable[[], bool]
) -> ExtractorName:
    """Inception for the paper's table and for `full` on a GPU, if its weights are installed.

    installed: asked only if it matters, because the answer takes an import of torch.
    """
    wanted = name.endswith(PAPER) or (budget == "full" and device != "cpu")
    return "inception" if wanted and installed() else "small"


def _installed() -> bool:
    from ablate.metrics.extractors.inception import installed

    return installed()
