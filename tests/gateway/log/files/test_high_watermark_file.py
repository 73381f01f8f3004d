"""The high watermark on disk: whatever becomes of one slot, the other stands."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed, LogDamaged
from gateway.log.files.high_watermark_file import (
    BLOCK_BYTES,
    FILE_NAME,
    HighWatermarkFile,
    format_slot,
    parse_slot,
)
from tests.gateway.log.faulty_disk import FaultyDisk

OFFSETS = st.integers(0, 2**63 - 1)


def opened(root: Path, disk: Disk | None = None) -> HighWatermarkFile:
    return HighWatermarkFile(root, disk or Disk(), [])


def test_the_last_offset_written_is_read(tmp_path: Path) -> None:
    file = opened(tmp_path)
    assert file.offset == 0
    assert not (tmp_path / FILE_NAME).exists(), "looking changes nothing"
    for offset in (0, 1, 2, 1000, 2**62):
        file.write(offset)
        assert file.offset == opened(tmp_path).offset == offset
        assert (tmp_path / FILE_NAME).stat().st_size == 2 * BLOCK_BYTES
    file.close()
    file.close()


@given(offset=OFFSETS, torn=st.integers(0, 19), fill=st.sampled_from([b"\0", b"\xff"]))
def test_a_slot_is_whole_or_none(offset: int, torn: int, fill: bytes) -> None:
    data = format_slot(offset)
    assert parse_slot(data + bytes(100)) == offset
    assert parse_slot(data[:torn]) == -1
    broken = data[:torn] + fill * (len(data) - torn)
    assert parse_slot(broken) == (offset if broken == data else -1)


@pytest.mark.parametrize("length", range(21))
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_write_that_was_cut_off_leaves_the_one_before(
    tmp_path: Path, count: int, length: int
) -> None:
    file = opened(tmp_path)
    for offset in range(1, count + 1):
        file.write(offset)
    file.close()
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    at = 0 if count % 2 == 0 else BLOCK_BYTES  # where the next one goes
    assert parse_slot(bytes(data[at : at + 20])) == count - 1
    data[at : at + length] = format_slot(count + 1)[:length]
    path.write_bytes(bytes(data))
    again = opened(tmp_path)
    assert again.offset == (count + 1 if length >= 20 else count)
    again.write(count + 2)
    assert opened(tmp_path).offset == count + 2
    again.close()


def test_a_file_that_was_not_finished_is_none(tmp_path: Path) -> None:
    whole = format_slot(0).ljust(BLOCK_BYTES, b"\0") * 2
    for begun in (b"", b"\0", bytes(2 * BLOCK_BYTES), whole[:7], whole[:20], whole[:5000], whole):
        (tmp_path / FILE_NAME).write_bytes(begun)
        file = opened(tmp_path)
        assert file.offset == 0
        file.write(7)
        assert opened(tmp_path).offset == 7
        file.close()


def test_garbage_is_refused_but_where_a_crash_may_leave_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"x" * 10_000)
    with pytest.raises(
        LogDamaged,
        match="high-watermark: neither of its two slots is whole; restore it, or remove it",
    ):
        opened(tmp_path)
    problems: list[str] = []
    assert HighWatermarkFile(tmp_path, Disk(fsync=False), problems).offset == 0
    assert "taken as none" in problems[0]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_is_not_claimed_and_can_be_repeated(tmp_path: Path, error: int) -> None:
    for fails_at in range(5):
        root = tmp_path / str(fails_at)
        root.mkdir()
        disk = FaultyDisk(error=error)
        file = opened(root, disk)
        disk.fails_at = fails_at
        with pytest.raises(DiskFailed, match="cannot"):
            for offset in (5, 6):
                file.write(offset)
        claimed = file.offset
        assert opened(root).offset in (claimed, 5, 6)
        assert opened(root).offset >= claimed
        file.write(9)
        assert opened(root).offset == file.offset == 9
        file.close()
