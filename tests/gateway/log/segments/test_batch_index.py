"""The index against Kafka's own dump of every file, and against every way a file can be cut,
damaged or rewritten.
"""

import json
import os
from pathlib import Path
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.segments import batch_index
from gateway.log.segments.batch_index import BatchIndex, Status
from gateway.log.segments.segment_slice import Slot
from kwire.metadata_log.open_file import OpenFile
from tests.gateway.log.kafka_files import WrittenBatch, batch
from tests.shared import LOG_NAMES, needs_shared


def indexed(path: Path, base: int | None = 0, floor: int = 0) -> BatchIndex:
    index = BatchIndex(OpenFile(str(path)), base, floor)
    while index.status is Status.BEHIND:
        index.scan(1 << 20)
    return index


def all_slots(index: BatchIndex) -> list[tuple[int, int, int, int]]:
    return [(slot.position, slot.size, slot.offset, slot.next_offset) for slot in slots_of(index)]


def slots_of(index: BatchIndex) -> list[Slot]:
    whole = index.slice()
    return list(whole.slots()) if whole is not None else []


def written(path: Path, batches: list[WrittenBatch]) -> Path:
    path.write_bytes(b"".join(one.data for one in batches))
    return path


def places(batches: list[WrittenBatch], before: int = 0) -> list[tuple[int, int, int, int]]:
    out = []
    for one in batches:
        out.append((before, len(one.data), one.offset, one.next_offset))
        before += len(one.data)
    return out


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_batch_is_where_kafka_says(logs: Any, name: str) -> None:
    checked = 0
    for truth in sorted(logs(name).glob("**/truth/*/*.batches.jsonl")):
        node = truth.parent.parent.parent / "nodes" / truth.parent.name / "__cluster_metadata-0"
        file = node / truth.name.removesuffix(".batches.jsonl")
        said = [json.loads(line) for line in truth.read_text(encoding="utf-8").split("\n") if line]
        index = indexed(file, None)
        assert (index.status, index.problem, index.end) == (
            Status.AT_END,
            None,
            file.stat().st_size,
        )
        assert all_slots(index) == [
            (b["position"], b["size"], b["baseOffset"], b["lastOffset"] + 1) for b in said
        ]
        assert [index.epoch_at(b["baseOffset"]) for b in said] == [b["epoch"] for b in said]
        assert [slot.max_timestamp for slot in slots_of(index)] == [b["maxTimestamp"] for b in said]
        assert index.running_max[-1] == max(b["maxTimestamp"] for b in said)
        checked += len(said)
    assert checked


def test_memory_is_an_entry_a_block_not_a_batch(tmp_path: Path) -> None:
    batches = [batch(offset) for offset in range(2000)]
    index = indexed(written(tmp_path / "log", batches))
    assert len(index.positions) <= index.end // batch_index.BLOCK_BYTES + 1
    assert all_slots(index) == places(batches)


@pytest.mark.parametrize("chunk", [batch_index.BATCH_OVERHEAD, 100, 1000])  # type: ignore[attr-defined]
def test_batches_larger_than_a_chunk(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_index, "CHUNK_BYTES", chunk)
    batches = [batch(0, size=5), batch(1, size=5000), batch(2, 3, size=900), batch(5, size=1)]
    path = written(tmp_path / "log", batches)
    assert all_slots(indexed(path)) == places(batches)
    damaged = bytearray(path.read_bytes())
    damaged[3000] ^= 1
    path.write_bytes(damaged)
    index = indexed(path)
    assert index.status is Status.CORRUPT and index.next_offset == 1
    assert (
        index.problem
        and index.problem.position == len(batches[0].data)
        and "CRC" in index.problem.reason
    )


def test_a_step_is_bounded(tmp_path: Path) -> None:
    batches = [batch(offset, size=100_000) for offset in range(40)]
    index = BatchIndex(OpenFile(str(written(tmp_path / "log", batches))), 0)
    steps = 0
    while index.status is Status.BEHIND:
        assert index.scan(1) <= 2 * batch_index.CHUNK_BYTES
        steps += 1
    assert steps > 10 and index.next_offset == 40


def test_cut_at_every_byte(tmp_path: Path) -> None:
    batches = [batch(0, 2), batch(2), batch(3, 3)]
    data = b"".join(one.data for one in batches)
    ends = [0, *(position + size for position, size, _, _ in places(batches))]
    path = tmp_path / "log"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        index = indexed(path)
        whole = [end for end in ends if end <= cut]
        assert index.end == whole[-1]
        assert index.status is (Status.AT_END if cut in ends else Status.TORN)
        assert (index.problem is None) == (cut in ends)


def test_grown_byte_by_byte(tmp_path: Path) -> None:
    batches = [batch(0, 2), batch(2), batch(3, 3)]
    path = tmp_path / "log"
    path.touch()
    index = BatchIndex(OpenFile(str(path)), 0)
    done = 0
    with path.open("ab", buffering=0) as file:
        for number, one in enumerate(batches):
            for byte in one.data:
                assert index.next_offset == (batches[number].offset)
                file.write(bytes([byte]))
                assert index.maybe_changed() and index.intact()
                index.scan(1 << 20)
            done += len(one.data)
            assert (index.end, index.next_offset, index.status) == (
                done,
                one.next_offset,
                Status.AT_END,
            )


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"\0\0\0\0\0\0\0\x07", "stands where offset 2"),
        (8, b"\0\0\0\x05", "length 5"),
        (8, b"\xff\xff\xff\xff", "length -1"),
        (12, b"\0\0\0\0", "epoch 0 at offset 2 follows epoch 1"),
        (16, b"\x01", "magic"),
        (17, b"\0\0\0\0", "CRC"),
        (61, b"\xee", "CRC"),
    ],
)
def test_a_corrupt_middle_is_named_and_ends_it(
    tmp_path: Path, at: int, value: bytes, reason: str
) -> None:
    batches = [batch(0, 2), batch(2), batch(3, 3)]
    data = bytearray(b"".join(one.data for one in batches))
    second = len(batches[0].data)
    data[second + at : second + at + len(value)] = value
    path = tmp_path / "log"
    path.write_bytes(data)
    index = indexed(path)
    assert (index.status, index.end, index.next_offset) == (Status.CORRUPT, second, 2)
    assert index.problem and index.problem.position == second and index.problem.file == str(path)
    assert reason in index.problem.reason


def test_zeros_behind_the_end_are_waited_for(tmp_path: Path) -> None:
    path = written(tmp_path / "log", [batch(0)])
    with path.open("ab") as file:
        file.write(bytes(1000))
    index = indexed(path)
    assert (index.status, index.next_offset) == (Status.TORN, 1)
    with path.open("ab") as file:
        file.write(batch(1).data)
    assert indexed(path).status is Status.CORRUPT


def test_a_first_batch_elsewhere_than_the_name_says(tmp_path: Path) -> None:
    path = written(tmp_path / "log", [batch(5)])
    assert indexed(path, 4).status is Status.CORRUPT
    assert indexed(path, None).next_offset == 6


def test_intact_sees_what_size_and_time_do_not(tmp_path: Path) -> None:
    batches = [batch(0), batch(1), batch(2)]
    path = written(tmp_path / "log", batches)
    index = indexed(path)
    assert index.intact()
    rewritten = [batches[0], batch(1, epoch=2), batch(2, epoch=2)]
    path.write_bytes(b"".join(one.data for one in rewritten))
    assert not index.intact()
    again = index.rewound()
    again.scan(1 << 20)
    assert again.epochs == [(1, 0), (2, 1)] and all_slots(again) == places(rewritten)


@given(
    before=st.lists(st.integers(1, 900), min_size=1, max_size=60),
    keep=st.integers(0, 60),
    after=st.lists(st.integers(1, 900), max_size=60),
)
def test_rewound_is_what_a_fresh_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, before: list[int], keep: int, after: list[int]
) -> None:
    path = tmp_path_factory.mktemp("rewound") / "log"
    batches = [batch(offset, size=size) for offset, size in enumerate(before)]
    index = indexed(written(path, batches))
    kept = batches[:keep]
    rewritten = [*kept, *(batch(len(kept) + n, epoch=2, size=size) for n, size in enumerate(after))]
    data = b"".join(one.data for one in rewritten)
    with path.open("r+b") as file:  # the same file, as Kafka cuts it
        file.write(data)
        file.truncate()
    if not index.intact():
        index = index.rewound()
    index.scan(1 << 24)
    fresh = indexed(path)
    assert all_slots(index) == all_slots(fresh) == places(rewritten)
    assert (index.epochs, index.next_offset, index.end) == (
        fresh.epochs,
        fresh.next_offset,
        fresh.end,
    )
    assert index.running_max[-1:] == fresh.running_max[-1:]


@given(
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=60),
    counts=st.integers(1, 3),
    floor=st.integers(0, 200),
)
def test_raised_is_what_a_fresh_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], counts: int, floor: int
) -> None:
    path = tmp_path_factory.mktemp("raised") / "log"
    batches = [batch(n * counts, counts, 1 + n // 7, size=size) for n, size in enumerate(sizes)]
    with_floor = indexed(written(path, batches)).with_floor(floor)
    fresh = indexed(path, 0, floor)
    expected = [one for one in batches if one.next_offset > floor]
    slots = [place for place in places(batches) if place[3] > floor]
    assert all_slots(with_floor) == all_slots(fresh) == slots
    assert with_floor.epochs == fresh.epochs
    assert (with_floor.end, with_floor.next_offset, with_floor.status) == (
        fresh.end,
        fresh.next_offset,
        fresh.status,
    )
    if expected:
        assert (
            with_floor.running_max[-1]
            == fresh.running_max[-1]
            == max(max(one.timestamps) for one in expected)
        )
    assert with_floor.intact()


def test_lookup_in_a_truncated_file_finds_less(tmp_path: Path) -> None:
    batches = [batch(0), batch(1)]
    path = written(tmp_path / "log", batches)
    index = indexed(path)
    os.truncate(path, len(batches[0].data) + 30)
    assert len(slots_of(index)) == 1
    os.truncate(path, 0)
    assert slots_of(index) == []
    assert not index.intact() and index.rewound().end == 0


def test_a_large_batch_must_follow_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_index, "CHUNK_BYTES", 200)
    index = indexed(written(tmp_path / "log", [batch(0), batch(7, size=5000)]))
    assert (index.status, index.next_offset) == (Status.CORRUPT, 1)


def test_a_last_offset_below_the_first_is_damage(tmp_path: Path) -> None:
    data = bytearray(batch(0, 3).data)
    data[23:27] = b"\xff\xff\xff\xfe"
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4)
    (tmp_path / "log").write_bytes(data)
    index = indexed(tmp_path / "log")
    assert index.status is Status.CORRUPT and "last offset delta -2" in str(index.problem)


def test_a_file_that_shrinks_while_a_large_batch_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_index, "CHUNK_BYTES", 200)
    path = written(tmp_path / "log", [batch(0, size=5000)])
    index = BatchIndex(OpenFile(str(path)), 0)
    size, time_ns = index.file.status()
    os.truncate(path, 1000)
    monkeypatch.setattr(OpenFile, "status", lambda self: (size, time_ns))
    index.scan(1 << 20)
    assert index.status is Status.CORRUPT and index.next_offset == 0
    monkeypatch.undo()
    assert index.maybe_changed()
    index.scan(1 << 20)
    assert index.status is Status.TORN  # type: ignore[comparison-overlap]


def test_raised_in_a_file_that_was_cut_begins_anew(tmp_path: Path) -> None:
    path = written(tmp_path / "log", [batch(0, 5), batch(5, 5)])
    index = indexed(path)
    os.truncate(path, 0)
    with_floor = index.with_floor(7)
    assert (with_floor.end, with_floor.status, with_floor.floor) == (0, Status.BEHIND, 7)


def test_slots_of_a_file_written_over(tmp_path: Path) -> None:
    path = written(tmp_path / "log", [batch(0), batch(1)])
    index = indexed(path)
    path.write_bytes(b"\0" * index.end)
    assert slots_of(index) == []


def test_short_reads_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "log", [batch(0, size=300)])
    real = os.pread
    monkeypatch.setattr(
        "kwire.metadata_log.open_file.os.pread",
        lambda fd, length, position: real(fd, min(length, 50), position),
    )
    assert indexed(path).status is Status.AT_END
