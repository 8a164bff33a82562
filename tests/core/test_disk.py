"""A full disk is recognised through the errors of databases."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from ablate.core.disk import full, is_full


def test_a_full_database_is_recognised_through_what_wraps_it(tmp_path: Path) -> None:
    """SQLite's own error, from a file that may not grow, within SQLAlchemy's within another."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as connection:
        connection.execute(sa.text("PRAGMA max_page_count = 3"))
        connection.execute(sa.text("CREATE TABLE t (x BLOB)"))
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.execute(sa.text("INSERT INTO t VALUES (zeroblob(100000))"))
    assert isinstance(caught.value.orig, sqlite3.OperationalError)
    assert is_full(caught.value)
    wrapped = RuntimeError("(raised as a result of Query-invoked autoflush; consider …)")
    wrapped.__cause__ = caught.value
    assert is_full(wrapped)


def test_other_errors_are_not_a_full_disk() -> None:
    assert is_full(OSError(28, "No space left on device"))
    assert not is_full(OSError(13, "Permission denied"))
    assert not is_full(RuntimeError("the disk is fine"))


def test_the_message_says_where_and_how_much(tmp_path: Path) -> None:
    text = full(tmp_path, 25_000_000)
    assert text.startswith(f"the disk of {tmp_path} is full (")
    assert "MB left; about 25 MB are needed in all" in text
    assert "free space unknown" in full(tmp_path / "gone", 1)
