"""A writer of metadata log directories that moves files about as Kafka does, and remembers what a
reader must see.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records.encode import encode_batch
from kwire.records.record import Record

_START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class WrittenBatch:
    """One batch in the log."""

    offset: int
    next_offset: int
    epoch: int
    timestamps: tuple[int, ...]
    data: bytes


def batch(
    offset: int,
    count: int = 1,
    epoch: int = 1,
    *,
    timestamps: tuple[int, ...] = (),
    size: int = 10,
    control: bool = False,
) -> WrittenBatch:
    """A batch of ``count`` records with values of ``size`` bytes; ``timestamps`` in ms, one a
    record.
    """
    times = timestamps or (_START_MS + offset,) * count
    key = b"\0\0\0\2" if control else None
    records = [
        Record(offset=offset + n, timestamp=time, key=key, value=bytes([(offset + n) % 251]) * size)
        for n, time in enumerate(times)
    ]
    data = encode_batch(records, partition_leader_epoch=epoch, is_control=control)
    return WrittenBatch(offset, offset + len(times), epoch, times, data)


def snapshot_bytes(
    epoch: int, counts: tuple[int, ...], *, size: int = 20, footer: bool = True
) -> bytes:
    """A snapshot: header, data batches of ``counts`` records, footer; ``sum(counts) + 2`` records
    in all.
    """
    parts = [_control(0, epoch, kind=3)]
    offset = 1
    for count in counts:
        parts.append(batch(offset, count, epoch, size=size).data)
        offset += count
    if footer:
        parts.append(_control(offset, epoch, kind=4))
    return b"".join(parts)


def _control(offset: int, epoch: int, kind: int) -> bytes:
    key = bytes([0, 0, 0, kind])
    record = Record(offset=offset, timestamp=_START_MS, key=key, value=b"\0\0\0")
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)


class KafkaLog:
    """A ``__cluster_metadata-0`` directory that a test changes. ``segments``: base offset ->
    batches, oldest first.
    """

    def __init__(self, directory: Path, start: int = 0) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.segments: dict[int, list[WrittenBatch]] = {}
        self.epoch = 1
        self._open(start)

    @property
    def batches(self) -> list[WrittenBatch]:
        return [one for batches in self.segments.values() for one in batches]

    @property
    def end(self) -> int:
        base, batches = list(self.segments.items())[-1]
        return batches[-1].next_offset if batches else base

    def active(self) -> Path:
        return self.path(list(self.segments)[-1])

    def path(self, base: int) -> Path:
        return self.directory / segment_name(base)

    def append(
        self, count: int = 1, *, size: int = 10, timestamps: tuple[int, ...] = ()
    ) -> WrittenBatch:
        one = batch(self.end, count, self.epoch, size=size, timestamps=timestamps)
        list(self.segments.values())[-1].append(one)
        with self.active().open("ab") as file:
            file.write(one.data)
        return one

    def roll(self) -> None:
        if self.end not in self.segments:
            self._open(self.end)

    def truncate_to(self, offset: int) -> None:
        """As ``UnifiedLog.truncateTo``: later segments go, the one that holds ``offset`` is cut
        before its batch.
        """
        for base in [
            base for base in self.segments if base >= offset and base != next(iter(self.segments))
        ]:
            self._delete(base)
        base, batches = list(self.segments.items())[-1]
        kept = [one for one in batches if one.next_offset <= offset]
        self.segments[base] = kept
        os.truncate(self.path(base), sum(len(one.data) for one in kept))

    def snapshot(self, end_offset: int, counts: tuple[int, ...] = (3,), **kind: Any) -> SnapshotId:
        epoch = next(
            (one.epoch for one in reversed(self.batches) if one.offset < end_offset), self.epoch
        )
        snapshot = SnapshotId(end_offset, epoch)
        part = self.directory / f"{snapshot.file_name}.part"
        part.write_bytes(snapshot_bytes(epoch, counts, **kind))
        part.rename(self.directory / snapshot.file_name)
        return snapshot

    def delete_before(self, snapshot: SnapshotId) -> None:
        """As ``KafkaMetadataLog.deleteBeforeSnapshot``: whole segments below it, then older
        snapshots.
        """
        bases = list(self.segments)
        for base, following in itertools.pairwise(bases):
            if following <= snapshot.end_offset:
                self._delete(base)
        for path in self.directory.glob("*.checkpoint"):
            if path.name < snapshot.file_name:
                path.rename(f"{path}.deleted")

    def _open(self, base: int) -> None:
        self.segments[base] = []
        self.path(base).touch()

    def _delete(self, base: int) -> None:
        del self.segments[base]
        path = self.path(base)
        path.rename(f"{path}.deleted")
