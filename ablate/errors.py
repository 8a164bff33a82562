"""The one exception that is the user's to mend; and what no message may say."""

import re


class UserError(Exception):
    """A mistake in a file, a flag or the surroundings: shown as one line, exit code 2.

    The text says what is wrong, the value, where it stands and what to do about it.
    """


def first_line(error: BaseException) -> str:
    """What it says, in one line: its kind, if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


PASSWORD = re.compile(r"(\w[\w+.-]*://[^\s:/@]*):[^\s@]+@")
_secrets: set[str] = set()


def keep_secret(url: str) -> None:
    """Whatever stands as a password in this URL is not to be shown, wherever it turns up."""
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        _secrets.update({password, unquote(password)})


def hide_secrets(text: str) -> str:
    """Without passwords: those that are known, and whatever stands in a URL as one."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return PASSWORD.sub(r"\1:***@", text)
