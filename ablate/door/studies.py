"""`ablate.run_study` and `ablate.load_results`: a study and its trials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.core.errors import UserError
from ablate.core.workspace import Workspace
from ablate.results import INTERVAL, StudyResults, Trial

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class StudyHandle:
    """A study with its results, as they are in the MLflow record."""

    results: StudyResults
    workspace: Workspace

    @property
    def best(self) -> Trial | None:
        """The best complete trial of the search, by the first objective; None if there is none
        yet."""
        return next(iter(self.results.ranked()), None)

    @property
    def confirmed(self) -> Trial | None:
        """The best configuration as fresh seeds measured it, which is what to report; None if
        nothing was confirmed."""
        from ablate.report.confirmed import confirmed_trial

        return confirmed_trial(self.results)

    def table(self) -> pd.DataFrame:
        """A row a trial: its state, knobs and metrics, and half-widths of 95 % intervals."""
        import pandas as pd

        rows = [
            {
                "trial": trial.number,
                "state": trial.state,
                **trial.params,
                **trial.metrics,
                **{name + INTERVAL: half for name, half in trial.intervals.items()},
            }
            for trial in self.results.trials
        ]
        return pd.DataFrame(rows).set_index("trial") if rows else pd.DataFrame()

    def report(self) -> Path:
        """Write reports/<study>/ (reports/<study>-<budget>/ unless the budget is quick) and return
        the path of its index.html."""
        from ablate.report import render
        from ablate.tracking.reader import Reader
        from ablate.tracking.study_note import attach_report

        fetch = Reader(self.workspace).fetch
        page = render.publish(self.results, fetch, self.workspace.reports)
        attach_report(self.workspace, self.results, page)
        return page

    def __repr__(self) -> str:
        done = sum(trial.state == "complete" for trial in self.results.trials)
        name, planned = f"{self.results.name} ({self.results.budget})", self.results.planned
        head = f"study {name}: {done} of {planned} trials complete"
        if self.best is None:
            return head
        metric = self.results.objectives[0].metric
        best = f"{head}, best {metric} {self.best.metrics[metric]:.4g} (trial {self.best.number})"
        if (again := self.confirmed) is None:
            return best
        return f"{best}, confirmed {metric} {again.metrics[metric]:.4g} (trial {again.number})"

    def _repr_html_(self) -> str:
        table: Any = self.table()
        return f"<p>{self!r}</p>{table.to_html(max_rows=30)}"


def run_study(
    name: str,
    budget: str = "quick",
    *,
    trials: int | None = None,
    root: str | Path = ".",
    device: str = "auto",
    progress: bool = True,
) -> StudyHandle:
    """Run a study, or continue it to its total number of trials, and return its results.

    name: of a study (see `ablate list`), or the path of a .toml file.
    budget: smoke, quick or full.
    trials: total number of trials, instead of the budget's.

    >>> import ablate
    >>> study = ablate.run_study("digits-adls", budget="smoke")  # doctest: +SKIP
    """
    from ablate.cli.progress import StudyBar, image_bar
    from ablate.core.device import resolve
    from ablate.experiment.prepare import prepare
    from ablate.experiment.real_features import no_bar
    from ablate.experiment.watcher import Unwatched
    from ablate.experiment.worker import run
    from ablate.study.find import find, read

    workspace = Workspace(Path(root).resolve())
    study = read(find(workspace, name), budget, trials)
    setup = prepare(study, workspace, resolve(device), image_bar if progress else no_bar)
    if progress:
        with StudyBar(setup.study.name, setup.study.objectives) as bar:
            run(setup, workspace, bar)
    else:
        run(setup, workspace, Unwatched())
    return load_results(setup.study.name, budget, root=root)


def load_results(name: str, budget: str | None = None, *, root: str | Path = ".") -> StudyHandle:
    """The results of a study that was run under `root`, the last one of this name and budget."""
    from ablate.tracking.reader import Reader

    workspace = Workspace(Path(root).resolve())
    found = Reader(workspace).latest(Path(name).stem if name.endswith(".toml") else name, budget)
    if found is None:
        which = f" with budget {budget}" if budget else ""
        raise UserError(f"study {name!r} has not been run{which} under {workspace.root}")
    return StudyHandle(found, workspace)
