"""The one exception that is the user's to mend; and what no message may say."""

import re


class UserError(Exception):
    """A mistake in a file, a flag or the surroundings: shown as one line, exit code 2.

    The text says what is wrong, the value, where it stands and what to do about it.
    """

    code = 2


class PassingError(UserError):
    """Nobody's mistake: a server is away, a process was killed. The same command may well do."""

    code = 75  # EX_TEMPFAIL of sysexits.h: schedulers try again


def first_line(error: BaseException) -> str:
    """What it says, in one line: its kind, if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


PASSWORD = re.compile(r"(\w[\w+.-]*://[^\s:/@]*):[^\s@]+@")
ASKED = re.compile(r"\b((?:ssl)?password=)([^\s&'\"]+)", re.IGNORECASE)
"""In a URL's query, as libpq has it."""

_secrets: set[str] = set()


def keep_secret(url: str) -> None:
    """Whatever stands as a password in this URL is not to be shown, wherever it turns up."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
        written = [parts.password or "", *(match[2] for match in ASKED.finditer(parts.query))]
    except ValueError:
        return
    read = [value for key, value in parse_qsl(parts.query) if "password" in key.lower()]
    _secrets.update(filter(None, (*written, *map(unquote, written), *read)))


def hide_secrets(text: str) -> str:
    """Without passwords: those that are known, and whatever stands in a URL as one."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return ASKED.sub(r"\1***", PASSWORD.sub(r"\1:***@", text))
