"""Connections to a study's database: retries while a server is unreachable, and one clear line for
errors that retrying does not solve."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from ablate.core.errors import PassingError, UserError, first_line, hide_secrets
from ablate.core.patience import attempts, longest_wait

T = TypeVar("T")
DATABASE = "the study's database"
HOPELESS = (
    *("disk is full", "readonly", "unable to open", "malformed", "not a database"),
    *("no such table", "no such column"),
    *("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry"),
)
"""Words of messages, SQLite's and PostgreSQL's, for errors that waiting does not solve."""

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


def check(url: str, waiting: Callable[[str], None]) -> None:
    """Raise a one-line error if the database does not exist or refuses the connection. While it is
    away, wait for it; `waiting` then gets the reason, once."""
    if not driven(url).startswith("postgresql"):
        raise UserError(f"--storage {masked(url)}: machines share a PostgreSQL database")
    try:
        engine = connect(url)
    except ModuleNotFoundError as error:
        raise UserError(
            f"{masked(url)}: needs {error.name}; install ablate-gbm[postgres]"
        ) from None
    except (sa.exc.SQLAlchemyError, ValueError) as error:
        raise UserError(f"{masked(url)}: {first_line(cause(error))}") from None

    def ask() -> None:
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))

    patiently(ask, where=masked(url), waiting=waiting)
    engine.dispose()


def masked(url: str) -> str:
    """The URL without its password."""
    try:
        return hide_secrets(make_url(url).render_as_string(hide_password=True))
    except (sa.exc.ArgumentError, ValueError):
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


def _trouble(error: Exception, where: str) -> UserError:
    """A database's error as one clear line; any other error is raised."""
    if not any(isinstance(each, sa.exc.SQLAlchemyError) for each in _chain(error)):
        raise error
    message = f"{where}: {hide_secrets(first_line(cause(error)))}"
    if passes(error):
        return PassingError(f"{message}; the same command continues")
    return UserError(message)


def patiently(
    work: Callable[[], T],
    patience: float | None = None,
    where: str = DATABASE,
    waiting: Callable[[str], None] = lambda reason: None,
) -> T:
    """Call `work`, and again while the database is unreachable, until Ctrl-C or `patience` seconds
    have passed. `work` must tolerate being done twice."""
    said = False
    for last in attempts(longest_wait() if patience is None else patience):
        try:
            return work()
        except Exception as error:
            trouble = _trouble(error, where)
            if last or not passes(error):
                raise trouble from None
            if not said:
                waiting(f"{where}: {hide_secrets(first_line(cause(error)))}")
                said = True
    raise AssertionError("attempts end with the last")


def set_up(work: Callable[[], T], patience: float | None = None) -> T:
    """Call `work`, which creates tables, and again if another worker creates them at the same time
    or the database is unreachable."""

    def made() -> T:
        for _ in range(20):
            try:
                return work()
            except Exception as error:
                if not any(word in str(cause(error)).lower() for word in MADE):
                    raise
            time.sleep(0.25)
        return work()

    return patiently(made, patience)


MADE = ("already exists", "unique", "duplicate", "locked")
"""Words of messages about tables that another worker creates at the same time."""
