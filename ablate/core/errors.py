"""Errors that users see as one line, and passwords that no message may show."""

import os
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


PASSWORD = re.compile(r"((?:\w[\w+.-]*:)?//[^\s:/@]*):[^\s@]+@(?:[^\s/@?#]*@)*")
"""A password in a URL. One with an @ that is not written as %40 ends at the last @."""

TOKEN = re.compile(r"(https?://)[^\s:/@]+@")
"""A token in the place of a user."""

SECRET = r"passw(?:or)?d|passphrase|pwd|token|secret|(?:api|access)[_-]?key|credential|signature"
QUERY_PASSWORD = re.compile(
    rf"([\w-]*(?:{SECRET}|auth(?==)|sig(?==))[\w-]*=)"
    r"""((?:'[^']*'|"[^"]*")?[^\s&]*)""",
    re.IGNORECASE,
)
"""A password in the query of a URL, as libpq and servers of artifacts accept it, up to the next
field: quotes may belong to it."""

ITEM = re.compile(
    rf"([\"'][\w-]*(?:{SECRET})[\w-]*[\"']\s*:\s*[\"'])[^\"']+"
    r"|(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"']+",
    re.IGNORECASE,
)
"""A secret in JSON or in a header of a request."""

VARIABLES = (
    *("RAY_AUTH_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
"""Variables of the environment that hold a secret, for libraries that this package calls."""

SHORTEST = 4
"""Characters of a variable's value that is hidden: a shorter one would take words apart."""

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
    """Replace passwords by ***: those remembered, those of the environment, and any that a URL, a
    header or JSON in the text contains."""
    values = {value for name in VARIABLES if len(value := os.environ.get(name, "")) >= SHORTEST}
    for secret in sorted(_secrets | values, key=len, reverse=True):
        text = text.replace(secret, "***")
    text = QUERY_PASSWORD.sub(r"\1***", TOKEN.sub(r"\1***@", PASSWORD.sub(r"\1:***@", text)))
    return ITEM.sub(lambda found: f"{found[1] or found[2]}***", text)
