"""The store of committed offsets opens the files of version 0.2.0, and nothing in them is lost."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from gateway.log.files.synced_end import SyncedEnd
from gateway.log.offsets.offset_store_format import SYNCED_END, migrate
from kwire.records import iter_batches
from tests.gateway.log.crash_disk import (
    CrashDisk,
    RecordingDisk,
    read_state,
    write_state,
)
from tests.gateway.log.offset_store_files import NOW_MS, SEGMENT, open_store, records_in

#: As 0.2.0 wrote them: three appends, a compaction, and three appends.
OLD_SEGMENT = bytes.fromhex(
    "00000000000000010000005d0000000002cb6bae8a0000000000030000018bcfe568000000018bcfe568"
    "02ffffffffffffffffffffffffffff000000031000000002620232003200020202610233020a6f776e65"
    "7214557365723a616c69636510000406026302350000000000000000060000003a00000000024e4fb799"
    "0000000000000000018bcfe568030000018bcfe56803ffffffffffffffffffffffffffff000000011000"
    "000002640236000000000000000007000000390000000002272155460000000000000000018bcfe57f70"
    "0000018bcfe57f70ffffffffffffffffffffffffffff000000010e000000026201000000000000000008"
    "0000003a0000000002937262bd0000000000000000018bcfe57f710000018bcfe57f71ffffffffffffff"
    "ffffffffffffff00000001100000000265023700"
)
OLD_SYNCED_END = b"9\n"
#: Key and value, oldest first.
LIVE = [(b"a", b"3"), (b"c", b"5"), (b"d", b"6"), (b"e", b"7")]


def old(directory: Path, data: bytes = OLD_SEGMENT) -> Path:
    directory.mkdir()
    (directory / SEGMENT).write_bytes(data)
    (directory / SYNCED_END).write_bytes(OLD_SYNCED_END)
    (directory / (SEGMENT + ".cleaned")).write_bytes(data[:50])
    return directory


def test_old_files_are_opened_with_every_record_in_its_place(tmp_path: Path) -> None:
    directory = old(tmp_path / "old")
    before = [(one.offset, one.timestamp, one.key, one.value) for one in records_in(directory)]
    store = open_store(directory)
    assert (store.records(), store.owners(), store.problems) == (LIVE, {b"a": "User:alice"}, [])
    store.append([(b"f", b"8")], NOW_MS)
    store.close()
    after = [(one.offset, one.timestamp, one.key, one.value) for one in records_in(directory)]
    assert after == [*before, (9, NOW_MS, b"f", b"8")]
    headers = list(iter_batches((directory / SEGMENT).read_bytes()))
    assert all(
        one.next_offset == following.base_offset for one, following in itertools.pairwise(headers)
    )
    assert {path.name for path in directory.iterdir()}.isdisjoint(
        {SYNCED_END, SEGMENT + ".cleaned"}
    )


def test_old_end_is_remembered_when_records_are_missing(tmp_path: Path) -> None:
    last = list(iter_batches(OLD_SEGMENT))[-1]
    directory = old(tmp_path / "old", OLD_SEGMENT[: last.position])
    store = open_store(directory)
    assert store.records() == LIVE[:-1]
    assert len(store.problems) == 1 and "offsets 8 to 8 are missing" in store.problems[0]
    store.close()


@pytest.mark.parametrize("at", range(0, len(OLD_SEGMENT), 7))
def test_damage_to_old_files_costs_one_batch(tmp_path: Path, at: int) -> None:
    data = bytearray(OLD_SEGMENT)
    data[at] ^= 0x10
    directory = old(tmp_path / "old", bytes(data))
    store = open_store(directory)
    found = dict(store.records())
    assert sum(found.get(key) == value for key, value in LIVE) >= 2
    # Nothing tells whether the base offset or epoch of the last batch is damaged.
    assert store.problems or found == dict(LIVE)
    store.close()


def test_crash_during_the_migration_leaves_old_files_or_new_ones(tmp_path: Path) -> None:
    directory = old(tmp_path / "old")
    before, recording = read_state(tmp_path), RecordingDisk(tmp_path)
    migrate(directory, recording, SyncedEnd(directory, recording, []))
    disk, tried = CrashDisk(before), 0
    for op in recording.ops:
        disk.apply(op)
        for state in disk.killed(op):
            shutil.rmtree(tmp_path / "state", ignore_errors=True)
            write_state(tmp_path / "state", state)
            store = open_store(tmp_path / "state" / "old")
            assert (store.records(), store.problems) == (LIVE, [])
            store.close()
            tried += 1
    assert tried > 3
