"""Rules of the records in the metadata log, as a replica reads them (KIP-631, KIP-868, KIP-778).

What a topic or an election writes is seen in rules that change the cluster.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import brokers
from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import Quorum, require_leader
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.protocol import ApiKey, ConfigResourceType, ErrorCode
from kwire.records import Record, RecordBatch, decode_batches, decode_metadata_record

_APIS: Final = (ApiKey.FETCH, ApiKey.VOTE, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family(
    "metadata-records", "Records of the metadata log", CONTROLLER, _APIS, since="3.0"
)
_TOPICS: Final = (
    *_APIS,
    *(ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.UNREGISTER_BROKER),
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS),
)
_FORMATS: Final = "Record Formats"
_MAX_BYTES: Final = 4 << 20


def _batches(probe: Probe, quorum: Quorum) -> tuple[int, list[RecordBatch]]:
    """Return the first offset, and the batches from the start of the log, or of those that are not
    in its snapshot.
    """
    partition = requests.fetched(probe, quorum, max_bytes=_MAX_BYTES)
    snapshot, start = partition.snapshot_id, 0
    if snapshot.end_offset >= 0:
        start = snapshot.end_offset
        at = {"offset": start, "last_epoch": snapshot.epoch, "max_wait_ms": 1000}
        partition = requests.fetched(probe, quorum, max_bytes=_MAX_BYTES, **at)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    found = list(decode_batches(bytes(partition.records or b"")))
    if not found and start:
        probe.not_applicable("the log ends with its snapshot")
    probe.expect(bool(found), "a Fetch from the start of the log has no records")
    return start, found


def _data(batches: list[RecordBatch]) -> list[tuple[RecordBatch, Record]]:
    return [
        (batch, record)
        for batch in batches
        if not batch.header.is_control
        for record in batch.records
    ]


def _decoded(probe: Probe, record: Record) -> Message:
    try:
        return decode_metadata_record(record.value or b"")[2]
    except DecodeError as error:
        probe.fail(f"the record at offset {record.offset} is no metadata record: {error}")


@FAMILY.rule("decode", source="KIP-631", section=_FORMATS)
def decode(probe: Probe) -> None:
    """Every record has the frame of metadata records, a type and version of Kafka's, and no byte
    too many.
    """
    _, batches = _batches(probe, require_leader(probe))
    for _, record in _data(batches):
        _decoded(probe, record)


@FAMILY.rule("without-keys", source="MetadataRecordSerde", section="write")
def without_keys(probe: Probe) -> None:
    """A metadata record has no key and no headers."""
    _, batches = _batches(probe, require_leader(probe))
    for _, record in _data(batches):
        probe.expect(record.key is None, f"the record at offset {record.offset} has a key")
        probe.expect(not record.headers, f"the record at offset {record.offset} has headers")


@FAMILY.rule("no-producer", source="BatchBuilder", section="writeDefaultBatchHeader")
def no_producer(probe: Probe) -> None:
    """The batches of the metadata log have no producer, and are not transactional."""
    _, batches = _batches(probe, require_leader(probe))
    for header in (batch.header for batch in batches):
        probe.expect(
            header.producer_id == -1 and not header.is_transactional,
            f"the batch at offset {header.base_offset} has producer {header.producer_id}",
        )


@FAMILY.rule("metadata-version-first", source="KIP-778", section="Bootstrapping", since="3.3")
def metadata_version_first(probe: Probe) -> None:
    """The first record of the log, apart from the beginning of a transaction, is the level of
    metadata.version: how records are read depends on it.
    """
    start, batches = _batches(probe, require_leader(probe))
    if start:
        probe.not_applicable("the start of the log is in a snapshot")
    records = [_decoded(probe, record) for _, record in _data(batches)]
    first = next((one for one in records if not isinstance(one, BeginTransactionRecord)), None)
    probe.expect(
        isinstance(first, FeatureLevelRecord) and first.name == "metadata.version",
        f"the first record is {type(first).__name__}",
    )


# --- topics ---------------------------------------------------------------------------------------


def _written(probe: Probe, quorum: Quorum, end: int, topic: Any) -> list[Message]:
    """The records about a topic from offset ``end`` on."""
    return [
        one
        for _, one in brokers.records_from(probe, quorum, end)
        if getattr(one, "topic_id", None) == topic.topic_id
        or getattr(one, "resource_name", None) == topic.name
    ]


@FAMILY.rule(
    "topic-then-partitions",
    source="KIP-631",
    section="Record Formats: TopicRecord",
    apis=_TOPICS,
    changes=Changes.CLUSTER,
    alone=True,
)
def topic_then_partitions(probe: Probe) -> None:
    """A new topic is in the log as a TopicRecord with its name and id, then a PartitionRecord for
    each partition, in one batch.
    """
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    end = brokers.log_end(probe, quorum)
    topic = brokers.create_topic(probe, [broker.id], [broker.id])
    records = _written(probe, quorum, end, topic)
    kinds = [type(one).__name__ for one in records]
    probe.expect(
        kinds == ["TopicRecord", "PartitionRecord", "PartitionRecord"], f"the log has {kinds}"
    )
    first = records[0]
    assert isinstance(first, TopicRecord)
    probe.expect(first.name == topic.name, f"the record names topic {first.name}")


@FAMILY.rule(
    "partition",
    source="KIP-631",
    section="Record Formats: PartitionRecord",
    apis=_TOPICS,
    changes=Changes.CLUSTER,
    alone=True,
)
def partition(probe: Probe) -> None:
    """A new partition is in the log with its replicas in the order of preference; the first one
    leads, in leader epoch 0, and those that are not fenced are in sync.
    """
    quorum = require_leader(probe)
    first, second = brokers.serving(probe, quorum), brokers.serving(probe, quorum)
    fenced = brokers.registered(probe, quorum)
    end = brokers.log_end(probe, quorum)
    topic = brokers.create_topic(probe, [second.id, first.id, fenced.id])
    found = [one for one in _written(probe, quorum, end, topic) if isinstance(one, PartitionRecord)]
    probe.expect(len(found) == 1, f"the log has {len(found)} records of the partition")
    [one] = found
    replicas = [second.id, first.id, fenced.id]
    probe.expect(one.replicas == replicas, f"the replicas are {one.replicas}, not {replicas}")
    probe.expect(one.isr == replicas[:2], f"the ISR is {one.isr}, not {replicas[:2]}")
    told = (one.leader, one.leader_epoch, one.partition_epoch)
    probe.expect(told == (second.id, 0, 0), f"leader, leader epoch and partition epoch are {told}")


@FAMILY.rule(
    "remove-topic",
    source="KIP-631",
    section="Record Formats: RemoveTopic",
    apis=_TOPICS,
    changes=Changes.CLUSTER,
    alone=True,
)
def remove_topic(probe: Probe) -> None:
    """A topic that is deleted is removed in the log by its id, in one record."""
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    topic = brokers.create_topic(probe, [broker.id])
    end = brokers.log_end(probe, quorum)
    probe.expect_error(brokers.delete_topic(probe, topic.name), ErrorCode.NONE)
    records = _written(probe, quorum, end, topic)
    kinds = [type(one) for one in records]
    probe.expect(kinds == [RemoveTopicRecord], f"the log has {[kind.__name__ for kind in kinds]}")


@FAMILY.rule(
    "config",
    source="KIP-631",
    section="Record Formats: ConfigRecord",
    apis=(*_TOPICS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
    changes=Changes.CLUSTER,
    alone=True,
)
def config(probe: Probe) -> None:
    """A configuration that is set is in the log with resource, name and value."""
    quorum = require_leader(probe)
    broker = brokers.serving(probe, quorum)
    topic = brokers.create_topic(probe, [broker.id])
    end = brokers.log_end(probe, quorum)
    one = AlterableConfig(name="retention.ms", config_operation=0, value="123456")
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, configs=[one]
    )
    answer = probe.call(IncrementalAlterConfigsRequest(resources=[resource]))
    probe.expect_error(answer.responses[0].error_code, ErrorCode.NONE)
    records = _written(probe, quorum, end, topic)
    told = [
        (found.resource_type, found.resource_name, found.name, found.value)
        for found in records
        if isinstance(found, ConfigRecord)
    ]
    wanted = (int(ConfigResourceType.TOPIC), topic.name, "retention.ms", "123456")
    probe.expect(told == [wanted], f"the log has configurations {told}")
