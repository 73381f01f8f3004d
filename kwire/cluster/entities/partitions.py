"""Describes partitions (``TopicDelta``, ``PartitionRegistration``). Their snapshot and their tree
are those of their topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kwire.cluster.entities.nodes import texts
from kwire.cluster.field_types import INT32, INTS, STRING, TEXTS
from kwire.cluster.image import Image
from kwire.cluster.interned_lists import copy_partition, shared_ids, shared_numbers
from kwire.cluster.kind import Fields, FoldError, Key, Kind, RecordType, State
from kwire.message import Message, bare
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import LeaderRecoveryState
from kwire.protocol.metadata_version import partition_record_version
from kwire.uuid import ZERO_UUID, Uuid

#: Value of ``Leader`` in a PartitionChangeRecord that does not change the leader.
NO_LEADER_CHANGE: Final = -2
#: Fields that a partition loses when it is written at an old version.
_BEFORE: Final[dict[int, dict[str, Any]]] = {
    2: {},
    1: {"eligible_leader_replicas": None, "last_known_elr": None},
    0: {"eligible_leader_replicas": None, "last_known_elr": None, "directories": []},
}
_KEY: Final = ("topic_id", "partition_id")
_RECOVERY_STATES: Final = {int(one): one.name for one in LeaderRecoveryState}
_new_change = bare(PartitionChangeRecord)


def _set(image: Image, record: Any) -> None:
    if not record.directories:
        # Below version 1 the record has none: every replica's directory is unassigned then.
        record = record.copy(directories=shared_ids([ZERO_UUID] * len(record.replicas)))
    _partitions_of(image, record)[record.partition_id] = record


def add_partitions(image: Image, found: Sequence[tuple[Uuid, dict[int, PartitionRecord]]]) -> bool:
    """Apply PartitionRecords, those of each topic by number, as :func:`apply` does one by one.
    False, and nothing is applied, if one does not fit or is below version 1.
    """
    partitions = image.partitions
    for topic_id, records in found:
        # A run has records of one version.
        if topic_id not in partitions or not all(one.directories for one in records.values()):
            return False
    for topic_id, records in found:
        partitions[topic_id].update(records)
    return True


def _change(image: Image, record: Any) -> None:
    partitions = _partitions_of(image, record)
    before = partitions.get(record.partition_id)
    if before is None:
        name = image.topics[record.topic_id]
        raise FoldError(
            f"PartitionChangeRecord for partition {record.partition_id} of {name}, which does not"
            " exist"
        )
    partitions[record.partition_id] = merge(before, record)


def merge(before: PartitionRecord, change: PartitionChangeRecord) -> PartitionRecord:
    """The partition after ``change`` (``PartitionRegistration.merge``): partition epoch + 1; leader
    epoch + 1 where a leader is named, even the same one.
    """
    after = copy_partition(before)
    after.partition_epoch = before.partition_epoch + 1
    # Each by name: whole logs come by here.
    if change.isr is not None:
        after.isr = shared_numbers(change.isr)
    if change.replicas is not None:
        after.replicas = shared_numbers(change.replicas)
    if change.removing_replicas is not None:
        after.removing_replicas = shared_numbers(change.removing_replicas)
    if change.adding_replicas is not None:
        after.adding_replicas = shared_numbers(change.adding_replicas)
    if change.directories is not None:
        after.directories = shared_ids(change.directories)
    # A partition record has no empty ELR, only none at all.
    if change.eligible_leader_replicas is not None:
        after.eligible_leader_replicas = shared_numbers(change.eligible_leader_replicas) or None
    if change.last_known_elr is not None:
        after.last_known_elr = shared_numbers(change.last_known_elr) or None
    if (
        change.replicas is not None
        and change.directories is None
        and not any(map(any, before.directories))
    ):
        # Below version 1 the change tells no directories: those of the new replicas are unassigned
        # like the others.
        after.directories = shared_ids([ZERO_UUID] * len(change.replicas))
    if change.leader != NO_LEADER_CHANGE:
        after.leader = change.leader
        after.leader_epoch = before.leader_epoch + 1
    if change.leader_recovery_state >= 0:
        after.leader_recovery_state = change.leader_recovery_state
    return after


def no_change(partition: PartitionRecord) -> PartitionChangeRecord:
    """Return a change of ``partition`` without any field set, in half the time of the
    constructor.
    """
    change = _new_change()
    change.partition_id = partition.partition_id
    change.topic_id = partition.topic_id
    change.leader = NO_LEADER_CHANGE
    change.leader_recovery_state = -1
    change.isr = change.replicas = change.removing_replicas = change.adding_replicas = (
        change.directories
    ) = None
    change.eligible_leader_replicas = change.last_known_elr = None
    change.unknown_tags = ()
    return change


def _clear_elr(image: Image, record: Any) -> None:
    if record.topic_name:
        topic_id = image.topic_ids.get(record.topic_name)
        if topic_id is None:
            raise FoldError(f"ClearElrRecord for topic {record.topic_name}, which does not exist")
        chosen = [topic_id]
    else:
        chosen = list(image.partitions)
    for topic_id in chosen:
        partitions = image.partitions[topic_id]
        for index, partition in partitions.items():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                change = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                partitions[index] = merge(partition, change)


def _partitions_of(image: Image, record: Any) -> dict[int, PartitionRecord]:
    try:
        return image.partitions[record.topic_id]
    except KeyError:
        raise FoldError(
            f"{record.NAME} for topic {record.topic_id}, which does not exist"
        ) from None


def _touched(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    # Written out: nearly every record of a busy log comes by here.
    yield "partition", (record.topic_id, record.partition_id)


def _with_elr(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    named = image.topic_ids.get(record.topic_name)
    all_topics = sorted(image.partitions) if not record.topic_name else []
    for topic_id in all_topics if named is None else [named]:
        for index, partition in sorted(image.partitions[topic_id].items()):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                yield "partition", (topic_id, index)


def snapshot_of(
    partitions: Mapping[int, PartitionRecord], level: int
) -> Iterator[tuple[Message, int]]:
    """Yield the records of a topic's partitions at a level of metadata.version, and their version,
    in the order of their numbers.
    """
    version = partition_record_version(level)
    lost = _BEFORE[version]
    for _, partition in sorted(partitions.items()):
        # Most partitions have no such field, and there may be a million of them.
        if any(getattr(partition, field) for field in lost):
            partition = partition.copy(**lost)
        yield partition, version


def _keys(image: Image) -> Iterator[Key]:
    for _, topic_id in sorted(image.topic_ids.items()):
        for index in sorted(image.partitions[topic_id]):
            yield topic_id, index


def _find(image: Image, key: Key) -> State | None:
    partition = image.partitions.get(key[0], {}).get(key[1])
    return None if partition is None else (image.topics[key[0]], partition)


def partition_fields(partition: Any) -> Fields:
    """Return the fields of a partition, without its topic and number."""
    # Written out: a large cluster has a million of them.
    state = partition.leader_recovery_state
    return {
        "replicas": list(partition.replicas),
        "directories": texts(partition.directories),
        "isr": list(partition.isr),
        "removingReplicas": list(partition.removing_replicas),
        "addingReplicas": list(partition.adding_replicas),
        "elr": list(partition.eligible_leader_replicas or ()),
        "lastKnownElr": list(partition.last_known_elr or ()),
        "leader": partition.leader,
        "leaderRecoveryState": _RECOVERY_STATES.get(state, state),
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
    }


def _fields(state: State) -> Fields:
    topic, partition = state
    named = {
        "topic": topic,
        "topicId": str(partition.topic_id),
        "partition": partition.partition_id,
    }
    return named | partition_fields(partition)


KIND: Final = Kind(
    kind="partition",
    records=(
        RecordType(PartitionRecord, "partition", _set, _KEY, _touched),
        RecordType(PartitionChangeRecord, "partition", _change, _KEY, _touched),
        RecordType(ClearElrRecord, "elr", _clear_elr, ("topic_name",), _with_elr),
    ),
    keys=_keys,
    find=_find,
    snapshot=lambda image: iter(()),
    view="partitions",
    key_fields=("topic", "partition"),
    name=lambda state: (state[0], state[1].partition_id),
    fields=_fields,
    types={
        "topic": STRING,
        "topicId": STRING,
        "partition": INT32,
        "replicas": INTS,
        "directories": TEXTS,
        "isr": INTS,
        "removingReplicas": INTS,
        "addingReplicas": INTS,
        "elr": INTS,
        "lastKnownElr": INTS,
        "leader": INT32,
        "leaderRecoveryState": STRING,
        "leaderEpoch": INT32,
        "partitionEpoch": INT32,
    },
    roots=(),
    tree=lambda image: iter(()),
)
