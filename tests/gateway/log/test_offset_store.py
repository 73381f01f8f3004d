"""The store of committed offsets: appends, compaction and locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.log import offset_store
from gateway.log.offset_store import CLEANED, DAMAGED, SEGMENT, StoreLockedError
from kwire.records import decode_batches, iter_batches
from tests.gateway.log.offset_store_files import (
    NOW_MS,
    contents,
    open_store,
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


def test_one_append_is_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr(offset_store, "_sync", synced.append)
    store.append([(b"%d" % i, b"x") for i in range(1000)], NOW_MS)
    assert len(synced) == 1
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
        directory.mkdir(exist_ok=True)
        (directory / SEGMENT).write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        store = open_store(directory)
        assert store.records() == appended[:whole], cut
        assert (store.problems == []) == (cut in (0, *ends)), cut
        store.append([(b"after", b"!")], NOW_MS)
        store.close()
        assert contents(directory) == {**dict(appended[:whole]), b"after": b"!"}, cut


@pytest.mark.parametrize(
    "tail", [bytes(5), bytes(4096), b"\xff" * 100, b"\0" * 12 + offset_store._MARK + bytes(200)]
)
def test_a_tail_of_anything_is_cut(tmp_path: Path, tail: bytes) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    store.close()
    with open(tmp_path / SEGMENT, "ab") as file:
        file.write(tail)
    store = open_store(tmp_path)
    assert store.records() == [(b"a", b"1")]
    assert f"{len(tail)} bytes of an unfinished write" in store.problems[0]
    store.close()
    assert not (tmp_path / (SEGMENT + DAMAGED)).exists()


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
            assert len(kept) == 5, (
                position
            )  # base offset and leader epoch are not under the checksum
            continue
        assert set(kept) == {b"key-0", b"key-1", b"key-3", b"key-4"}, position
        assert "damaged" in store.problems[0]
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
    offsets = [
        r.offset for b in decode_batches((tmp_path / SEGMENT).read_bytes()) for r in b.records
    ]
    assert offsets == sorted(set(offsets)) and offsets[-1] == turns * 3  # renumbered never


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
    from kwire.records import Record

    far = [
        Record(offset=o, timestamp=1, key=b"k", value=b"v") for o in (0, 5, 2**31 + 5, 2**31 + 6)
    ]
    batches = list(decode_batches(b"".join(offset_store._batches(far))))
    assert [[r.offset for r in b.records] for b in batches] == [[0, 5], [2**31 + 5, 2**31 + 6]]


@pytest.mark.parametrize("point", ["write", "fsync", "rename", "directory"])
def test_a_compaction_that_stops_anywhere_leaves_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], NOW_MS)

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        if point == "write":
            patched.setattr(os, "write", fail)
        elif point == "directory":
            patched.setattr(offset_store, "_sync_directory", fail)
        else:
            patched.setattr(os, point, fail)
        with pytest.raises(OSError, match="no space"):
            store.compact()
    assert store.records() == [(b"b", b"2"), (b"a", b"3")]
    store.append([(b"c", b"4")], NOW_MS)
    store.close()
    assert contents(tmp_path) == {b"a": b"3", b"b": b"2", b"c": b"4"}
    assert not (tmp_path / (SEGMENT + CLEANED)).exists()


def test_a_failed_write_ends_the_store_and_a_new_one_begins_with_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    inode = (tmp_path / SEGMENT).stat().st_ino
    real_write = os.write
    with monkeypatch.context() as patched:
        calls = iter([True, False])

        def half(file: int, data: Any) -> int:
            if next(calls):
                return real_write(file, data[:30])
            raise OSError(errno.ENOSPC, "no space")

        patched.setattr(os, "write", half)
        with pytest.raises(OSError, match="no space"):
            store.append([(b"b", b"2")], NOW_MS)
    with pytest.raises(OSError, match="a write to it failed"):
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
    with pytest.raises(StoreLockedError, match=r"state\.dir of its own"):
        open_store(tmp_path)
    store.close()
    open_store(tmp_path).close()


def test_an_unreadable_place_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(OSError):
        open_store(tmp_path / "file" / "below")
