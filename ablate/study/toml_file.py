"""Study files on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.core.bounded_toml import parse_toml
from ablate.core.errors import UserError
from ablate.study.train_knobs import written_out


def read_tables(path: Path) -> dict[str, Any]:
    try:
        return written_out(parse_toml(path.read_text(encoding="utf-8"), str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({type(error).__name__})") from None
