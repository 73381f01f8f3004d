"""The store of committed offsets: appends, compaction and locks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.log.files.errors import DiskFailed, LogFailed, LogLocked
from gateway.log.offsets import offset_store
from gateway.log.partition.salvage_recovery import DAMAGED
from kwire.metadata_log.file_names import segment_name
from kwire.records import Record, decode_batches, iter_batches
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.offset_store_files import (
    NOW_MS,
    SEGMENT,
    contents,
    open_store,
    records_in,
)


def test_appended_records_are_there_after_opening_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.records() == []
    store.append([(b"a", b"1"), (b"b", b"2")], NOW_MS)
    store.append([(b"a", b"3")], NOW_MS + 1)
    store.append([(b"b", None), (b"c", b"4")], NOW_MS + 2)
    assert store.records() == [(b"a", b"3"), (b"c", b"4")]
    store.close()

    store = open_store(tmp_path)
    assert store.records() == [(b"a", b"3"), (b"c", b"4")]
    assert store.problems == []
    store.close()


def test_the_file_is_a_segment_of_kafka(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1"), (b"b", b"2")], NOW_MS)
    store.append([(b"a", None)], NOW_MS + 5)
    store.close()
    batches = list(decode_batches((tmp_path / SEGMENT).read_bytes()))
    assert [
        (b.header.base_offset, b.header.last_offset, b.header.partition_leader_epoch)
        for b in batches
    ] == [
        (0, 1, 0),
        (2, 2, 0),
    ]
    assert [(r.offset, r.timestamp, r.key, r.value) for b in batches for r in b.records] == [
        (0, NOW_MS, b"a", b"1"),
        (1, NOW_MS, b"b", b"2"),
        (2, NOW_MS + 5, b"a", None),
    ]


def test_nothing_to_append_writes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([], NOW_MS)
    store.close()
    assert (tmp_path / SEGMENT).stat().st_size == 0


def test_one_append_is_one_write_and_one_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = open_store(tmp_path, disk=disk)
    disk.log.clear()
    store.append([(b"%d" % i, b"x") for i in range(1000)], NOW_MS)
    assert [disk.log.count(f"{what} {SEGMENT}") for what in ("write", "sync")] == [1, 1]
    store.close()


def test_a_torn_tail_is_cut_at_whatever_byte(tmp_path: Path) -> None:
    store = open_store(tmp_path / "whole")
    appended: list[tuple[bytes, bytes]] = []
    for i in range(4):
        record = (b"key-%d" % i, b"value-%d" % i)
        store.append([record], NOW_MS)
        appended.append(record)
    store.close()
    data = (tmp_path / "whole" / SEGMENT).read_bytes()
    ends = [header.end for header in iter_batches(data)]

    for cut in range(len(data) + 1):
        directory = tmp_path / "cut"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / SEGMENT).write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        store = open_store(directory)
        assert store.records() == appended[:whole], cut
        assert (store.problems == []) == (cut in (0, *ends)), cut
        store.append([(b"after", b"!")], NOW_MS)
        store.close()
        assert contents(directory) == {**dict(appended[:whole]), b"after": b"!"}, cut


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (bytes(5), False),
        (bytes(4096), True),
        (b"\xff" * 100, True),
        (b"\0" * 12 + b"\0\0\0\0\2" + bytes(200), True),
    ],
)
def test_a_tail_of_anything_is_cut(tmp_path: Path, tail: bytes, kept: bool) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    store.close()
    with open(tmp_path / SEGMENT, "ab") as file:
        file.write(tail)
    store = open_store(tmp_path)
    assert store.records() == [(b"a", b"1")]
    assert f"{len(tail)} bytes from byte " in store.problems[0] and "cut off" in store.problems[0]
    store.close()
    assert (tmp_path / (SEGMENT + DAMAGED)).exists() == kept, "a cut batch is no evidence"


def test_damage_in_the_middle_loses_one_batch_and_is_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for i in range(5):
        store.append([(b"key-%d" % i, b"value-%d" % i)], NOW_MS)
    store.close()
    path = tmp_path / SEGMENT
    whole = path.read_bytes()
    third = list(iter_batches(whole))[2]
    for position in range(third.position, third.end):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        store = open_store(tmp_path)
        kept = dict(store.records())
        store.close()
        if position < third.position + 8 or third.position + 12 <= position < third.position + 16:
            # Base offset and leader epoch are not under the checksum, and the batches around it say
            # what they must be.
            assert len(kept) == 5 and "mended" in store.problems[0], position
        else:
            assert set(kept) == {b"key-0", b"key-1", b"key-3", b"key-4"}, position
            assert "lost bytes" in store.problems[0]
        assert (tmp_path / (SEGMENT + DAMAGED)).read_bytes() == damaged
        assert contents(tmp_path) == kept  # the new file has no damage left
        (tmp_path / (SEGMENT + DAMAGED)).unlink()


def test_it_compacts_when_it_has_grown_enough(tmp_path: Path) -> None:
    store = open_store(tmp_path, compact_bytes_min=10_000)
    turns = 0
    while not store.needs_compaction:
        store.append(
            [(b"key-%d" % (turns % 7), b"value-%d" % turns), (b"gone", b"x"), (b"gone", None)],
            NOW_MS,
        )
        turns += 1
    assert (tmp_path / SEGMENT).stat().st_size > 10_000
    before = store.records()
    store.compact()
    assert (tmp_path / SEGMENT).stat().st_size < 500
    assert not store.needs_compaction
    assert store.records() == before
    store.append([(b"after", b"!")], NOW_MS)
    store.close()
    assert contents(tmp_path) == {**dict(before), b"after": b"!"}
    offsets = [record.offset for record in records_in(tmp_path)]
    assert offsets == sorted(set(offsets)) and offsets[-1] == turns * 3  # renumbered never


def test_batches_of_a_compacted_log_lead_from_one_to_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for i in range(4):
        store.append([(b"a", b"%d" % i), (b"b-%d" % (i % 2), b"x"), (b"gone", b"x")], NOW_MS)
        store.append([(b"gone", None)], NOW_MS)
        store.compact()
    store.close()
    segments = sorted(path.name for path in tmp_path.glob("*.log"))
    assert segments == [SEGMENT, segment_name(16)]
    headers = list(iter_batches((tmp_path / SEGMENT).read_bytes()))
    assert [one.base_offset for one in headers] == [0, *(one.next_offset for one in headers[:-1])]
    assert headers[-1].next_offset == 16, "offsets of deleted records are not given again"
    assert {record.key: record.offset for record in records_in(tmp_path)} == {
        b"b-0": 9,
        b"a": 12,
        b"b-1": 13,
    }


def test_segments_are_compacted_together_while_their_offsets_fit_into_one() -> None:
    far = 2**31
    bases = [0, 10, far - 1, far, 3 * far, 3 * far + 1]
    assert list(offset_store._groups(bases)) == [
        ([0, 10], far - 1),
        ([far - 1], far),
        ([far], 3 * far),
        ([3 * far], 3 * far + 1),
    ]


def test_a_large_rewrite_is_several_batches(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    wanted = [(b"key-%d" % i, bytes(300_000)) for i in range(10)]
    store.append(wanted, NOW_MS)
    store.compact()
    assert store.records() == wanted
    store.close()
    assert len(list(iter_batches((tmp_path / SEGMENT).read_bytes()))) > 2
    assert contents(tmp_path) == dict(wanted)


def test_offsets_far_apart_are_not_put_into_one_batch() -> None:
    far = [
        Record(offset=o, timestamp=1, key=b"k", value=b"v") for o in (0, 5, 2**31 + 5, 2**31 + 6)
    ]
    data = b"".join(offset_store._contiguous(far, 0, 2**31 + 9))
    batches = list(decode_batches(data))
    assert [[r.offset for r in b.records] for b in batches if b.records] == [
        [0, 5],
        [2**31 + 5, 2**31 + 6],
    ]
    assert batches[-1].header.next_offset == 2**31 + 9


def test_a_compaction_that_fails_anywhere_loses_nothing(tmp_path: Path) -> None:
    number = failed = 0
    while number == failed:
        directory = tmp_path / str(number)
        disk = FaultyDisk()
        store = open_store(directory, disk=disk)
        store.append([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], NOW_MS)
        disk.fails_at = disk.count + number
        try:
            store.compact()
        except DiskFailed:
            failed += 1
        disk.fails_at = -1
        assert store.records() == [(b"b", b"2"), (b"a", b"3")]
        try:
            store.append([(b"c", b"4")], NOW_MS)
        except LogFailed:  # the log could not be rolled
            store.close()
            store = open_store(directory, rewrite=True)
            store.append([(b"c", b"4")], NOW_MS)
        store.close()
        assert contents(directory) == {b"a": b"3", b"b": b"2", b"c": b"4"}
        assert not list(directory.glob("*.tmp"))
        number += 1
    assert failed > 15


def test_a_failed_write_ends_the_store_and_a_new_one_begins_with_a_new_file(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk(for_good=True)
    store = open_store(tmp_path, disk=disk)
    store.append([(b"a", b"1")], NOW_MS)
    inode = (tmp_path / SEGMENT).stat().st_ino
    disk.fails_at = disk.count
    with pytest.raises(DiskFailed, match="make room"):
        store.append([(b"b", b"2")], NOW_MS)
    with pytest.raises(LogFailed):
        store.append([(b"c", b"3")], NOW_MS)
    store.close()

    store = open_store(tmp_path, rewrite=True)
    assert store.records() == [(b"a", b"1")]
    assert (tmp_path / SEGMENT).stat().st_ino != inode
    store.append([(b"d", b"4")], NOW_MS)
    store.close()
    assert contents(tmp_path) == {b"a": b"1", b"d": b"4"}


def test_two_servers_cannot_have_one_store(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(LogLocked, match=r"state\.dir of its own"):
        open_store(tmp_path)
    store.close()
    open_store(tmp_path).close()


def test_an_unreadable_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(DiskFailed):
        open_store(tmp_path / "file" / "below")
