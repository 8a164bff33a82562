"""The one exception that is the user's to mend."""


class UserError(Exception):
    """A mistake in a file, a flag or the surroundings: shown as one line, exit code 2.

    The text says what is wrong, the value, where it stands and what to do about it.
    """
