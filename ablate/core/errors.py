"""Errors that users see as one line, and passwords that no message may show."""

import re


class UserError(Exception):
    """A mistake in a file, a flag or the environment: shown as one line, exit code 2.

    The text says what is wrong, the value, where it comes from and what to do about it.
    """

    code = 2


class PassingError(UserError):
    """A temporary failure: a server is down, a process was killed. Running again may succeed."""

    code = 75  # EX_TEMPFAIL of sysexits.h: schedulers try again


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its type if the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]


PASSWORD = re.compile(r"(\w[\w+.-]*://[^\s:/@]*):[^\s@]+@")
QUERY_PASSWORD = re.compile(
    r"([\w-]*(?:passw(?:or)?d|passphrase|pwd|token|secret|api[_-]?key|signature)[\w-]*=)([^\s&]+)",
    re.IGNORECASE,
)
"""A password in the query of a URL, as libpq and servers of artifacts accept it, up to the next
field: quotes may belong to it."""

_secrets: set[str] = set()


def keep_secret(url: str) -> None:
    """Remember the passwords in this URL, so that `hide_secrets` removes them from any text."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
        query = (match[2] for match in QUERY_PASSWORD.finditer(parts.query))
        written = [parts.password or "", *query]
    except ValueError:
        return
    decoded = [v for k, v in parse_qsl(parts.query) if QUERY_PASSWORD.match(f"{k}={v}")]
    _secrets.update(filter(None, (*written, *map(unquote, written), *decoded)))


def hide_secrets(text: str) -> str:
    """Replace passwords by ***: those remembered, and any that a URL in the text contains."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return QUERY_PASSWORD.sub(r"\1***", PASSWORD.sub(r"\1:***@", text))
