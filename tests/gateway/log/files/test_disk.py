from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gateway.log.files import disk as module
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed, SyncFailed
from tests.gateway.log.faulty_disk import FaultyDisk


def test_a_file_is_replaced_as_a_whole_and_nothing_is_left_behind(tmp_path: Path) -> None:
    disk, path = Disk(), tmp_path / "quorum-state"
    disk.replace(path, b"a long first content")
    (tmp_path / "quorum-state.tmp").write_bytes(b"what a crash left, and longer than the next")
    disk.replace(path, b"second")
    assert path.read_bytes() == b"second"
    assert [one.name for one in tmp_path.iterdir()] == ["quorum-state"]


def test_written_bytes_are_read_back_from_their_positions(tmp_path: Path) -> None:
    disk = Disk()
    file = disk.open(tmp_path / "file")
    disk.write(file, 3, memoryview(b"defgh"))
    disk.write(file, 0, b"abc")
    disk.truncate(file, 6)
    disk.sync(file)
    assert (file.size, file.read(1, 99), file.read(6, 1)) == (6, b"bcdef", b"")
    file.close()
    file.close()
    disk.remove(tmp_path / "file")
    disk.remove(tmp_path / "file")


def test_failures_say_what_where_and_what_helps(tmp_path: Path) -> None:
    disk = Disk()
    with pytest.raises(
        DiskFailed,
        match=r"cannot open .*/nowhere/file: No such file or directory; is it the directory",
    ) as caught:
        disk.open(tmp_path / "nowhere" / "file")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.file == str(tmp_path / "nowhere" / "file")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskFailed, match="cannot make directory"):
        disk.make_directory(tmp_path / "file" / "below")
    with pytest.raises(SyncFailed, match="cannot sync directory"):
        disk.sync_directory(tmp_path / "gone")


def test_a_write_that_is_done_in_pieces_is_carried_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, data[:3], position))
    disk = Disk()
    file = disk.open(tmp_path / "file")
    disk.write(file, 0, b"0123456789")
    assert file.read(0, 99) == b"0123456789"


def test_without_fsync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "_sync", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    Disk(fsync=False).replace(tmp_path / "file", b"x")
    with pytest.raises(SyncFailed, match="Input/output error; the disk fails"):
        Disk().replace(tmp_path / "file", b"y")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_directories_are_made_with_what_is_above(tmp_path: Path) -> None:
    Disk().make_directory(tmp_path / "a" / "b" / "c")
    Disk().make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "permission to write there"),
        (errno.EPERM, "permission to write there"),
        (errno.ENOTDIR, "Each part of the path has to be a directory"),
        (errno.ENOLCK, "POSIX locks"),
    ],
)
def test_refused_lock_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DiskFailed, match=remedy) as failed:
        DirectoryLock(tmp_path)
    assert ("POSIX" in str(failed.value)) == (number == errno.ENOLCK)


def test_file_that_cannot_be_renamed_is_deleted_at_once(tmp_path: Path) -> None:
    """A full disk may have no space for the longer name."""
    disk, later = FaultyDisk(fails_at=0), list[tuple[Path, int]]()
    disk.delete_later = lambda path, delay_ms: later.append((path, delay_ms))
    for name in "ab":
        (tmp_path / name).write_bytes(b"records")
        disk.discard(tmp_path / name, 5)
    disk.discard(tmp_path / "missing", 5)
    assert [one.name for one in tmp_path.iterdir()] == ["b.deleted"]
    assert later == [(tmp_path / "b.deleted", 5)]
