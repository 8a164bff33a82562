"""Which worker runs which trial: leases in the search's database.

A lease is a row (study, item) with an owner and the time at which it expires. One SQL statement
takes a lease, so it succeeds for one worker only. A heartbeat renews it. A lease is free again when
its owner releases it, when it has expired, or when its owner was a process of this machine that has
ended. Optuna has heartbeats too, but it fails the trial of a dead worker and starts another in its
place; here another worker resumes the same trial from the last finished cell.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ablate.core.files import turn
from ablate.core.patience import seconds
from ablate.experiment.owner import is_gone, new_owner
from ablate.search.database import connect, patiently, set_up

LASTS = seconds("ABLATE_LEASE_SECONDS", 60.0)
"""Seconds that a worker may be out of touch before another takes over its trial."""

LEAVING = 5.0
"""Seconds that a worker waits for an unreachable database when it leaves."""

T = TypeVar("T")
METADATA = sa.MetaData()
LEASES = sa.Table(
    "ablate_leases",
    METADATA,
    sa.Column("study", sa.String(255), primary_key=True),
    sa.Column("item", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("until", sa.Float(53), nullable=False),
)


class Leases:
    """The leases of one worker in one study."""

    def __init__(
        self, url: str, study: str, lasts: float = LASTS, patience: float | None = None
    ) -> None:
        self._study, self._lasts = study, lasts
        self._patience = patience  # seconds to wait for the database; None: the default
        self.owner = new_owner()
        self._engine = connect(url)
        self._insert = postgresql.insert if self._on_server() else sqlite.insert
        self._held: dict[str, float] = {}  # item -> time of the last renewal
        self._done: list[str] = []  # finished items whose rows are still to be deleted
        self._stop = threading.Event()
        set_up(lambda: METADATA.create_all(self._engine), patience)
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    # --- one item ----------------------------------------------------------------------------

    def take(self, item: str) -> bool:
        """Take a lease. Returns whether this worker now holds it."""
        now = _clock()
        taken = self._patiently(lambda: self._take(item))
        self._done.clear()
        if taken:
            self._held[item] = now
        return taken

    def _take(self, item: str) -> bool:
        with self._engine.begin() as connection:
            now = self._now()
            values = {"owner": self.owner, "until": now + self._lasts}
            free = sa.or_(LEASES.c.until < now, LEASES.c.owner == self.owner)
            put = self._insert(LEASES).values(study=self._study, item=item, **values)
            key = [LEASES.c.study, LEASES.c.item]
            put = put.on_conflict_do_update(index_elements=key, set_=values, where=free)
            if self._done:
                connection.execute(self._mine(LEASES.c.item.in_(self._done)))
            if connection.execute(put.returning(LEASES.c.item)).first() is not None:
                return True
            owner = connection.scalar(sa.select(LEASES.c.owner).where(*self._which(item)))
            if owner is None or not is_gone(owner):
                return False
            theirs = sa.update(LEASES).where(*self._which(item), LEASES.c.owner == owner)
            return connection.execute(theirs.values(**values)).rowcount == 1

    def renew(self, item: str) -> bool:
        """Renew a lease. Returns False if another worker holds it now."""
        now = _clock()

        def update() -> bool:
            mine = sa.update(LEASES).where(*self._which(item), LEASES.c.owner == self.owner)
            with self._engine.begin() as connection:
                updated = connection.execute(mine.values(until=self._now() + self._lasts))
            return updated.rowcount == 1

        renewed = self._patiently(update)
        if renewed and item in self._held:
            self._held[item] = now
        return renewed

    def holds(self, item: str) -> bool:
        """Whether this worker holds a lease. The database is asked only if the lease may have
        expired."""
        sure = _clock() - self._held.get(item, -math.inf) < self._lasts / 2
        return sure or self.renew(item)

    def release(self, item: str) -> None:
        """Give a lease back."""
        self._held.pop(item, None)
        self._patiently(lambda: self._delete(LEASES.c.item == item))

    def finish(self, item: str) -> None:
        """Give back the lease of a finished trial. Its row is deleted with the next write."""
        self._held.pop(item, None)
        self._done.append(item)

    def _delete(self, *which: sa.ColumnElement[bool]) -> None:
        with self._engine.begin() as connection:
            connection.execute(self._mine(*which))

    def _mine(self, *which: sa.ColumnElement[bool]) -> sa.Delete:
        of_study = LEASES.c.study == self._study
        return sa.delete(LEASES).where(of_study, LEASES.c.owner == self.owner, *which)

    def _which(self, item: str) -> tuple[sa.ColumnElement[bool], ...]:
        return LEASES.c.study == self._study, LEASES.c.item == item

    def sweep(self) -> None:
        """Delete the leases of all studies that are free, since they have expired or their owner
        is gone."""

        def delete() -> None:
            with self.writing(), self._engine.begin() as connection:
                connection.execute(sa.delete(LEASES).where(LEASES.c.until < self._now()))
                owners = connection.scalars(sa.select(LEASES.c.owner).distinct())
                gone = [owner for owner in owners if is_gone(owner)]
                if gone:
                    connection.execute(sa.delete(LEASES).where(LEASES.c.owner.in_(gone)))

        self._patiently(delete)

    # --- other workers -----------------------------------------------------------------------

    def others(self, prefix: str) -> set[str]:
        """Items with this prefix that other living workers hold."""

        def select() -> list[tuple[str, str]]:
            live = sa.select(LEASES.c.item, LEASES.c.owner).where(
                LEASES.c.study == self._study,
                LEASES.c.item.startswith(prefix),
                LEASES.c.owner != self.owner,
                LEASES.c.until >= self._now(),
            )
            with self._engine.connect() as connection:
                return [(str(item), str(owner)) for item, owner in connection.execute(live)]

        return {item for item, owner in self._patiently(select) if not is_gone(owner)}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A lock that one worker of the study holds at a time. It is freed when its process ends,
        in whatever way."""
        with self._server_lock() if self._on_server() else turn(self._file()):
            yield

    def writing(self) -> AbstractContextManager[None]:
        """A lock around writes to a SQLite file; a server orders writes itself."""
        return nullcontext() if self._on_server() else turn(self._file())

    @contextmanager
    def _server_lock(self) -> Iterator[None]:
        """PostgreSQL's advisory lock. If the server restarts, the lock is lost and another worker
        may enter; code inside must tolerate that."""
        key = int.from_bytes(hashlib.blake2b(self._study.encode(), digest_size=8).digest(), "big")
        lock_id = sa.literal(key - 2**63, sa.BigInteger)

        def lock() -> sa.Connection:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.execute(sa.select(sa.func.pg_advisory_lock(lock_id)))
            except BaseException:
                connection.close()
                raise
            return connection

        connection = self._patiently(lock)
        try:
            yield
        finally:
            try:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(lock_id)))
            except sa.exc.DBAPIError:
                connection.invalidate()  # drop the connection: its state on the server is unknown
            connection.close()

    # --- the connection ----------------------------------------------------------------------

    def close(self) -> None:
        """Release every lease."""
        self._stop.set()
        self._held.clear()
        with suppress(Exception):  # they expire anyway
            self.hurry()
            self._patiently(self._delete)
        self._engine.dispose()

    def hurry(self) -> None:
        """Stop waiting long for an unreachable database: leases expire anyway."""
        self._patience = LEAVING

    def _patiently(self, work: Callable[[], T]) -> T:
        return patiently(work, self._patience)

    def _on_server(self) -> bool:
        return self._engine.dialect.name == "postgresql"

    def _file(self) -> Path:
        return Path(self._engine.url.database or "")

    def _now(self) -> sa.ColumnElement[float]:
        """The time by the database's clock: the clocks of machines may differ."""
        if self._on_server():
            return sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Float(53))
        return sa.literal(time.time(), sa.Float(53))

    def _beat(self) -> None:
        """Renew all leases, four times in a lease's life."""
        while not self._stop.wait(self._lasts / 4):
            for item in list(self._held):
                with suppress(Exception):  # the database may be unreachable for a while
                    self.renew(item)


def _clock() -> float:
    """Seconds of a clock that also counts while the machine sleeps, as leases do."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
