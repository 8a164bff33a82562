"""Files are written whole or not at all, even if the writer is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.files import make_whole, whole_file

OLD, NEW = b"old" * 1000, b"new" * 5000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "file.bin"
    with whole_file(path) as scratch:
        scratch.write_bytes(OLD)
    return path


def beside(path: Path) -> list[str]:
    return [other.name for other in path.parent.iterdir()]


def test_content_appears_at_the_end_and_not_before(path: Path) -> None:
    with whole_file(path) as scratch:
        scratch.write_bytes(NEW)
        assert scratch.parent == path.parent  # a rename is one step within a file system only
        assert path.read_bytes() == OLD
    assert path.read_bytes() == NEW
    assert beside(path) == ["file.bin"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_block_leaves_the_old_content(path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with whole_file(path) as scratch:
            scratch.write_bytes(NEW[:100])
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == OLD
    assert beside(path) == ["file.bin"]


def test_a_failed_block_leaves_no_new_file(tmp_path: Path) -> None:
    def fail() -> None:
        with whole_file(tmp_path / "new.bin") as scratch:
            scratch.write_bytes(NEW)
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    assert list(tmp_path.iterdir()) == []


def test_scratch_of_a_file_that_the_writer_replaced(path: Path) -> None:
    """Libraries that write by renaming their own scratch file over ours are fine too."""
    with whole_file(path) as scratch:
        other = scratch.with_name("other")
        other.write_bytes(NEW)
        other.replace(scratch)
    assert path.read_bytes() == NEW
    assert beside(path) == ["file.bin"]


def test_two_writers_do_not_share_a_scratch_file(path: Path) -> None:
    with whole_file(path) as first, whole_file(path) as second:
        assert first != second
        first.write_bytes(OLD)
        second.write_bytes(NEW)
    assert (
        path.read_bytes() == OLD
    )  # the inner block ends first, so the outer one replaces its file
    assert beside(path) == ["file.bin"]


WRITER = """
import sys
from pathlib import Path
from ablate.core.files import make_whole, whole_file

with whole_file(Path(sys.argv[1])) as scratch:
    with scratch.open("wb") as file:
        file.write(b"new" * 100)
        file.flush()
        print("half", flush=True)
        sys.stdin.read()  # until killed
"""


def test_a_killed_writer_leaves_the_old_content(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
        assert writer.wait(30) == -signal.SIGKILL
    assert path.read_bytes() == OLD
    # the scratch file of a killed writer is hidden and unused: the next writer makes another
    assert all(name == "file.bin" or name.startswith(".file.bin.") for name in beside(path))
    with whole_file(path) as scratch:
        scratch.write_bytes(NEW)
    assert path.read_bytes() == NEW


KILLED_IN_MAKING = """
import os, signal, sys
from pathlib import Path
from ablate.core.files import make_whole

def make(scratch):
    scratch.write_bytes(b"half")
    Path(f"{scratch}-journal").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

make_whole(Path(sys.argv[1]), make)
"""


def fill(scratch: Path) -> None:
    scratch.write_bytes(NEW)


def test_what_a_killed_maker_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    """Only that: locks and files of other names stay."""
    path = tmp_path / "some.db"
    done = subprocess.run([sys.executable, "-c", KILLED_IN_MAKING, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert len(beside(path)) == 3  # a lock, half a file, half a journal
    others = {".some.db.turn", ".other.db.abcd1234", "some.db.abcd1234"}
    for name in others:
        (tmp_path / name).touch()
    make_whole(path, fill)
    assert set(beside(path)) == {"some.db", ".some.db.lock", *others}
    assert path.read_bytes() == NEW
