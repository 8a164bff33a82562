"""The benchmark of executors: its made-up cells fit what really calls them."""

from __future__ import annotations

import pytest

from ablate.experiment import cell_attempts, worker
from ablate.experiment.executors.executor import InProcess
from tests.benchmarks.executors import whole_study
from tests.experiment.executors.jobs import Raise, Replacing


def test_a_whole_study_is_timed_and_one_whose_cells_fail_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both as cells are drawn elsewhere; the benchmark replaces parts of these modules."""
    for module, names in (
        (cell_attempts, ("cell_elsewhere", "run_cell", "record_files")),
        (worker, ("baselines", "importance")),
        (worker.Worker, ("_compare",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))  # put back at the end
    assert whole_study(Replacing(InProcess(), lambda _, job: job), 3, 0.0) > 0
    failing = Replacing(InProcess(), lambda _, job: Raise("no luck"))
    with pytest.raises(RuntimeError, match="no luck"):
        whole_study(failing, 2, 0.0)
