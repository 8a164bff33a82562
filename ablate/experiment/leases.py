"""Who works on what: leases in the search's database, so that any number of workers share a study.

A lease is a row (study, item) with an owner and the time at which it runs out. One statement takes
it, which succeeds for one worker alone. A heartbeat renews it; it is free again when its owner
gives it back, when it has run out, or when its owner was a process of this machine that is gone.
Optuna has heartbeats of its own, but a trial whose worker died is then failed and another put in
its place; here the same trial is taken up by another worker, with all the cells that were done.
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ablate.core.files import turn
from ablate.search.database import connect, patiently, set_up

LASTS = float(os.environ.get("ABLATE_LEASE_SECONDS", "60"))
"""Seconds that a worker may be out of touch before another takes over."""

LEAVING = 5.0
"""Seconds that a worker who leaves waits for a database that is away."""

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
    """One worker's, in one study."""

    def __init__(self, url: str, study: str, lasts: float = LASTS) -> None:
        self._study, self._lasts = study, lasts
        self._patience: float | None = None  # with a database that is away; None: as usual
        self.owner = f"{_machine()} {_process(os.getpid())} {uuid.uuid4().hex}"
        self._engine = connect(url)
        self._insert = postgresql.insert if self._on_server() else sqlite.insert
        self._held: dict[str, float] = {}  # item -> when it was last made sure of
        self._done: list[str] = []  # items that nobody will want any more
        self._stop = threading.Event()
        set_up(lambda: METADATA.create_all(self._engine))
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def take(self, item: str) -> bool:
        """Whether the item is now this worker's."""
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
            if owner is None or not _is_gone(owner):
                return False
            theirs = sa.update(LEASES).where(*self._which(item), LEASES.c.owner == owner)
            return connection.execute(theirs.values(**values)).rowcount == 1

    def renew(self, item: str) -> bool:
        """Whether the item still is this worker's; if so it stays so for a while."""

        now = _clock()

        def update() -> bool:
            mine = sa.update(LEASES).where(*self._which(item), LEASES.c.owner == self.owner)
            with self._engine.begin() as connection:
                found = connection.execute(mine.values(until=self._now() + self._lasts))
            return found.rowcount == 1

        renewed = self._patiently(update)
        if renewed and item in self._held:
            self._held[item] = now
        return renewed

    def holds(self, item: str) -> bool:
        """As `renew`, but the database is asked only if the lease may have run out."""
        sure = _clock() - self._held.get(item, -math.inf) < self._lasts / 2
        return sure or self.renew(item)

    def release(self, item: str) -> None:
        self._held.pop(item, None)
        self._patiently(lambda: self._delete(LEASES.c.item == item))

    def finish(self, item: str) -> None:
        """Nobody will want it any more: its row may wait for the next that is written."""
        self._held.pop(item, None)
        self._done.append(item)

    def _delete(self, *which: sa.ColumnElement[bool]) -> None:
        with self._engine.begin() as connection:
            connection.execute(self._mine(*which))

    def _mine(self, *which: sa.ColumnElement[bool]) -> sa.Delete:
        of_study = LEASES.c.study == self._study
        return sa.delete(LEASES).where(of_study, LEASES.c.owner == self.owner, *which)

    def others(self, kind: str) -> set[str]:
        """Items whose name begins so and that others hold, without asking for any of them."""

        def select() -> list[tuple[str, str]]:
            live = sa.select(LEASES.c.item, LEASES.c.owner).where(
                LEASES.c.study == self._study,
                LEASES.c.item.startswith(kind),
                LEASES.c.owner != self.owner,
                LEASES.c.until >= self._now(),
            )
            with self._engine.connect() as connection:
                return [(str(item), str(owner)) for item, owner in connection.execute(live)]

        return {item for item, owner in self._patiently(select) if not _is_gone(owner)}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One worker of the study at a time; the others wait for their turn, without asking again
        and again. The lock goes with its process, however that ends."""
        with self._server_lock() if self._on_server() else turn(self._file()):
            yield

    def writing(self) -> AbstractContextManager[None]:
        """Around what is written to the database: a server sees to the order by itself."""
        return nullcontext() if self._on_server() else turn(self._file())

    @contextmanager
    def _server_lock(self) -> Iterator[None]:
        """A server that goes away takes it along: what is done in one's turn must bear another's
        coming in between."""
        key = int.from_bytes(hashlib.blake2b(self._study.encode(), digest_size=8).digest(), "big")
        one = sa.literal(key - 2**63, sa.BigInteger)

        def lock() -> sa.Connection:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.execute(sa.select(sa.func.pg_advisory_lock(one)))
            except BaseException:
                connection.close()
                raise
            return connection

        connection = self._patiently(lock)
        try:
            yield
        finally:
            try:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(one)))
            except sa.exc.DBAPIError:
                connection.invalidate()  # closed for good, whatever the server believes
            connection.close()

    def _file(self) -> Path:
        return Path(self._engine.url.database or "")

    def close(self) -> None:
        """Give everything back."""
        self._stop.set()
        self._held.clear()
        with suppress(Exception):  # it runs out by itself
            self.hurry()
            self._patiently(self._delete)
        self._engine.dispose()

    def hurry(self) -> None:
        """One who leaves does not wait for a database that is away: leases run out anyway."""
        self._patience = LEAVING

    def _patiently(self, work: Callable[[], T]) -> T:
        return patiently(work, self._patience)

    def _which(self, item: str) -> tuple[sa.ColumnElement[bool], ...]:
        return LEASES.c.study == self._study, LEASES.c.item == item

    def _on_server(self) -> bool:
        return self._engine.dialect.name == "postgresql"

    def _now(self) -> sa.ColumnElement[float]:
        """By the database's clock: machines' own may differ."""
        if self._on_server():
            return sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Float(53))
        return sa.literal(time.time(), sa.Float(53))

    def _beat(self) -> None:
        while not self._stop.wait(self._lasts / 4):
            for item in list(self._held):
                with suppress(Exception):  # the database may be away for a while
                    self.renew(item)


def _clock() -> float:
    """Seconds that go on while the machine sleeps, as a lease does."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _machine() -> str:
    """This machine since it was started, and this container on it."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "-".join(parts)


def _process(pid: int) -> str:
    """Told apart from later processes with the same number by when it began."""
    try:
        began = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        began = "-"
    return f"{pid}:{began}"


def _is_gone(owner: str) -> bool:
    """A process of this machine that is not there any more; of others one cannot know."""
    machine, process, _ = owner.split()
    if machine != _machine():
        return False
    pid = int(process.split(":")[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _process(pid) != process
