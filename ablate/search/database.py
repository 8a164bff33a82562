"""Databases that studies are kept in: connections, patience with a server that is away for a while,
and one clear line for what patience does not help."""

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
"""Seconds that a database may be away before a study gives up; the same command then continues."""

HOPELESS = (
    *("disk is full", "readonly", "unable to open", "malformed", "not a database"),
    *("no such table", "no such column"),
)
"""SQLite's words for what waiting does not mend."""


PASSING = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InvalidatePoolError)


def driven(url: str) -> str:
    """With the driver that is installed with ablate."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def options(url: str) -> dict[str, Any]:
    """Of SQLAlchemy's engine: connections that outlive a restart of the server, patient writers."""
    if url.startswith("sqlite"):
        return {"connect_args": {"timeout": 60}}
    return {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}


def connect(url: str) -> sa.Engine:
    url = driven(url)
    return sa.create_engine(url, **options(url))


def check(url: str) -> None:
    """One clear line if there is no such database, or it does not let us in."""
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
    """Without the password."""
    try:
        return hide_secrets(make_url(url).render_as_string(hide_password=True))
    except sa.exc.ArgumentError:
        return url.split("://")[0] + "://…"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that led to it: a driver's within SQLAlchemy's within Optuna's."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def cause(error: BaseException) -> BaseException:
    """What the driver said, without the frames about it."""
    said = (each.orig for each in _chain(error) if isinstance(each, sa.exc.DBAPIError))
    return next((each for each in said if each is not None), error)


def passes(error: BaseException) -> bool:
    """Whether waiting may help: the server is away, or another holds the file."""
    if any(word in str(cause(error)).lower() for word in HOPELESS):
        return False
    return any(isinstance(each, PASSING) for each in _chain(error))


def _trouble(error: Exception) -> UserError:
    """One clear line for what a database has to say; anything else is raised as it is."""
    if not any(isinstance(each, sa.exc.SQLAlchemyError) for each in _chain(error)):
        raise error
    said = hide_secrets(first_line(cause(error)))
    kind = PassingError if passes(error) else UserError
    return kind(f"the study's database: {said}; the same command continues")


def patiently(work: Callable[[], T], patience: float | None = None) -> T:
    """`work`, again and again while the database is away, or until Ctrl-C. It must bear being done
    twice."""
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
    """`work` that makes tables: of several workers that begin at once, all but one find them made
    in the middle of it."""
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
"""Words for what another worker is making at the same time."""
