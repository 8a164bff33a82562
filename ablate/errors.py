"""The one exception that is the user's to mend."""


class UserError(Exception):
    """A mistake in a file, a flag or the surroundings: shown as one line, exit code 2.

    The text says what is wrong, the value, where it stands and what to do about it.
    """


def first_line(error: Exception) -> str:
    """What it says, in one line: its kind, if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]
