"""Writes log directories of a made-up cluster: from its first record on, or from a snapshot on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gateway.log.files.disk import Disk
from gateway.log.metadata.snapshot_file import SnapshotFile
from gateway.log.metadata.snapshot_writer import SnapshotWriter
from kwire.cluster import Image, apply
from kwire.message import Message
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.spark.table.kinds import KINDS

_EPOCH = 3


def time_of(offset: int) -> int:
    """The timestamp (ms) of the record at ``offset``."""
    return 1_700_000_000_000 + 1000 * offset


def write_copy(
    into: Path,
    records: Sequence[Message],
    *,
    since: int = 0,
    end: int | None = None,
    cluster: str | None = "gapsgapsgapsgapsgapsga",
    late_ms: int = 0,
) -> Path:
    """Write a log directory with ``records`` from offset ``since`` to ``end``, one in each batch,
    ``late_ms`` later than usual, and a snapshot of those before ``since``. It replaces what is
    there, and is returned.
    """
    directory = into / "__cluster_metadata-0"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if cluster is not None:
        (into / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    if since:
        _write_snapshot(directory, records[:since], late_ms)
    data = b"".join(
        encode_batch(
            [Record(offset=offset, timestamp=time_of(offset) + late_ms, value=_value(record))],
            partition_leader_epoch=_EPOCH,
        )
        for offset, record in enumerate(records[:end])
        if offset >= since
    )
    (directory / f"{since:020d}.log").write_bytes(data)
    return into


def image_of(records: Sequence[Message]) -> Image:
    """The state behind ``records``."""
    image = Image()
    for record in records:
        apply(image, record)
    return image


def _write_snapshot(directory: Path, records: Sequence[Message], late_ms: int) -> None:
    identity = SnapshotId(len(records), _EPOCH)
    file = SnapshotFile(
        SnapshotWriter(Disk(), directory, identity),
        identity,
        last_contained_log_timestamp=time_of(len(records) - 1) + late_ms,
    )
    image = image_of(records)
    for kind in KINDS:
        for key in kind.keys(image):
            record = kind.record(image, key)
            assert record is not None
            file.append(_value(record))
    file.finish()


def _value(record: Message) -> bytes:
    return encode_metadata_record(record, record.VERSIONS[-1])
