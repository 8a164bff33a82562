"""Connections to a study's database: retries while a server is unreachable, and one clear line for
errors that retrying does not solve."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from ablate.core.errors import PassingError, UserError, first_line, hide_secrets
from ablate.core.signals import let_through

T = TypeVar("T")
PATIENCE = float(os.environ.get("ABLATE_PATIENCE_SECONDS", "300"))
"""Seconds that a database may be unreachable before a study stops. The same command continues."""

HOPELESS = (
    *("disk is full", "readonly", "unable to open", "malformed", "not a database"),
    *("no such table", "no such column"),
)
"""Words of SQLite's messages for errors that waiting does not solve."""

PASSING = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InvalidatePoolError)
"""Errors of a connection that waiting may solve."""


def driven(url: str) -> str:
    """The URL with the driver that is installed with ablate."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def options(url: str) -> dict[str, Any]:
    """Options of SQLAlchemy's engine: connections survive a restart of the server, and writers wait
    for each other."""
    if url.startswith("sqlite"):
        return {"connect_args": {"timeout": 60}}
    return {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}


def connect(url: str) -> sa.Engine:
    url = driven(url)
    return sa.create_engine(url, **options(url))


def check(url: str) -> None:
    """Raise a one-line error if the database does not exist or refuses the connection."""
    if not driven(url).startswith("postgresql"):
        raise UserError(f"--storage {masked(url)}: machines share a PostgreSQL database")
    try:
        engine = connect(url)
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
        engine.dispose()
    except ModuleNotFoundError as error:
        raise UserError(
            f"{masked(url)}: needs {error.name}; install ablate-gbm[postgres]"
        ) from None
    except (sa.exc.SQLAlchemyError, ValueError) as error:
        raise UserError(f"{masked(url)}: {first_line(cause(error))}") from None


def masked(url: str) -> str:
    """The URL without its password."""
    try:
        return hide_secrets(make_url(url).render_as_string(hide_password=True))
    except sa.exc.ArgumentError:
        return url.split("://")[0] + "://…"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that led to it: a driver's within SQLAlchemy's within Optuna's."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__


def cause(error: BaseException) -> BaseException:
    """The driver's error, without SQLAlchemy's and Optuna's around it."""
    originals = (each.orig for each in _chain(error) if isinstance(each, sa.exc.DBAPIError))
    return next((each for each in originals if each is not None), error)


def passes(error: BaseException) -> bool:
    """Whether waiting may help: the server is unreachable, or another process holds the file."""
    if any(word in str(cause(error)).lower() for word in HOPELESS):
        return False
    return any(isinstance(each, PASSING) for each in _chain(error))


def _trouble(error: Exception) -> UserError:
    """A database's error as one clear line; any other error is raised."""
    if not any(isinstance(each, sa.exc.SQLAlchemyError) for each in _chain(error)):
        raise error
    message = hide_secrets(first_line(cause(error)))
    kind = PassingError if passes(error) else UserError
    return kind(f"the study's database: {message}; the same command continues")


def patiently(work: Callable[[], T], patience: float | None = None) -> T:
    """Call `work`, and again while the database is unreachable, until Ctrl-C or `patience` seconds
    have passed. `work` must tolerate being done twice."""
    until = time.monotonic() + (PATIENCE if patience is None else patience)
    pause = 0.05
    while True:
        try:
            return work()
        except Exception as error:
            trouble = _trouble(error)
            if not passes(error) or time.monotonic() > until:
                raise trouble from None
        let_through()
        time.sleep(pause)
        pause = min(2 * pause, 5.0)


def set_up(work: Callable[[], T]) -> T:
    """Call `work`, which creates tables, and again if another worker creates them at the same
    time."""
    for _ in range(20):
        try:
            return work()
        except Exception as error:
            trouble = _trouble(error)
            if not any(word in str(cause(error)).lower() for word in MADE):
                raise trouble from None
        time.sleep(0.25)
    raise trouble


MADE = ("already exists", "unique", "duplicate", "locked")
"""Words of messages about tables that another worker creates at the same time."""
