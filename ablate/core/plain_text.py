"""Text that is safe to show: names and messages from files and records may hold anything."""

from __future__ import annotations

import unicodedata

KEPT = "\n\t"
"""Control characters that only lay text out."""


def plain(text: str) -> str:
    """The text with control characters spelt out, as \\x1b or \\u202e.

    An escape sequence would move the cursor or rename the window; a direction mark would turn what
    follows around.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelt(c) if steers(c) else c for c in text)


def steers(character: str) -> bool:
    """Whether a character controls the display: Cc are control codes, Cf are format marks, Cs are
    halves of a pair that no encoding can write, Zl and Zp end lines."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return character not in KEPT and unicodedata.category(character) in kinds


def _spelt(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
