"""The private parts of MLflow that `ablate.tracking.transaction` uses: they exist and behave.

A failure here means that a new version of MLflow moved a part, and that only
`ablate/tracking/transaction.py` has to follow. That module writes message by message where there is
no session maker: without these tests, a part that moved would only make studies slower.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

import ablate
from ablate.tracking.transaction import at_once
from tests.support.studies import copy_of_record

USER = "ablate/tracking/transaction.py uses it"


@pytest.fixture
def client(tmp_path: Path) -> MlflowClient:
    return MlflowClient(f"sqlite:///{copy_of_record(tmp_path / 'mlflow.db')}")


def test_a_client_has_its_private_parts(client: MlflowClient) -> None:
    for part in ("_tracking_client",):
        assert hasattr(client, part), f"MlflowClient.{part} moved: {USER}"
    assert hasattr(client._tracking_client, "store"), f"TrackingServiceClient.store moved: {USER}"
    store = client._tracking_client.store
    for part in ("ManagedSessionMaker", "engine"):
        assert hasattr(store, part), f"{type(store).__name__}.{part} moved: {USER}"
    assert store.engine.url.drivername.startswith("sqlite")


def test_a_session_maker_gives_sessions(client: MlflowClient) -> None:
    store: Any = client._tracking_client.store
    with store.ManagedSessionMaker(read_only=False) as session:
        for part in ("commit", "flush"):
            assert callable(getattr(session, part, None)), f"{part} of a session moved: {USER}"


def test_messages_of_a_block_share_one_session(
    client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store asks its attribute `ManagedSessionMaker` for every session: one in a block."""
    store: Any = client._tracking_client.store
    make, made = store.ManagedSessionMaker, []

    def counted(*arguments: Any, **named: Any) -> Any:
        made.append(1)
        return make(*arguments, **named)

    monkeypatch.setattr(store, "ManagedSessionMaker", counted)
    run_id = client.create_run("0").info.run_id
    single = len(made)
    assert single > 0, f"the store does not use its ManagedSessionMaker: {USER}"
    made.clear()
    with at_once(client):
        client.log_metric(run_id, "kid", 1.0)
        client.log_param(run_id, "chi", 0.5)
        client.set_terminated(run_id, "FINISHED")
    assert len(made) == 1, f"messages of a block opened {len(made)} sessions: {USER}"
    run = client.get_run(run_id)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {"kid": 1.0})


def test_a_block_that_fails_writes_nothing(client: MlflowClient) -> None:
    run_id = client.create_run("0").info.run_id

    def write_and_fail() -> None:
        with at_once(client):
            client.log_metric(run_id, "kid", 1.0)
            raise RuntimeError("stop here")

    with pytest.raises(Exception, match="stop here"):
        write_and_fail()
    assert client.get_run(run_id).data.metrics == {}
    client.log_metric(run_id, "kid", 2.0)  # the store has its own session maker again
    assert client.get_run(run_id).data.metrics == {"kid": 2.0}


def test_one_file_uses_them() -> None:
    root = Path(ablate.__file__).parent
    users = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "_tracking_client" in path.read_text() or "ManagedSessionMaker" in path.read_text()
    }
    assert users == {"tracking/transaction.py"}
