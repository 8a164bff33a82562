"""What the machine lacks is one line; a mistake of ours is not taken for it."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest
import torch

from ablate.core.lacking import lacking


def os_error(code: int, file: Path | None = None) -> OSError:
    return OSError(code, os.strerror(code), str(file)) if file else OSError(code, os.strerror(code))


def wrapped(error: BaseException) -> RuntimeError:
    outer = RuntimeError("something of a library")
    outer.__cause__ = error
    return outer


def test_what_is_lacking_is_named_with_its_place(tmp_path: Path) -> None:
    full = lacking(os_error(errno.ENOSPC, tmp_path / "x.db"))
    assert full is not None
    assert full.startswith(f"the disk of {tmp_path} is full (")
    assert "MB left)" in full
    files = lacking(wrapped(os_error(errno.EMFILE)))
    assert files is not None
    assert "ulimit -n" in files
    refused = lacking(os_error(errno.EROFS, tmp_path))
    assert refused is not None
    assert str(tmp_path) in refused
    assert lacking(sqlite3.OperationalError("database or disk is full")) is not None


def test_memory_that_torch_does_not_get_is_said() -> None:
    """10^15 bytes: no machine has an address space for them."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15, dtype=torch.uint8)
    mapped = ImportError("_rust.so: failed to map segment from shared object")
    for error in (caught.value, MemoryError(), mapped):
        line = lacking(error)
        assert line is not None
        assert line.startswith("out of memory (")
        assert "\n" not in line


def test_a_mistake_of_ours_is_none_of_these() -> None:
    for error in (KeyError("memory"), RuntimeError("shape"), os_error(errno.ENOENT)):
        assert lacking(error) is None
