"""Names that become folders and files: checked where they come in, from a file or a record."""

from __future__ import annotations

import re

from ablate.core.errors import UserError
from ablate.core.plain_text import plain

LONGEST = 120
"""Characters of a name: a file system takes 255 bytes, and endings are added."""

FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f]")


def checked_name(name: object, what: str) -> str:
    """The name, if a file or folder may have it: it leads nowhere else and is not hidden.

    what: the start of the message, such as "study file ../x.toml: its name".
    """
    if not isinstance(name, str):
        raise UserError(f"{what} must be a text (value {name!r:.60})")
    wrong = (
        "is empty"
        if not name.strip()
        else "begins with a dot"
        if name.startswith(".")
        else f"has more than {LONGEST} characters"
        if len(name) > LONGEST
        else "holds a slash, a backslash or a control character"
        if FORBIDDEN.search(name) or plain(name) != name
        else ""
    )
    if wrong:
        raise UserError(f"{what} {plain(name[:LONGEST])!r} {wrong}: it must be good for a folder")
    return name
