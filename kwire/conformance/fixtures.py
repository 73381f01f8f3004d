"""Asks and makes what several families need: a partition with records, offsets, topics.

A topic that is made here has the prefix of the run and is deleted at its end.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from kwire.conformance.outcome import CheckEnd, NotApplicable, NotOffered
from kwire.conformance.probe import Probe
from kwire.conformance.rule import Role
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol import ApiKey, ErrorCode, error_name
from kwire.records import Record, encode_batch
from kwire.uuid import ZERO_UUID, Uuid

EARLIEST: Final = -2
LATEST: Final = -1
#: The most topics of a server that are looked at for one with records.
_LOOKED_AT_MAX: Final = 50
#: Partitions of a topic on a cluster of several brokers: one of them is led by the server.
_PARTITIONS: Final = 12
#: Errors of a partition that this server does not lead, or not yet.
_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


@dataclass(frozen=True)
class Partition:
    """A partition that the server leads. It has records from offset ``start`` to before ``end``."""

    topic: str
    topic_id: Uuid
    index: int
    epoch: int
    start: int
    end: int
    is_own: bool


def readable(probe: Probe) -> Partition:
    """Return a partition with records: of an own topic if the server takes records, else any.

    Ends the check as not applicable if there is none.
    """
    found = probe.session.shared("readable", lambda: _readable(probe), probe.deadline)
    return cast(Partition, found)


def own_partition(probe: Probe, **more: Any) -> Partition:
    """Return a partition of a new topic that the server leads; one record is in it, at offset 0.

    ``more``: fields of the topic. Ends the check as not applicable if the server does not create
    topics or take records.
    """
    with probe.other_probe() as other:
        found = _own(other, **more)
    if found is None:
        probe.not_applicable("the server takes no records")
    return found


def _readable(probe: Probe) -> Partition:
    with probe.other_probe() as other:
        found = _own(other)
        if found is not None:
            for number in range(3):
                produce(other, found, encode_batch(records(2, f"value {number}")))
            return dataclasses.replace(found, end=7)
        return _any(other)


def records(count: int, value: str) -> list[Record]:
    """Return records of now, at offsets from 0 on."""
    now_ms = int(time.time() * 1000)
    return [
        Record(offset=number, timestamp=now_ms + number, key=b"k", value=value.encode())
        for number in range(count)
    ]


def _own(probe: Probe, **more: Any) -> Partition | None:
    if not {ApiKey.CREATE_TOPICS, ApiKey.PRODUCE} <= probe.session.offered.keys():
        return None
    brokers = len(metadata(probe, []).brokers)
    try:
        name = create_topic(probe, partitions=1 if brokers == 1 else _PARTITIONS, **more)
    except CheckEnd:
        return None
    topic = probe.until(lambda: _with_leaders(probe, name), f"a leader of topic {name}")
    for one in topic.partitions:
        where = Partition(
            name, topic.topic_id, one.partition_index, max(one.leader_epoch, 0), 0, 1, True
        )
        ready = functools.partial(_ready, probe, where, brokers)
        code = probe.until(ready, f"the leader of {name}")
        if code == ErrorCode.NONE:
            code = produce_answer(probe, where, encode_batch(records(1, "first"))).error_code
        if code == ErrorCode.NONE:
            return where
        if code not in _ELSEWHERE:
            return None
    return None


def _ready(probe: Probe, where: Partition, brokers: int) -> ErrorCode | None:
    """Return the error of ListOffsets; None while the only broker has yet to become leader."""
    code = ErrorCode(list_offset(probe, where.topic, where.index, LATEST).error_code)
    return None if brokers == 1 and code in _ELSEWHERE else code


def _with_leaders(probe: Probe, name: str) -> Any:
    [topic] = metadata(probe, [name]).topics
    ready = topic.error_code == ErrorCode.NONE and topic.partitions
    return topic if ready and all(one.leader_id >= 0 for one in topic.partitions) else None


def _any(probe: Probe) -> Partition:
    topics = [topic for topic in metadata(probe, None).topics if not topic.error_code]
    for topic in topics[:_LOOKED_AT_MAX]:
        for one in topic.partitions[:_PARTITIONS]:
            first = list_offset(probe, topic.name, one.partition_index, EARLIEST)
            last = list_offset(probe, topic.name, one.partition_index, LATEST)
            if not first.error_code and not last.error_code and last.offset > first.offset:
                return Partition(
                    topic.name, topic.topic_id, one.partition_index, max(one.leader_epoch, 0),
                    first.offset, last.offset, False,
                )  # fmt: skip
    raise NotApplicable("the server leads no partition with records, and takes none")


def metadata(probe: Probe, topics: Sequence[str] | None) -> Any:
    """Return the Metadata of these topics, of all topics for None; none is created."""
    version = probe.newest(ApiKey.METADATA)
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    if version == 0:
        wanted = wanted or []
    auto = version < 4
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=auto)
    return probe.call(request, version)


def list_offset(
    probe: Probe, topic: str, index: int, timestamp: int, *, epoch: int = -1, **more: Any
) -> Any:
    """Return the partition's part of the answer to ListOffsets. ``more``: isolation_level,
    version.
    """
    version = more.pop("version", None) or probe.newest(ApiKey.LIST_OFFSETS)
    partition = ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )
    topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
    answer = probe.call(ListOffsetsRequest(replica_id=-1, topics=topics, **more), version)
    [found] = answer.topics
    [one] = found.partitions
    probe.expect(
        (found.name, one.partition_index) == (topic, index),
        f"ListOffsets of {topic}-{index} is answered for {found.name}-{one.partition_index}",
    )
    return one


def fetch_request(where: Partition, offset: int, version: int, **more: Any) -> FetchRequest:
    """Return a Fetch of one partition. ``more``: fields of the request, and of the partition:
    current_leader_epoch, last_fetched_epoch, partition_max_bytes.
    """
    names = ("current_leader_epoch", "last_fetched_epoch", "partition_max_bytes")
    inner: dict[str, Any] = {name: more.pop(name) for name in names if name in more}
    if version < 9:
        inner.pop("current_leader_epoch", None)
    partition = FetchPartition(
        partition=where.index,
        fetch_offset=offset,
        **{"partition_max_bytes": 1 << 20, **inner},
    )
    by_id = version >= 13
    topic = FetchTopic(
        topic="" if by_id else where.topic,
        topic_id=where.topic_id if by_id else ZERO_UUID,
        partitions=[partition],
    )
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, **more}
    return FetchRequest(replica_id=-1, topics=[topic], **values)


def fetch(
    probe: Probe, where: Partition, offset: int, version: int | None = None, **more: Any
) -> Any:
    """Return the partition's part of the answer to Fetch. ``more`` as in fetch_request."""
    if version is None:
        version = probe.newest(ApiKey.FETCH)
    answer = probe.call(fetch_request(where, offset, version, **more), version)
    probe.expect_error(answer.error_code, ErrorCode.NONE, where="the whole Fetch answer")
    return only_partition(probe, answer)


def only_partition(probe: Probe, answer: Any) -> Any:
    """Return the one partition of a Fetch answer. Fails the rule if there are others."""
    found = [one for topic in answer.responses for one in topic.partitions]
    probe.expect(len(found) == 1, f"Fetch of one partition is answered for {len(found)}")
    return found[0]


def produce_answer(probe: Probe, where: Partition, records: bytes, **more: Any) -> Any:
    """Return the partition's part of the answer to Produce. ``more``: fields of the request."""
    version = probe.newest(ApiKey.PRODUCE)
    by_id = version >= 13
    topic = TopicProduceData(
        name="" if by_id else where.topic,
        topic_id=where.topic_id if by_id else ZERO_UUID,
        partition_data=[PartitionProduceData(index=where.index, records=records)],
    )
    values: dict[str, Any] = {"acks": -1, "timeout_ms": 5000, **more}
    answer = probe.call(ProduceRequest(topic_data=[topic], **values), version)
    [found] = answer.responses
    [one] = found.partition_responses
    return one


def refused_batch(probe: Probe, batch: bytes, *codes: int, where: Partition | None = None) -> Any:
    """Produce a batch that is refused with one of these errors. Returns the partition's answer."""
    where = own_partition(probe) if where is None else where
    one = produce_answer(probe, where, batch)
    probe.expect_error(one.error_code, *codes)
    return one


def produce(probe: Probe, where: Partition, records: bytes) -> int:
    """Produce a batch, and return the offset of its first record. Fails the rule on an error."""
    one = produce_answer(probe, where, records)
    probe.expect_error(one.error_code, ErrorCode.NONE, where="the answer to Produce")
    offset: int = one.base_offset
    return offset


def create_topic(probe: Probe, partitions: int = 1, **more: Any) -> str:
    """Create a topic of the run's prefix, and return its name. It is deleted at the end.

    Ends the check as not applicable if the server refuses it.
    """
    name = probe.session.new_name()
    refused: list[int] = []
    probe.session.on_end(f"topic {name}", lambda: None if refused else _delete(probe, name))
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, **more)
    answer = probe.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    [found] = answer.topics
    if found.error_code:
        refused.append(found.error_code)
        probe.not_applicable(f"the server creates no topic: {error_name(found.error_code)}")
    return name


def _delete(probe: Probe, name: str) -> None:
    with probe.other_probe() as other:
        version = other.newest(ApiKey.DELETE_TOPICS)
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        else:
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        code = after_election(
            other, lambda: int(other.call(request, version).responses[0].error_code)
        )
        other.expect_error(
            code, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            where=f"the answer to the deletion of {name}",
        )  # fmt: skip


def after_election(probe: Probe, ask: Callable[[], int]) -> int:
    """Return the error that ``ask`` returns, once the controller has ended the election that
    another rule may have left behind.
    """

    def code() -> int | None:
        found = ask()
        return None if found == ErrorCode.NOT_CONTROLLER else found

    return int(probe.until(code, "a controller"))


def needs_one_broker(probe: Probe) -> None:
    """End the check as not applicable unless the server is the only broker."""
    if Role.BROKER in probe.session.roles and len(metadata(probe, []).brokers) != 1:
        raise NotOffered("the rule is tried on clusters of one broker only")
