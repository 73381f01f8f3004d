"""A partition that holds data, whose jobs a test performs, and batches for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.broker.produce.producer_state import Verification
from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import ProducedBatch, TopicRules
from gateway.log.files.errors import SyncFailed
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.replicas import Appended
from gateway.sources.data_partition import Broker, DataPartition
from gateway.sources.partition_checkpoint import PlannedCheckpoint
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.records import Record, decode_batches, encode_batch
from kwire.uuid import Uuid
from tests.gateway.broker.produce.batches import check
from tests.gateway.sources.reading import batches_from

NODE = 1
LEADER = 2  #: Another broker.
TOPIC_ID = Uuid(bytes(range(16)))
SETTINGS = LogSettings(fsync=False)


class Ticking:
    """A clock that goes on by ``step`` seconds with each look at it."""

    def __init__(self) -> None:
        self.step = 0.0
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self.step
        return self._now


def record(epoch: int = 1, *replicas: int, **more: Any) -> PartitionRecord:
    """A partition that this node leads in ``epoch``, alone if no replicas are given."""
    some = list(replicas or (NODE,))
    more.setdefault("isr", some)
    more.setdefault("partition_epoch", epoch)
    return PartitionRecord(
        topic_id=TOPIC_ID, leader=NODE, leader_epoch=epoch, replicas=some, **more
    )


def record_of_leader(epoch: int) -> PartitionRecord:
    """The partition in ``epoch``, which another broker leads."""
    return PartitionRecord(
        topic_id=TOPIC_ID,
        leader=LEADER,
        leader_epoch=epoch,
        partition_epoch=epoch,
        replicas=[LEADER, NODE],
        isr=[LEADER, NODE],
    )


def broker(**more: Any) -> Broker:
    """The broker of the partition, beside others that are registered with epoch 100."""
    return Broker(
        NODE,
        lambda broker_id: RegisterBrokerRecord(broker_id=broker_id, broker_epoch=100, fenced=False),
        lambda: 100,
        more.get("now", lambda: 0.0),
        more.get("propose", lambda partition, proposal: None),
        30.0,
    )


def partition(directory: Path, settings: LogSettings = SETTINGS, **more: Any) -> DataPartition:
    """A partition that is not open yet."""
    more.setdefault("wake", lambda partition: None)
    return DataPartition(
        directory,
        TOPIC_ID,
        0,
        broker=more.pop("broker", None) or broker(),
        cluster_id="c",
        settings=lambda: settings,
        rules=TopicRules,
        **more,
    )


def led(directory: Path, settings: LogSettings = SETTINGS, epoch: int = 1, **more: Any) -> Any:
    """An open partition that this node leads."""
    made = partition(directory, settings, **more)
    made.lead(record(epoch))
    settle(made)
    return made


def kill(one: DataPartition) -> None:
    """Close the files of a partition as the end of its process does, which writes nothing."""
    if one.stored.log is not None:
        one.stored.log._active.close()
    one.stored.producers.close()


def settle(one: DataPartition) -> None:
    """Perform the jobs that are due, and those that they lead to."""
    while one.has_jobs:
        one.performed(one.perform(one.take_jobs()))


def checkpoint(one: DataPartition) -> bool:
    """Bring everything to disk beside appends, as the broker does in intervals; whether there was
    anything.
    """
    made: list[PlannedCheckpoint | None] = []
    one.checkpoint.plan(made.append)
    settle(one)
    if made[0] is not None:
        write(one, made[0])
        one.stored.checkpoints.recovery_points.save()
    return made[0] is not None


def write(one: DataPartition, made: PlannedCheckpoint) -> None:
    """Write a checkpoint that was planned, and note it."""
    failure = None
    try:
        made.write()
    except SyncFailed as error:
        failure = error
    one.checkpoint.note(made, failure, lambda _: None)
    settle(one)


def stop(one: DataPartition) -> None:
    """Close a partition as a clean stop of the broker does."""
    one.close()
    one.stored.checkpoints.recovery_points.save()


def batch_of(*values: bytes, timestamp: int = 1000, **header: Any) -> ProducedBatch:
    """A batch as the handler gives it to a partition."""
    records = [
        Record(offset=offset, timestamp=timestamp, value=value)
        for offset, value in enumerate(values)
    ]
    return check(encode_batch(records, **header))


def appended(
    one: DataPartition, batch: ProducedBatch, verification: Verification | None = None
) -> Appended | BatchRefused:
    """The outcome of an append, after the jobs that it takes."""
    outcomes: list[Appended | BatchRefused] = []
    one.append(batch, outcomes.append, verification)
    settle(one)
    assert len(outcomes) == 1, "the outcome comes once"
    return outcomes[0]


def shown(one: DataPartition) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record that readers get."""
    data = b"".join(data for _, _, data in batches_from(one, one.log_start_offset))
    return [
        (record.offset, record.value) for batch in decode_batches(data) for record in batch.records
    ]
