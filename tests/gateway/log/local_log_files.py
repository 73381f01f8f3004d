"""Makes local logs for tests, fills them with batches, and installs snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import WrittenBatch, batch, snapshot_bytes

FIRST = "00000000000000000000.log"


def small(tmp_path: Path, **settings: Any) -> LocalLog:
    """One whose segments hold five of the smallest batches."""
    return LocalLog.open(
        tmp_path,
        LogSettings(**{"segment_bytes": 400, "index_interval_bytes": 100, **settings}),
    )


def fill(log: LocalLog, epoch: int, count: int = 1, records: int = 1) -> list[WrittenBatch]:
    batches = []
    for _ in range(count):
        batches.append(batch(log.end_offset, records, epoch))
        log.append(batches[-1].data)
    return batches


def install(log: LocalLog, snapshot: SnapshotId, data: bytes | None = None) -> None:
    writer = log.new_snapshot(snapshot)
    writer.write(0, data or snapshot_bytes(snapshot.epoch, (3,)))
    writer.freeze()
    log.truncate_to_snapshot(snapshot)


def segments(log: LocalLog) -> list[int]:
    return sorted(int(path.stem) for path in log.directory.glob("*.log"))
