"""Several messages to a local MLflow store in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from mlflow.tracking import MlflowClient


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
    if make is None:
        yield
        return
    with make(read_only=False) as session:
        commit = session.commit
        session.commit = session.flush
        store.ManagedSessionMaker = lambda read_only=True: nullcontext(session)
        try:
            yield
        finally:
            store.ManagedSessionMaker = make
            session.commit = commit
