"""Features of a split by jobs: those of one process, and each piece computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.data.datasets import Dataset
from ablate.experiment.executors.executor import InProcess
from ablate.experiment.split_features import SharedExtractor, fill_cache
from ablate.metrics import feature_cache
from ablate.metrics.extractors.extractor import load_extractor, shipped_path
from ablate.metrics.feature_cache import cached_features, is_cached, missing_pieces


def test_jobs_fill_the_cache_and_continue(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "PIECE", 100)
    network = load_extractor(shipped_path("digits"))
    what = digits, "test", network
    whole = cached_features(*what, tmp_path / "whole")
    done: list[int] = []

    class Counted(InProcess):
        def submit(self, job: Any) -> Any:
            done.append(len(job.images))
            if len(done) == 2:
                raise KeyboardInterrupt
            return super().submit(job)

    executor, folder = Counted(SharedExtractor(network).on("cpu")), tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        fill_cache(*what, folder, executor)
    assert not is_cached(*what, folder)
    left = len(missing_pieces(*what, folder))
    fill_cache(*what, folder, executor)
    assert done == [100, 100, *([100] * (left - 1)), 59]
    assert torch.equal(cached_features(*what, folder), whole)
    before = len(done)
    fill_cache(*what, folder, executor)
    assert len(done) == before
