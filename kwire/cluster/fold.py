"""Applies one record to an image, with one function for each record type (``MetadataDelta.replay``
and its deltas).

A record may refer only to entities that exist: a controller writes no other log. ``apply`` raises
FoldError for a record that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kwire.cluster.image import TOPIC_RESOURCE, Image
from kwire.cluster.sharing import shared_ids, shared_numbers, twin
from kwire.message import Message, bare
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import ZERO_UUID, Uuid

#: Value of ``Leader`` in a PartitionChangeRecord that does not change the leader.
NO_LEADER_CHANGE = -2

_new_change = bare(PartitionChangeRecord)


class FoldError(Exception):
    """A record that does not fit the state before it, such as a change to a partition that does not
    exist.
    """


def apply(image: Image, record: Message) -> None:
    """Apply ``record`` to ``image``. Raises FoldError, and leaves the image unchanged then.

    Records that mark transactions, and those that matter only in a migration or to an idle log
    (NoOpRecord), change nothing.
    """
    try:
        change = _CHANGES[record.NAME]
    except KeyError:
        raise FoldError(f"{record.NAME} is no metadata record that a state is made of") from None
    change(image, record)


def _nothing(image: Image, record: Any) -> None:
    pass


# --- topics and partitions
# --------------------------------------------------------------------------------------------


def _topic(image: Image, record: Any) -> None:
    # ``ReplicationControlManager.replay`` refuses both, which ends a controller of Kafka.
    if record.name in image.topic_ids:
        known = image.topic_ids[record.name]
        raise FoldError(
            f"TopicRecord of {record.name} with id {record.topic_id}, which exists with id {known}"
        )
    if record.topic_id in image.topics:
        raise FoldError(
            f"TopicRecord of {record.name} with id {record.topic_id}, which is the id of"
            f" {image.topics[record.topic_id]}"
        )
    image.topics[record.topic_id] = record.name
    image.topic_ids[record.name] = record.topic_id
    image.partitions[record.topic_id] = {}


def _remove_topic(image: Image, record: Any) -> None:
    name = image.topics.pop(record.topic_id, None)
    if name is None:
        raise FoldError(f"RemoveTopicRecord for topic {record.topic_id}, which does not exist")
    del image.partitions[record.topic_id]
    del image.topic_ids[name]
    image.configs.pop((TOPIC_RESOURCE, name), None)


def _partition(image: Image, record: Any) -> None:
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


def _partition_change(image: Image, record: Any) -> None:
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
    after = twin(before)
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


# --- brokers and controllers
# ------------------------------------------------------------------------------------------


def _register_broker(image: Image, record: Any) -> None:
    image.brokers[record.broker_id] = record


def _unregister_broker(image: Image, record: Any) -> None:
    _broker(image, record.NAME, record.broker_id, record.broker_epoch)
    del image.brokers[record.broker_id]


def _broker_change(image: Image, record: Any) -> None:
    broker = _broker(image, record.NAME, record.broker_id, record.broker_epoch)
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        changes["log_dirs"] = list(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = list(record.cordoned_log_dirs)
    image.brokers[record.broker_id] = broker.copy(**changes)


def _fence(fenced: bool) -> Callable[[Image, Any], None]:
    def change(image: Image, record: Any) -> None:
        image.brokers[record.id] = _broker(image, record.NAME, record.id, record.epoch).copy(
            fenced=fenced
        )

    return change


def _broker(image: Image, what: str, broker_id: int, epoch: int) -> Any:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise FoldError(f"{what} for broker {broker_id}, which is not registered")
    if broker.broker_epoch != epoch:
        raise FoldError(
            f"{what} for broker {broker_id} with epoch {epoch}, its epoch is {broker.broker_epoch}"
        )
    return broker


def _register_controller(image: Image, record: Any) -> None:
    image.controllers[record.controller_id] = record


def _unregister_controller(image: Image, record: Any) -> None:
    image.controllers.pop(record.controller_id, None)


# --- everything else
# --------------------------------------------------------------------------------------------------


def _feature(image: Image, record: Any) -> None:
    if record.feature_level == 0:
        image.features.pop(record.name, None)
    else:
        image.features[record.name] = record.feature_level


def _config(image: Image, record: Any) -> None:
    resource = (record.resource_type, record.resource_name)
    if record.value is not None:
        image.configs.setdefault(resource, {})[record.name] = record.value
        return
    configs = image.configs.get(resource, {})
    configs.pop(record.name, None)
    if not configs:
        image.configs.pop(resource, None)


def _quota(image: Image, record: Any) -> None:
    entity = tuple(sorted({one.entity_type: one.entity_name for one in record.entity}.items()))
    if not record.remove:
        image.quotas.setdefault(entity, {})[record.key] = record.value
        return
    quotas = image.quotas.get(entity, {})
    quotas.pop(record.key, None)
    if not quotas:
        image.quotas.pop(entity, None)


def _acl(image: Image, record: Any) -> None:
    image.acls[record.id] = record


def _remove_acl(image: Image, record: Any) -> None:
    if image.acls.pop(record.id, None) is None:
        raise FoldError(
            f"RemoveAccessControlEntryRecord for ACL {Uuid(record.id)}, which does not exist"
        )


def _scram(image: Image, record: Any) -> None:
    image.scram[record.mechanism, record.name] = record


def _remove_scram(image: Image, record: Any) -> None:
    image.scram.pop((record.mechanism, record.name), None)


def _token(image: Image, record: Any) -> None:
    image.tokens[record.token_id] = record


def _remove_token(image: Image, record: Any) -> None:
    image.tokens.pop(record.token_id, None)


def _producer_ids(image: Image, record: Any) -> None:
    image.next_producer_id = record.next_producer_id


_CHANGES: dict[str, Callable[[Image, Any], None]] = {
    "AbortTransactionRecord": _nothing,
    "AccessControlEntryRecord": _acl,
    "BeginTransactionRecord": _nothing,
    "BrokerRegistrationChangeRecord": _broker_change,
    "ClearElrRecord": _clear_elr,
    "ClientQuotaRecord": _quota,
    "ConfigRecord": _config,
    "DelegationTokenRecord": _token,
    "EndTransactionRecord": _nothing,
    "FeatureLevelRecord": _feature,
    "FenceBrokerRecord": _fence(True),
    "NoOpRecord": _nothing,
    "PartitionChangeRecord": _partition_change,
    "PartitionRecord": _partition,
    "ProducerIdsRecord": _producer_ids,
    "RegisterBrokerRecord": _register_broker,
    "RegisterControllerRecord": _register_controller,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "RemoveDelegationTokenRecord": _remove_token,
    "RemoveTopicRecord": _remove_topic,
    "RemoveUserScramCredentialRecord": _remove_scram,
    "TopicRecord": _topic,
    "UnfenceBrokerRecord": _fence(False),
    "UnregisterBrokerRecord": _unregister_broker,
    "UnregisterControllerRecord": _unregister_controller,
    "UserScramCredentialRecord": _scram,
    "ZkMigrationStateRecord": _nothing,
}
