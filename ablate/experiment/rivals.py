"""Comparing a trial with the best finished one while it is drawn, to prune it early."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ablate.experiment import early_stopping
from ablate.experiment.cell import Judge
from ablate.experiment.early_stopping import Field, Rival
from ablate.experiment.prepare import Setup
from ablate.experiment.replicates import firsts
from ablate.generate.settings import Settings
from ablate.results import FEATURES
from ablate.search import Entry, searched
from ablate.tracking.study_run import StudyRun


class Rivals:
    """Finished trials of a study, with their features as the record has them."""

    def __init__(self, setup: Setup, record: StudyRun) -> None:
        self._setup, self._study, self._record = setup, setup.study, record
        self._features: dict[tuple[int, int], Tensor] = {}  # by trial and seed

    def choose(self, number: int, settings: Settings, entries: Sequence[Entry]) -> Field | None:
        """The trials to compare a configuration with; None if it is to be run to its end."""
        entries = searched(entries)
        place = sum(entry.number < number for entry in entries)
        ended = [entry.state for entry in entries if not entry.running]
        pruned = ended.count("pruned")
        if not self._study.rungs or early_stopping.spared(self._study, place, pruned, len(ended)):
            return None
        rivals = [
            Rival(entry.number, self._study.settings(entry.params), entry.values)
            for entry in firsts(self._study, entries)
            if entry.state == "complete" and entry.feasible
        ]
        return early_stopping.choose_field(self._study, settings, rivals)

    def judge(self, field: Field, drawn: dict[int, Tensor], seed: int) -> Judge:
        """A function that says why to prune the trial, given the features of its cell `seed` so
        far. `drawn` has the features of the trial's cells by seed, and is updated."""
        best = field.best.number
        self.features(best, seed)  # a download that fails is not a failure of the cell

        def judge(features: Tensor) -> str | None:
            drawn[seed] = features
            theirs = {each: self.features(best, each) for each in drawn}
            return early_stopping.verdict(self._study, field, drawn, theirs, self._setup.reference)

        return judge

    def features(self, number: int, seed: int) -> Tensor:
        """The features of a finished cell, float16, [N, f]."""
        if (number, seed) not in self._features:
            file = self._record.fetch(self._record.cell_run(number, seed), FEATURES)
            self._features[number, seed] = torch.from_numpy(np.load(file)["features"])
        return self._features[number, seed]
