"""Study files on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.core.bounded_toml import read_toml
from ablate.study.train_knobs import written_out


def read_tables(path: Path) -> dict[str, Any]:
    return written_out(read_toml(path))
