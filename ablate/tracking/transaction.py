"""Several messages to a local MLflow store in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from mlflow.tracking import MlflowClient

from ablate.core.files import turn


@contextmanager
def at_once(client: MlflowClient) -> Iterator[None]:
    """All that the block writes to a store in a database of this process, or nothing of it.

    MLflow opens up to four sessions for a message, each with a commit of its own, for which every
    other worker must wait; here they share one. It does so by standing in for the store's maker of
    sessions, which is not part of MLflow's interface: where there is none, as with a server,
    messages go out one by one. Not for messages that may meet what is there already: MLflow then
    rolls back, which here would take along what came before in the block.
    """
    store: Any = client._tracking_client.store
    make = getattr(store, "ManagedSessionMaker", None)
    if make is None or isinstance(make, _Shared):
        yield
        return
    with _turn(store), make(read_only=False) as session:
        commit = session.commit
        session.commit = session.flush
        store.ManagedSessionMaker = _Shared(session)
        try:
            yield
        finally:
            store.ManagedSessionMaker = make
            session.commit = commit


class _Shared(NamedTuple):
    """A maker of sessions that hands out one and the same."""

    session: Any

    def __call__(self, read_only: bool = True) -> AbstractContextManager[Any]:
        return nullcontext(self.session)


def _turn(store: Any) -> AbstractContextManager[None]:
    url = store.engine.url
    return turn(Path(url.database)) if url.drivername.startswith("sqlite") else nullcontext()
