"""Answers ApiVersions, Metadata, FindCoordinator and requests of producers, as a broker would.

Every function takes the cluster's state, the request, and an error code: 0, or one to refuse with.
A refused request changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kwire.conformance.client.state import Batch, Producer, State
from kwire.conformance.client.traffic import Seen
from kwire.conformance.outcome import RuleFailed
from kwire.errors import WireError
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kwire.messages.init_producer_id_response import InitProducerIdResponse
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import RecordBatch, decode_batches
from kwire.registry import request_type
from kwire.structs import Struct
from kwire.uuid import ZERO_UUID

#: APIs that the cluster serves.
SERVED: Final = (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.SASL_AUTHENTICATE,
)  # fmt: skip
#: Batches of a producer that a broker remembers (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``).
BATCHES_KEPT: Final = 5
_FIRST_PRODUCER_ID: Final = 4000
#: Records in one batch at most, and what each takes besides its value, bytes.
_RECORDS_MAX: Final = 200_000
_RECORD_BYTES: Final = 100


def made(form: Any, version: int, **values: Any) -> Any:
    """Return a struct with those of the values that it can have at ``version``."""
    fields = {field.attr: field for field in form.fields()}
    return form(**{name: value for name, value in values.items() if fields[name].at(version)})


def offered(state: State) -> dict[int, tuple[int, int]]:
    """(lowest, highest) version of each API in ApiVersions.

    Produce is named from version 0 on, as librdkafka before 2.6 wants (KAFKA-18659).
    """
    found: dict[int, tuple[int, int]] = {}
    for api in SERVED:
        known = request_type(api).VERSIONS
        found[api] = (0 if api is ApiKey.PRODUCE else known[0], known[-1])
    # Kafka 4.4 has version 5, which no client that is measured here sends.
    found[ApiKey.API_VERSIONS] = (0, 4)
    return {**found, **state.offered}


def api_versions(state: State, seen: Seen, error: int) -> Any:
    """Name the versions; refuse a version that is not offered in a body of version 0 (KIP-511)."""
    ranges = offered(state)
    low, high = ranges[ApiKey.API_VERSIONS]
    if not low <= seen.version <= high:
        error = ErrorCode.UNSUPPORTED_VERSION
    keys = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(ranges.items())
    ]
    if error == ErrorCode.UNSUPPORTED_VERSION:
        keys = [key for key in keys if key.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def metadata(state: State, seen: Seen, error: int) -> Any:
    """Name the nodes and the topic. ``error`` is that of the partition, without a leader."""
    version = seen.version
    asked = seen.request.topics
    names = [topic.name for topic in asked or [] if topic.name]
    by_id = [topic.topic_id for topic in asked or [] if version >= 10 and not topic.name]
    every = asked is None or (version == 0 and not asked)
    topics = []
    if every or state.topic in names or state.topic_id in by_id:
        topics.append(_topic(state, version, error))
    for name in names:
        if name != state.topic:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(MetadataResponseTopic(error_code=code, name=name, partitions=[]))
    for topic_id in by_id:
        if topic_id != state.topic_id:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            topics.append(MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id))
    return made(
        MetadataResponse,
        version,
        brokers=[
            made(MetadataResponseBroker, version, node_id=node, host=host, port=port, rack=None)
            for node, (host, port) in state.nodes.items()
        ],
        cluster_id="kwire-conform-cluster1",
        controller_id=state.controller,
        topics=topics,
    )


def _topic(state: State, version: int, error: int) -> Struct:
    nodes = [node for node in state.nodes if node > 0]
    of_topic = error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = made(
        MetadataResponsePartition,
        version,
        error_code=error,
        partition_index=0,
        leader_id=-1 if error else state.leader,
        leader_epoch=state.epoch,
        replica_nodes=nodes,
        isr_nodes=nodes,
        offline_replicas=[],
    )
    found: Struct = made(
        MetadataResponseTopic,
        version,
        error_code=error if of_topic else 0,
        name=state.topic,
        topic_id=ZERO_UUID if of_topic else state.topic_id,
        partitions=[] if of_topic else [partition],
    )
    return found


def find_coordinator(state: State, seen: Seen, error: int) -> Any:
    """Name the node of the group."""
    node = -1 if error else state.group.coordinator
    host, port = state.nodes.get(node, ("", -1))
    where: dict[str, Any] = {"error_code": error, "node_id": node, "host": host, "port": port}
    coordinators = []
    if seen.version >= 4:
        coordinators = [Coordinator(key=key, **where) for key in seen.request.coordinator_keys]
        where = {}
    return made(FindCoordinatorResponse, seen.version, coordinators=coordinators, **where)


def init_producer_id(state: State, seen: Seen, error: int) -> Any:
    """Give a producer id, or raise the epoch of the one that the producer has (KIP-360)."""
    if error:
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    known = seen.request.producer_id if seen.version >= 3 else -1
    if known in state.producers:
        state.producers[known] = Producer(epoch=state.producers[known].epoch + 1)
    else:
        known = _FIRST_PRODUCER_ID + len(state.producers)
        state.producers[known] = Producer()
    return InitProducerIdResponse(producer_id=known, producer_epoch=state.producers[known].epoch)


def produce(state: State, seen: Seen, error: int) -> Any:
    """Append the records. None: the request wants no answer."""
    responses = []
    for topic in seen.request.topic_data:
        by_id = seen.version >= 13
        known = topic.topic_id == state.topic_id if by_id else topic.name == state.topic
        partitions = []
        for partition in topic.partition_data:
            code, base = (error, -1) if error else _refused(state, seen, known, partition, by_id)
            if not code and base < 0:
                code, base = _append(state, partition.records or b"")
            partitions.append(
                made(
                    PartitionProduceResponse, seen.version, index=partition.index, error_code=code,
                    base_offset=base, log_append_time_ms=-1, log_start_offset=0,
                )
            )  # fmt: skip
        responses.append(
            made(
                TopicProduceResponse, seen.version, name=topic.name, topic_id=topic.topic_id,
                partition_responses=partitions,
            )
        )  # fmt: skip
    if seen.request.acks == 0:
        return None
    return ProduceResponse(responses=responses)


def _refused(state: State, seen: Seen, known: bool, partition: Any, by_id: bool) -> tuple[int, int]:
    if not known or partition.index:
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return int(code), -1
    if seen.broker != state.leader:
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1
    return 0, -1


def _append(state: State, data: bytes) -> tuple[int, int]:
    """Append batches. Returns (error code, base offset)."""
    try:
        batches = list(map(partial(_charged, state), decode_batches(data, budget=_RECORDS_MAX)))
    except WireError:
        return int(ErrorCode.CORRUPT_MESSAGE), -1
    first = state.log.end
    for batch in batches:
        error, known = _sequence(state, batch)
        if error or known >= 0:
            return error, known
        base = state.log.end
        values = tuple(record.value or b"" for record in batch.records)
        state.log.batches.append(Batch(base, base + len(values) - 1, b"", values))
        state.written.extend(values)
    return 0, first


def _charged(state: State, batch: RecordBatch) -> RecordBatch:
    """Return the batch, which may be a few bytes that were compressed. Raises RuleFailed where the
    program has written too much.
    """
    state.room -= sum(_RECORD_BYTES + len(record.value or b"") for record in batch.records)
    if state.room < 0:
        raise RuleFailed("the program wrote more than 64 MiB of records in one check")
    return batch


def _sequence(state: State, batch: RecordBatch) -> tuple[int, int]:
    """(error, base offset of the batch if it is in the log already, else -1), as Kafka's
    ``ProducerStateManager`` judges.
    """
    header, size = batch.header, len(batch.records)
    if header.producer_id < 0:
        return 0, -1
    producer = state.producers.get(header.producer_id)
    if producer is None:
        return int(ErrorCode.UNKNOWN_PRODUCER_ID), -1
    if header.producer_epoch < producer.epoch:
        return int(ErrorCode.INVALID_PRODUCER_EPOCH), -1
    for sequence, count, base in producer.batches[-BATCHES_KEPT:]:
        if (sequence, count) == (header.base_sequence, size):
            return 0, base
    if header.base_sequence != producer.next_sequence:
        older = header.base_sequence < producer.next_sequence
        code = (
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER if older else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        return int(code), -1
    producer.batches.append((header.base_sequence, size, state.log.end))
    return 0, -1
