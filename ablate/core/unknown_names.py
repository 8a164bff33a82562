"""What to say about a name that is not known: which one was probably meant, or all there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MANY = 12
"""More known names than this are not listed beside a suggestion."""

LONGEST = 200
"""Characters of a name that are compared and shown: a longer one is not a slip of the hand."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three known names that the name may be a misspelling of, the likeliest first.

    The only known name that begins with it, or has it in the middle, counts too.
    """
    names, short = list(known), name[:LONGEST].lower()
    close = get_close_matches(short, names, n=3, cutoff=0.8)
    if close:
        return close
    within = [each for each in names if len(short) > 2 and short in each.lower()]
    return within if len(within) <= 3 else []


def unknown(kind: str, name: str, known: Iterable[str], is_unknown: str = "is unknown") -> str:
    """study 'digits-adsl' is unknown; did you mean 'digits-adls'?

    kind: what the name is of; is_unknown: the words that follow it.
    """
    head = f"{kind} {name[:LONGEST]!r} {is_unknown}".strip()
    return f"{head}; {choice_of(name, known)}"


def choice_of(name: str, known: Iterable[str]) -> str:
    """did you mean 'kid'? known: kid, fid: the second half of such a message."""
    names = list(known)
    listed = f"known: {', '.join(names) or 'none'}"
    close = nearest(name, names)
    if not close:
        return listed
    meant = f"did you mean {' or '.join(map(repr, close))}?"
    return meant if len(names) > MANY else f"{meant} {listed}"
