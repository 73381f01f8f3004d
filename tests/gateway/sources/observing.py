"""An observed log under a test's hands: what the driver does with it, in short words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.log.local_log import LocalLog, LogSettings
from gateway.quorum.effects import (
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    SnapshotChunk,
)
from gateway.snapshot_id import SnapshotId
from gateway.sources.observed_log import ObservedLog, open_observed_log
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import batch, snapshot_bytes

CLUSTER = "7QN8irUjSqO4QGNDS7ESyw"
SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150, retention_bytes=1, retention_ms=-1)


def reopened(root: Path, *, prefix: bool = True, settings: LogSettings = SMALL, cluster_id: str | None = None) -> ObservedLog:
    return open_observed_log(root, settings, cluster_id=cluster_id, node_id=7, snapshot_prefix=prefix)


def on(root: Path, disk: FaultyDisk) -> ObservedLog:
    """A source on a disk that fails."""
    opened = ObservedLog(LocalLog.open(root, SMALL, disk=disk), node_id=7, snapshot_prefix=True)
    opened.begin(None)
    opened.caught_up = True
    return opened


def do(source: ObservedLog, *effects: Effect) -> str | None:
    """What the driver does with the effects of one answer."""
    refused = source.perform(effects)
    source.publish()
    return refused


def appended(source: ObservedLog, count: int = 2, epoch: int = 1, **kind: Any) -> Append:
    return Append(batch(source.log.end_offset, count, epoch, **kind).data)


def fill(source: ObservedLog, batches: int = 3, epoch: int = 1) -> int:
    """So many batches, all committed; returns the high watermark."""
    for _ in range(batches):
        assert do(source, appended(source, epoch=epoch)) is None
    assert do(source, Advance(source.log.end_offset)) is None
    return source.high_watermark


def install(source: ObservedLog, end_offset: int, epoch: int, counts: tuple[int, ...] = (3,)) -> str | None:
    data, id = snapshot_bytes(epoch, counts), SnapshotId(end_offset, epoch)
    middle = len(data) // 2
    return do(
        source,
        BeginSnapshot(id),
        SnapshotChunk(0, data[:middle], len(data)),
        SnapshotChunk(middle, data[middle:], len(data)),
        InstallSnapshot(id),
        Advance(end_offset),
    )


def edge(source: ObservedLog) -> tuple[int, int]:
    return source.log_start_offset, source.high_watermark


def appended_at(offset: int, count: int, epoch: int = 1) -> Append:
    return Append(batch(offset, count, epoch).data)


def damage(path: Path, position: int) -> None:
    """One bit, as a failing disk may change it."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))
