"""The note of what was synced: whatever a crash makes of it, it never says more than was true."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.files.disk import Disk
from gateway.log.files.recovery_point import (
    FILE_NAME,
    RecoveryPoint,
    RecoveryPointFile,
    best_of,
    format_slot,
)
from tests.gateway.log.crash_disk import CrashDisk, RecordingDisk


def test_the_last_note_is_found_again(tmp_path: Path) -> None:
    file = RecoveryPointFile(tmp_path, Disk())
    assert (file.exists, file.point) == (False, RecoveryPoint(0, 0))
    for synced in (5, 8, 13):
        file.note(RecoveryPoint(synced, synced - 2))
    file.close()
    file.close()
    again = RecoveryPointFile(tmp_path, Disk())
    assert (again.exists, again.point) == (True, RecoveryPoint(13, 11))


def test_a_lower_point_is_the_only_one_once_it_is_settled(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    file = RecoveryPointFile(tmp_path, disk)
    for synced in (5, 8):
        file.note(RecoveryPoint(synced, 3))
    file.settle(RecoveryPoint(4, 3))
    crash = CrashDisk()
    for op in disk.ops:
        crash.apply(op)
    settled = {state[Path(FILE_NAME)] for state in crash.lost_power(random.Random(1))}
    assert {best_of(data) for data in settled if data is not None} == {RecoveryPoint(4, 3)}
    file.note(RecoveryPoint(6, 3))
    assert best_of((tmp_path / FILE_NAME).read_bytes()) == RecoveryPoint(6, 3)
    file.close()


def test_a_settled_point_survives_a_power_failure(tmp_path: Path) -> None:
    """Not by a later note, and not by another settling, wherever it is cut short."""
    disk = RecordingDisk(tmp_path)
    file = RecoveryPointFile(tmp_path, disk)
    file.settle(RecoveryPoint(5, 5))
    before = len(disk.ops)
    file.note(RecoveryPoint(7, 6))
    file.note(RecoveryPoint(8, 6))
    file.settle(RecoveryPoint(6, 6))
    file.note(RecoveryPoint(7, 7))
    file.close()
    crash = CrashDisk()
    for number, op in enumerate(disk.ops):
        crash.apply(op)
        if number >= before:
            for state in crash.lost_power(random.Random(number)):
                data = state[Path(FILE_NAME)]
                assert data is not None and min(best_of(data)) >= 5


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_slot_that_is_left_alone_is_written_last(tmp_path: Path, whole: int) -> None:
    """A crash broke the others; the next one may break what is being written now."""
    path = tmp_path / FILE_NAME
    path.write_bytes(
        b"".join(
            format_slot(RecoveryPoint(5, 5)).ljust(4096, b"\0") if n == whole else bytes(4096)
            for n in range(3)
        )
    )
    crash, disk = CrashDisk({Path(FILE_NAME): path.read_bytes()}), RecordingDisk(tmp_path)
    file = RecoveryPointFile(tmp_path, disk)
    file.settle(RecoveryPoint(5, 5))
    file.close()
    for number, op in enumerate(disk.ops):
        crash.apply(op)
        for state in crash.lost_power(random.Random(number)):
            data = state[Path(FILE_NAME)]
            assert data is not None and best_of(data) == RecoveryPoint(5, 5)


@pytest.mark.parametrize("notes", [1, 2, 3])
@pytest.mark.parametrize("last", ["note", "settle"])
def test_a_write_that_is_cut_short_costs_only_itself(tmp_path: Path, notes: int, last: str) -> None:
    """Also the first one after a start, whichever slot was written last before."""
    disk = RecordingDisk(tmp_path)
    file = RecoveryPointFile(tmp_path, disk)
    for synced in range(1, notes + 1):
        file.note(RecoveryPoint(synced, synced))
    file.close()
    before = len(disk.ops)
    again = RecoveryPointFile(tmp_path, disk)
    getattr(again, last)(RecoveryPoint(notes + 1, notes + 1))
    again.close()
    crash = CrashDisk()
    for op in disk.ops[:before]:
        crash.apply(op)
    for op in disk.ops[before:]:
        crash.apply(op)
        for state in crash.killed(op):
            data = state[Path(FILE_NAME)]
            assert data is not None and best_of(data) >= RecoveryPoint(notes, notes)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(8192),
        b"x" * 9000,
        format_slot(RecoveryPoint(7, 9)),
        format_slot(RecoveryPoint(7, -1)),
    ],
)
def test_bytes_that_are_no_slot_give_no_point(data: bytes) -> None:
    assert best_of(data) == RecoveryPoint(0, 0)


@given(st.integers(0, 1 << 62), st.integers(0, 8 * 28 - 1))
def test_a_flipped_bit_is_no_slot(synced: int, bit: int) -> None:
    data = bytearray(format_slot(RecoveryPoint(synced, 0)))
    assert best_of(bytes(data)) == RecoveryPoint(synced, 0)
    data[bit // 8] ^= 1 << bit % 8
    assert best_of(bytes(data)) == RecoveryPoint(0, 0)


@given(st.binary(max_size=9000))
def test_any_bytes_are_read(data: bytes) -> None:
    synced, high_watermark = best_of(data)
    assert 0 <= high_watermark <= synced
