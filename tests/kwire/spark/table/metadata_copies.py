"""Writes log directories of a made-up cluster: from its first record on, or from a snapshot on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from gateway.log.files.disk import Disk
from gateway.log.metadata.snapshot_file import SnapshotFile
from gateway.log.metadata.snapshot_writer import SnapshotWriter
from kwire.cluster import Image, apply
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.spark.table.kinds import KINDS
from kwire.uuid import Uuid

_EPOCH = 3


def topic_id(n: int) -> Uuid:
    return Uuid(n.to_bytes(16, "big"))


def life(seed: str, count: int) -> list[Message]:
    """The records of a cluster in which topics come and go, and their partitions change."""
    rng = random.Random(seed)
    records: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=20)]
    alive: list[int] = []
    while len(records) < count:
        pick = rng.random()
        if pick < 0.3 or not alive:
            alive.append(len(records) + 1)
            ids = topic_id(alive[-1])
            records.append(TopicRecord(name=f"t{alive[-1]}", topic_id=ids))
            records.append(
                PartitionRecord(topic_id=ids, partition_id=0, replicas=[1], isr=[1], leader=1)
            )
        elif pick < 0.5:
            records.append(
                RemoveTopicRecord(topic_id=topic_id(alive.pop(rng.randrange(len(alive)))))
            )
        elif pick < 0.7:
            leader, ids = rng.randint(1, 3), topic_id(rng.choice(alive))
            records.append(PartitionChangeRecord(topic_id=ids, partition_id=0, leader=leader))
        elif pick < 0.9:
            name = f"t{rng.choice(alive)}"
            value = str(rng.randint(1, 9)) if rng.random() < 0.7 else None
            config = ConfigRecord(resource_type=2, resource_name=name, name="retention.ms")
            records.append(config.copy(value=value))
        else:
            records.append(NoOpRecord())
    return records[:count]


RECORDS = life("records", 200)


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
