"""Digests of the files that come with the package: a damaged file is refused, not sampled.

They stand in a list beside the files, so that a file stays as its training wrote it. After files
have changed, `python -m ablate.models.digests` writes the list again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ablate.core.errors import UserError
from ablate.core.files import whole_file
from ablate.core.workspace import PACKAGE

LIST = "digests.json"
"""The list's name, in the folder of the files."""


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_listed(path: Path, found: str) -> None:
    """Raise an error if the file's folder has a list and `found` is not the file's digest there."""
    file = path.with_name(LIST)
    if not file.is_file():
        return
    try:
        listed: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        wanted = listed.get(path.name)
    except (OSError, ValueError, AttributeError, RecursionError):
        raise UserError(f"{file}: cannot be read; install the package again") from None
    if wanted != found:
        wrong = "is not listed" if wanted is None else "is damaged; its bytes are not those listed"
        raise UserError(f"{path}: {wrong} in {LIST}; install the package again")


def write_list(folder: Path) -> Path:
    """Write the digests of all files of a folder, and return the list's path."""
    files = sorted(folder.glob("*.safetensors"))
    text = json.dumps({file.name: digest(file) for file in files}, indent=1)
    with whole_file(folder / LIST) as scratch:
        scratch.write_text(text + "\n", encoding="utf-8")
    return folder / LIST


if __name__ == "__main__":
    print(write_list(PACKAGE / "zoo"))
