"""Where a number comes from: the commit, the versions of libraries and the device."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from ablate.core.workspace import PACKAGE

LIBRARIES = ("ablate-gbm", "torch", "torchvision", "optuna", "mlflow", "torchmetrics", "numpy")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(PACKAGE), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that are installed."""
    installed = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


@cache
def provenance(device: str) -> dict[str, str]:
    """Commit, whether the package differs from it, versions and device, as tags of a run.

    Reports, records and study files beside the package change no result: a study's file is part of
    its record.
    """
    commit = _git("rev-parse", "HEAD")
    tags = {"ablate.device": device, "ablate.commit": commit or "not a repository"}
    if commit:
        tags["ablate.dirty"] = "yes" if _git("status", "--porcelain", "--", ".") else "no"
    return tags | {f"version.{name}": number for name, number in versions().items()}
