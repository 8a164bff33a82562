"""Several messages to a local MLflow store in one transaction: the one file that uses private parts
of MLflow.

The private part is `MlflowClient._tracking_client.store`, with its attributes `engine` and
`ManagedSessionMaker`, the function with which MLflow's SQL store opens a session. MLflow opens up
to four sessions for a message and commits each, and every other worker waits for every commit.
MLflow has no public way to join messages into one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from mlflow.tracking import MlflowClient

from ablate.core.files import turn


@contextmanager
def at_once(client: MlflowClient) -> Iterator[None]:
    """Write all messages of the block, or none, if the store is a database of this process.

    The messages share one session, which replaces the store's session maker during the block. A
    server's client has no session maker: then messages are sent one by one. The block must not
    write what may exist already: MLflow would then roll back, and with it everything that came
    before in the block.
    """
    store: Any = client._tracking_client.store
    make_session = getattr(store, "ManagedSessionMaker", None)
    if make_session is None or isinstance(make_session, _Shared):
        yield
        return
    with _turn(store), make_session(read_only=False) as session:
        commit = session.commit
        session.commit = session.flush
        store.ManagedSessionMaker = _Shared(session)
        try:
            yield
        finally:
            store.ManagedSessionMaker = make_session
            session.commit = commit


class _Shared(NamedTuple):
    """A session maker that always returns the same session."""

    session: Any

    def __call__(self, read_only: bool = True) -> AbstractContextManager[Any]:
        return nullcontext(self.session)


def _turn(store: Any) -> AbstractContextManager[None]:
    """This process's turn to write to a SQLite file; a database server orders writes itself."""
    url = store.engine.url
    return turn(Path(url.database)) if url.drivername.startswith("sqlite") else nullcontext()
