"""Compares reads of a log source with the bytes in the files, also after random changes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.ports.services import OffsetAt, State
from gateway.sources import LogDirectory, open_log
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import KafkaLog, WrittenBatch, batch
from tests.gateway.sources.reading import batches_from, caught_up, records_of


def moved(data: bytes, by: int) -> list[tuple[int, int, bytes]]:
    """The batches of a snapshot file as they must be served, base offsets ``by`` higher."""
    from kwire.records.header import iter_batches

    return [
        (
            header.base_offset + by,
            header.next_offset + by,
            (header.base_offset + by).to_bytes(8) + data[header.position + 8 : header.end],
        )
        for header in iter_batches(data)
    ]


def plain(batches: list[WrittenBatch], start: int = 0) -> list[tuple[int, int, bytes]]:
    return [(one.offset, one.next_offset, one.data) for one in batches if one.next_offset > start]


def check_lookups(source: LogDirectory) -> None:
    """Timestamps, epochs and their ends against the records themselves."""
    records = seen_by_a_client(source)
    for timestamp in {time + add for _, time, _ in records for add in (-1, 0, 1)} | {0, 1 << 60}:
        first = next((one for one in records if one[1] >= timestamp), None)
        assert source.offset_for_timestamp(timestamp) == (first and OffsetAt(*first))
    largest = max((one for one in records), key=lambda one: (one[1], -one[0]), default=None)
    assert source.max_timestamp() == (largest and OffsetAt(*largest))
    for offset, _, epoch in records:
        assert source.epoch_at(offset) == epoch
    assert (
        source.epoch_at(source.log_start_offset - 1) == source.epoch_at(source.high_watermark) == -1
    )
    known = sorted({epoch for _, _, epoch in records})
    for epoch in range((known[-1] if known else 0) + 2):
        pending = [offset for offset, _, other in records if other > epoch]
        floor = max((one for one in known if one <= epoch), default=None)
        expected = (
            (-1, -1)
            if not known or epoch > known[-1]
            else (epoch, pending[0])
            if floor is None
            else None
        )
        end = pending[0] if pending else source.high_watermark
        assert source.end_offset_for_epoch(epoch) == (expected or (floor, end))


def seen_by_a_client(source: LogDirectory) -> list[tuple[int, int, int]]:
    """(offset, timestamp, epoch) of the records that a client takes: those at or above its
    position.
    """
    position, taken = source.log_start_offset, []
    for record in records_of(batches_from(source, position)):
        if record[0] >= position:
            taken.append(record)
            position = record[0] + 1
    return taken


# --- everything in any order
# -------------------------------------------------------------------------------------------------


class Following(RuleBasedStateMachine):
    """Kafka writes, rolls, truncates and cleans; whenever the source looks, it must show exactly
    what is there.
    """

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.log = KafkaLog(self.directory / "__cluster_metadata-0")
        self.source = caught_up(open_log(self.directory))
        self.snapshots: dict[int, SnapshotId] = {}
        self.torn: WrittenBatch | None = None
        self.looked = True

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @precondition(lambda self: not self.torn)
    @rule(
        times=st.lists(st.integers(0, 50), min_size=1, max_size=4),
        size=st.sampled_from([0, 10, 300, 5000]),
        n=st.integers(1, 9),
    )
    def append(self, times: list[int], size: int, n: int) -> None:
        for _ in range(n):
            self.log.append(size=size, timestamps=tuple(times))

    @precondition(lambda self: not self.torn)
    @rule(cut=st.integers(1, 70))
    def append_part(self, cut: int) -> None:
        self.torn = batch(self.log.end, 1, self.log.epoch, size=30)
        with self.log.active().open("ab") as file:
            file.write(self.torn.data[:cut])
        self.rest = self.torn.data[cut:]

    @precondition(lambda self: self.torn)
    @rule()
    def append_rest(self) -> None:
        assert self.torn
        with self.log.active().open("ab") as file:
            file.write(self.rest)
        list(self.log.segments.values())[-1].append(self.torn)
        self.torn = None

    @precondition(lambda self: not self.torn)
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(back=st.integers(0, 30), raise_epoch=st.booleans())
    def truncate(self, back: int, raise_epoch: bool) -> None:
        lowest = max([next(iter(self.log.segments)), *self.snapshots])
        self.log.truncate_to(max(lowest, self.log.end - back))
        self.torn = None
        # The records after a truncation come from a new leader.
        self.log.epoch += 1 + raise_epoch

    @precondition(lambda self: self.log.batches and not self.torn)
    @rule(data=st.data(), counts=st.lists(st.integers(1, 4), max_size=3))
    def snapshot(self, data: st.DataObject, counts: list[int]) -> None:
        ends = [
            one.next_offset
            for one in self.log.batches
            if one.next_offset > max(self.snapshots, default=0)
        ]
        if ends:
            end = data.draw(st.sampled_from(ends))
            self.snapshots[end] = self.log.snapshot(end, tuple(counts))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        oldest = data.draw(st.sampled_from(sorted(self.snapshots)))
        self.log.delete_before(self.snapshots[oldest])
        self.snapshots = {end: one for end, one in self.snapshots.items() if end >= oldest}

    @rule()
    def rescan(self) -> None:
        caught_up(self.source)
        self.check(self.source)

    @rule()
    def open_anew(self) -> None:
        self.check(caught_up(open_log(self.directory)))

    @invariant()
    def never_writes(self) -> None:
        assert not list(self.directory.glob("**/*.tmp"))

    def check(self, source: LogDirectory) -> None:
        first = next(iter(self.log.segments))
        start, prefix = 0, []
        if first > 0:
            start = next(end for end in sorted(self.snapshots) if end >= first)
            data = (self.log.directory / self.snapshots[start].file_name).read_bytes()
            count = moved(data, 0)[-1][1]
            prefix = moved(data, start - count) if count <= start else []
        expected = [*prefix, *plain(self.log.batches, start)]
        assert source.state is State.READY
        assert source.high_watermark == max(start, self.log.end)
        assert source.log_start_offset == (prefix[0][0] if prefix else start)
        assert batches_from(source, source.log_start_offset, 700) == expected
        assert bool(source.problems) == bool(self.torn or (first > 0 and not prefix))
        if expected:
            check_lookups(source)
