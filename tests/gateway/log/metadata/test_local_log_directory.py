"""The directory of a local log: lock, small files, leftovers, and damage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.errors import (
    LogDamaged,
    LogError,
    LogFailed,
    LogLocked,
)
from gateway.log.files.offset_checkpoint import RECOVERY_POINT
from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid
from tests.gateway.log.kafka_files import batch, snapshot_bytes
from tests.gateway.log.local_log_files import (
    FIRST,
    fill,
    install,
    small,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LocalLog]:
    log = LocalLog.open(tmp_path, LogSettings())
    yield log
    log.close()


# --- the directory
# -------------------------------------------------------------------------------------------------


def test_one_directory_has_one_owner(tmp_path: Path, log: LocalLog) -> None:
    with pytest.raises(LogLocked, match=r"in use by this process.*data\.dir of its own"):
        LocalLog.open(tmp_path, LogSettings())
    code = (
        "from gateway.log.metadata.local_log import *; "
        "LocalLog.open(Path(__import__('sys').argv[1]), LogSettings())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "LogLocked" in other.stderr
    assert "another process" in other.stderr
    log.close()
    again = LocalLog.open(tmp_path, LogSettings())
    again.close()


def test_a_closed_log_cannot_be_changed(log: LocalLog) -> None:
    log.close()
    with pytest.raises(LogFailed):
        log.append(batch(0).data)
    log.close()


def test_quorum_state_and_meta_properties(tmp_path: Path) -> None:
    log = small(tmp_path)
    directory_id = Uuid.parse("nB3C44ernpzHQ4jsByJ14g")
    log.write_meta_properties("Jm6A9emLQ36FJ-20rS3iUA", 7, directory_id)
    log.write_quorum_state(QuorumStateData(leader_id=2, leader_epoch=9), 1)
    log.close()
    log = small(tmp_path)
    assert log.quorum_state == (1, QuorumStateData(leader_id=2, leader_epoch=9))
    assert log.meta_properties is not None
    assert log.meta_properties.cluster_id == "Jm6A9emLQ36FJ-20rS3iUA"
    assert log.meta_properties.directory_id == directory_id
    log.close()


def test_files_left_by_a_crash_are_removed_and_other_files_are_not(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1)
    log.close()
    left = [
        "00000000000000000100-0000000004.checkpoint.part",
        "00000000000000000100-0000000004-17.checkpoint.part",
        "00000000000000000003.log.deleted",
        "00000000000000000007.index",
        "00000000000000000007.timeindex",
        "quorum-state.tmp",
        "leader-epoch-checkpoint.tmp",
    ]
    for name in (*left, "notes.txt", "00000000000000000000.snapshot"):
        (log.directory / name).write_bytes(b"x")
    (tmp_path / "meta.properties.tmp").write_bytes(b"x")
    small(tmp_path).close()
    names = {path.name for path in log.directory.iterdir()}
    assert names.isdisjoint(left)
    assert {"notes.txt", "00000000000000000000.snapshot"} <= names
    assert not (tmp_path / "meta.properties.tmp").exists()


def test_the_bootstrap_snapshot_is_not_listed_and_stays(tmp_path: Path) -> None:
    log = small(tmp_path)
    (log.directory / "00000000000000000000-0000000000.checkpoint").write_bytes(b"whatever")
    log.close()
    log = small(tmp_path)
    assert log.latest_snapshot is None
    assert (log.directory / "00000000000000000000-0000000000.checkpoint").exists()
    log.close()


# --- damage
# -------------------------------------------------------------------------------------------------


def damaged(tmp_path: Path, name: str, position: int) -> Path:
    path = tmp_path / "__cluster_metadata-0" / name
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)
    return path


def test_a_damaged_or_torn_end_is_cut_off_and_reported(tmp_path: Path) -> None:
    log = small(tmp_path)
    batches = fill(log, 1, 3)
    log.set_high_watermark(2)
    log.close()
    damaged(tmp_path, FIRST, -1)
    log = small(tmp_path)
    assert log.end_offset == 2
    assert len(log.problems) == 1
    assert (
        f"{FIRST}: {len(batches[2].data)} bytes from byte {len(batches[0].data) * 2} on cut off"
        in log.problems[0]
    )
    log.append(batch(2).data)
    log.close()
    with (log.directory / FIRST).open("ab") as file:
        file.write(batch(3).data[:30])
    log = small(tmp_path)
    assert log.end_offset == 3
    assert "an unfinished batch" in log.problems[0]
    log.close()


def test_damage_below_the_high_watermark_is_never_cut_off(tmp_path: Path) -> None:
    log = small(tmp_path)
    one = fill(log, 1, 3)[0]
    log.set_high_watermark(3)
    log.close()
    (tmp_path / RECOVERY_POINT).unlink()  # as when the process was killed
    path = damaged(tmp_path, FIRST, len(one.data) + 30)
    before = path.read_bytes()
    with pytest.raises(
        LogDamaged, match="wrong CRC at offset 1, but up to 3 it was committed"
    ) as caught:
        small(tmp_path)
    assert caught.value.file == str(path)
    assert caught.value.position == len(one.data)
    assert "fetched anew from the quorum" in str(caught.value)
    assert path.read_bytes() == before
    log = LocalLog.open(tmp_path, LogSettings(fsync=False))
    assert (log.end_offset, log.high_watermark) == (1, 1), (
        "without fsync a crash may do this: it is fetched again"
    )
    assert any("before the high watermark 3" in problem for problem in log.problems)
    log.close()


def test_a_lost_segment_is_noticed(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 12)
    log.set_high_watermark(12)
    log.close()
    (log.directory / "00000000000000000005.log").unlink()
    with pytest.raises(LogDamaged, match="ends at offset 5, but up to 12 it was committed"):
        small(tmp_path)
    (log.directory / FIRST).unlink()
    with pytest.raises(LogDamaged, match="starts at offset 10 and there is no snapshot"):
        small(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["00000000000000000005.index", "00000000000000000005.timeindex", "leader-epoch-checkpoint"],
)
@pytest.mark.parametrize("content", [None, b"", b"x" * 24, bytes(24), b"0\n1\n7 2\n"])
def test_indexes_and_epochs_are_made_anew_when_missing_or_wrong(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    log = small(tmp_path)
    for epoch in range(1, 13):
        fill(log, epoch)
    log.close()
    kept = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    if content is None:
        (log.directory / name).unlink()
    else:
        (log.directory / name).write_bytes(content)
    log = small(tmp_path)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(1, 13)] == [
        (epoch, epoch) for epoch in range(1, 13)
    ]
    log.close()
    assert {path.name: path.read_bytes() for path in log.directory.iterdir()} == kept


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"data_version":2}',
        b'{"data_version":-1}',
        b'{"leaderId":1}',
        b"\0" * 90,
        b"\xff\xfe\x00binary",
        b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b"[]",
        b'{"leaderId":1,"lea',
    ],
)
def test_a_quorum_state_that_cannot_be_read_is_not_guessed_at(
    tmp_path: Path, content: bytes
) -> None:
    log = small(tmp_path)
    log.close()
    (log.directory / "quorum-state").write_bytes(content)
    with pytest.raises(
        LogDamaged, match=r"quorum-state.*remove it: an observer learns the epoch anew"
    ):
        small(tmp_path)
    (log.directory / "quorum-state").unlink()
    log = small(tmp_path)
    assert log.quorum_state is None
    log.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("high-watermark", b"\xff" * 8192),
        ("meta.properties", b"version=7\n"),
        (
            "__cluster_metadata-0/partition.metadata",
            b"version: 0\ntopic_id: nB3C44ernpzHQ4jsByJ14g",
        ),
        (
            "__cluster_metadata-0/partition.metadata",
            b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        ),
    ],
)
def test_other_files_that_cannot_be_read_are_reported(
    tmp_path: Path, name: str, content: bytes
) -> None:
    small(tmp_path).close()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogDamaged) as caught:
        small(tmp_path)
    assert caught.value.file == str(tmp_path / name)


def test_a_snapshot_that_is_damaged_is_removed_if_the_log_does_not_need_it(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 3)
    log.close()
    bad = log.directory / SnapshotId(2, 1).file_name
    bad.write_bytes(b"")
    log = small(tmp_path)
    assert (log.start_offset, log.end_offset, log.latest_snapshot) == (0, 3, None)
    assert "a snapshot that the log does not need: removed" in log.problems[0]
    install(log, SnapshotId(50, 2))
    log.close()
    (log.directory / SnapshotId(50, 2).file_name).write_bytes(snapshot_bytes(2, (3,))[:-9])
    with pytest.raises(LogDamaged, match="the snapshot that the log starts at is damaged"):
        small(tmp_path)


def test_a_directory_without_write_permission_is_reported(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(LogError, match="cannot make directory"):
            LocalLog.open(tmp_path / "file", LogSettings())
        return
    tmp_path.chmod(0o500)
    with pytest.raises(LogError, match="permission"):
        LocalLog.open(tmp_path / "data", LogSettings())
