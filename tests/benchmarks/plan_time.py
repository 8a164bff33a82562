"""Does a study take as long as `ablate study NAME --plan` says?

    python -m tests.benchmarks.plan_time [STUDY …]       (digits-annealing digits-sigma digits-init)

Plans each study of the quick budget, then runs it in a new root, in the same process; prints the
planned and the real time and disk. Run it on an idle machine.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ablate.core.device import resolve
from ablate.core.workspace import Workspace
from ablate.experiment.cost import make_plan, probe
from ablate.experiment.prepare import prepare
from ablate.experiment.watcher import Unwatched
from ablate.experiment.worker import run
from ablate.study.find import find, read


def main(names: list[str]) -> None:
    device = resolve("auto")
    print("| study | planned | took | took / planned | disk planned | disk |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            workspace = Workspace(Path(folder))
            setup = prepare(read(find(workspace, name), "quick"), workspace, device)
            plan = make_plan(setup, probe(setup))
            began = time.perf_counter()
            run(setup, workspace, Unwatched())
            took = time.perf_counter() - began
            used = sum(
                file.stat().st_size for file in workspace.mlruns.rglob("*") if file.is_file()
            )
            print(
                f"| {name} | {plan.seconds:.0f} s | {took:.0f} s | {took / plan.seconds:.2f} |"
                f" {plan.bytes / 1e6:.0f} MB | {used / 1e6:.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:] or ["digits-annealing", "digits-sigma", "digits-init"])
