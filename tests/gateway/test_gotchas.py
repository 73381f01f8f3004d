"""Rules on which stock clients depend, as one table: a row names the rule, the clients that break
without it, and the check.

The checks send requests to the handlers as bytes. Rules about the connection, group membership and
raft are tested beside these: tests/gateway/server and tests/gateway/groups.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from kafka.errors import for_code

from gateway.handlers.apis import (
    api_versions,
    describe_topic_partitions,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from gateway.handlers.apis.api_versions import Feature, make_response, unsupported_version_response
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import State
from kwire.header import decode_response_header, encode_response_header, response_header_version
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ErrorCode
from kwire.records import decode_batches, decode_control_record, iter_batches, verify_crc
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.gateway.handlers.mini_server import sample_partition
from tests.gateway.handlers.world import NODE, World, over_the_wire

NAME = "__cluster_metadata"
NEWEST_FETCH = fetch.VERSIONS[-1]


class Gotcha(NamedTuple):
    """One row. ``number`` is only for people: it does not change when rows come and go."""

    number: int
    rule: str
    breaks: str
    check: Callable[[], None]


GOTCHAS: list[Gotcha] = []


def gotcha(
    number: int, rule: str, *, breaks: str
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Put the decorated check into the table."""

    def add(check: Callable[[], None]) -> Callable[[], None]:
        GOTCHAS.append(Gotcha(number, rule, breaks, check))
        return check

    return add


def ask_fetch(world: World, version: int, offset: int, **partition: Any) -> Any:
    named: dict[str, Any] = {"topic_id": METADATA_TOPIC_ID} if version >= 13 else {"topic": NAME}
    limits = {
        "max_wait_ms": partition.pop("max_wait_ms", 0),
        "min_bytes": 1,
        "max_bytes": partition.pop("max_bytes", 1 << 20),
    }
    more = {
        key: partition.pop(key)
        for key in ("isolation_level", "replica_id", "replica_state")
        if key in partition
    }
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **partition}
    return world.ask(fetch, version, **limits, **more, topics=[{**named, "partitions": [asked]}])


def fetched(world: World, version: int, offset: int, **partition: Any) -> Any:
    return ask_fetch(world, version, offset, **partition).responses[0].partitions[0]


def offset_of(world: World, timestamp: int) -> int:
    partitions = [{"partition_index": 0, "timestamp": timestamp}]
    answer = world.ask(
        list_offsets, 11, replica_id=-1, topics=[{"name": NAME, "partitions": partitions}]
    )
    return int(answer.topics[0].partitions[0].offset)


@gotcha(
    1,
    "ApiVersions answers carry header v0; too new a request gets error 35 in a v0 body",
    breaks="everyone",
)
def header_and_version_0() -> None:
    for version in range(10):
        assert response_header_version(18, version) == 0
        head = encode_response_header(18, version, 7)
        assert decode_response_header(18, version, head)[1] == len(head) == 4
    answer = ApiVersionsResponse.decode(unsupported_version_response().encode(0), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.min_version, key.max_version) for key in answer.api_keys if key.api_key == 18] == [
        (0, 5)
    ]


@gotcha(
    2,
    "Produce is advertised with min <= 3 <= max, though it always refuses",
    breaks="librdkafka never fetches",
)
def produce_is_advertised() -> None:
    assert 3 in handlers()[0].versions
    answer = World().ask(
        produce,
        3,
        acks=-1,
        topic_data=[{"name": NAME, "partition_data": [{"index": 0, "records": b""}]}],
    )
    assert (
        answer.responses[0].partition_responses[0].error_code
        == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


@gotcha(3, "bytes behind a request's body are ignored", breaks="librdkafka's list of all topics")
def trailing_bytes() -> None:
    for version, flags in (9, 3), (10, 3), (11, 2), (12, 2):
        body = bytes(4 + flags + 1)  # a four-byte array length where one byte belongs
        request = MetadataRequest.decode(body, version, allow_trailing=True)
        answer = over_the_wire(metadata.handle(request, World().context(version)), version)
        assert [topic.name for topic in answer.topics] == [NAME]


@gotcha(4, "Metadata names at least one broker, and the leader is among them", breaks="Java loops")
def the_leader_is_a_broker() -> None:
    for version in metadata.VERSIONS:
        for topics in ([], [{"name": "nowhere"}], [{"name": NAME}]):
            answer = World().ask(metadata, version, topics=topics)
            brokers = {broker.node_id for broker in answer.brokers}
            leaders = {
                partition.leader_id for topic in answer.topics for partition in topic.partitions
            }
            assert brokers and leaders <= brokers
            assert all(broker.host and broker.port for broker in answer.brokers)


@gotcha(5, "__cluster_metadata is not internal", breaks="Spark reads nothing, without a word")
def not_internal() -> None:
    for version in range(1, 14):
        assert [
            topic.is_internal for topic in World().ask(metadata, version, topics=None).topics
        ] == [False]
    assert [
        topic.is_internal for topic in World().ask(describe_topic_partitions, 0, topics=[]).topics
    ] == [False]


@gotcha(
    6,
    "the topic id that Metadata gives works in Fetch, and others are unknown",
    breaks="Java, librdkafka",
)
def the_id_works() -> None:
    (topic,) = World().ask(metadata, 13, topics=None).topics
    assert str(topic.topic_id) == "AAAAAAAAAAAAAAAAAAAAAQ"
    for version in range(13, 19):
        assert len(fetched(World(), version, 0).records) > 0
        for other in ZERO_UUID, Uuid(b"\x01" * 16):
            topics = [
                {"topic_id": other, "partitions": [{"partition": 0, "partition_max_bytes": 1}]}
            ]
            answer = World().ask(
                fetch, version, max_wait_ms=0, min_bytes=1, max_bytes=1, topics=topics
            )
            assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@gotcha(
    7,
    "LSO and latest are the high watermark, earliest is the log start",
    breaks="Spark: latest went backwards",
)
def one_end() -> None:
    world = World()
    world.partition.log_start_offset = 1
    data = fetched(world, NEWEST_FETCH, 1)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (15, 15, 1)
    assert (offset_of(world, -1), offset_of(world, -2), offset_of(world, 2000)) == (15, 1, 1)


@gotcha(
    7,
    "a source that still loads gives a retriable error, never offset 0",
    breaks="Spark: latest went backwards",
)
def loading_is_no_zero() -> None:
    world = World()
    world.partition.state = State.LOADING
    assert offset_of(world, -1) == -1
    assert for_code(fetched(world, NEWEST_FETCH, 0).error_code).retriable


@gotcha(
    8,
    "aborted transactions are null or empty, no preferred replica, records never null",
    breaks="strict decoders",
)
def nothing_is_null() -> None:
    for version in fetch.VERSIONS:
        for offset, fields in (
            (0, {}),
            (15, {}),
            (99, {}),
            (0, {"partition": 3}),
            (0, {"isolation_level": 1}),
        ):
            data = fetched(World(), version, offset, **fields)
            assert data.records is not None
            assert not data.aborted_transactions
            assert data.preferred_read_replica == -1


@gotcha(
    9,
    "at least one whole batch while there is one, whatever max_bytes",
    breaks="Java RecordTooLarge",
)
def one_batch_at_least() -> None:
    for limits in {"max_bytes": 1}, {"max_bytes": 0}, {"partition_max_bytes": 1}:
        assert len(fetched(World(), NEWEST_FETCH, 0, **limits).records) == 100


@gotcha(10, "out of range is OFFSET_OUT_OF_RANGE", breaks="consumers that never reset")
def out_of_range() -> None:
    for offset in -1, 16:
        assert fetched(World(), NEWEST_FETCH, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@gotcha(
    11,
    "on a client listener everybody is a consumer, whatever replica id it claims",
    breaks="CVE-2018-1288",
)
def replicas_are_consumers() -> None:
    world = World()
    for version, claim in (
        (14, {"replica_id": 1}),
        (18, {"replica_state": {"replica_id": 1, "replica_epoch": 5}}),
    ):
        data = fetched(world, version, 12, **claim)
        assert (data.high_watermark, data.last_stable_offset) == (15, 15)
    assert world.partition.high_watermark == 15


@gotcha(
    12,
    "divergence is checked only for who tells the epoch of its last record",
    breaks="kafka-python 3",
)
def divergence() -> None:
    assert len(fetched(World(), NEWEST_FETCH, 12).records) > 0
    assert len(fetched(World(), NEWEST_FETCH, 12, last_fetched_epoch=3).records) > 0
    data = fetched(World(), NEWEST_FETCH, 12, last_fetched_epoch=1)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset, len(data.records)) == (
        1,
        10,
        0,
    )


@gotcha(
    13,
    "DescribeTopicPartitions: the lists of eligible leaders are empty, not null",
    breaks="Java NullPointerException",
)
def eligible_leaders() -> None:
    (topic,) = World().ask(describe_topic_partitions, 0, topics=[]).topics
    assert [(p.eligible_leader_replicas, p.last_known_elr) for p in topic.partitions] == [([], [])]


@gotcha(14, "features with minimum 0 are hidden below ApiVersions 4", breaks="Java up to 3.8")
def features_of_minimum_zero() -> None:
    feature = Feature("kraft.version", 0, 1)
    assert (
        over_the_wire(make_response([feature], minimum_zero_understood=False), 3).supported_features
        == []
    )
    assert (
        len(
            over_the_wire(
                make_response([feature], minimum_zero_understood=True), 4
            ).supported_features
        )
        == 1
    )
    client = {"client_software_name": "x", "client_software_version": "1"}
    assert all(f.min_version > 0 for f in World().ask(api_versions, 3, **client).supported_features)


@gotcha(15, "no telemetry is advertised", breaks="Java, librdkafka start pushing")
def no_telemetry() -> None:
    assert not {71, 72} & handlers().keys()


@gotcha(16, "the fetch session is always 0", breaks="Java")
def no_sessions() -> None:
    # Epoch 0 asks for a new session and -1 for none; a later one is that of a session that this
    # server cannot have, and a Java client begins anew with a full Fetch.
    not_found = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for version, (epoch, error) in product(range(7, 19), ((0, 0), (-1, 0), (5, not_found))):
        fields: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1,
            "session_id": 77,
            "session_epoch": epoch,
            "topics": [],
        }
        answer = World().ask(fetch, version, **fields)
        assert (answer.session_id, answer.error_code) == (0, error)


@gotcha(17, "OffsetForLeaderEpoch is right", breaks="Java, franz-go see truncation")
def ends_of_epochs() -> None:
    for epoch, end in (1, (1, 10)), (2, (1, 10)), (3, (3, 15)), (4, (-1, -1)):
        topics = [{"topic": NAME, "partitions": [{"partition": 0, "leader_epoch": epoch}]}]
        (found,) = (
            World()
            .ask(offset_for_leader_epoch, 4, replica_id=-1, topics=topics)
            .topics[0]
            .partitions
        )
        assert (found.leader_epoch, found.end_offset) == end


@gotcha(17, "the epoch that Metadata gives is not fenced", breaks="a loop of metadata refreshes")
def metadata_and_fetch_agree() -> None:
    (partition,) = World().ask(metadata, 13, topics=None).topics[0].partitions
    assert partition.leader_id == NODE
    assert (
        fetched(World(), NEWEST_FETCH, 0, current_leader_epoch=partition.leader_epoch).error_code
        == 0
    )
    assert (
        fetched(
            World(), NEWEST_FETCH, 0, current_leader_epoch=partition.leader_epoch - 1
        ).error_code
        == 74
    )


@gotcha(
    18,
    "LEADER_CHANGE is type 2 with a key of four bytes, in a control batch",
    breaks="kafka-python, librdkafka",
)
def leader_changes() -> None:
    data = bytes(fetched(World(sample_partition()), NEWEST_FETCH, 0, max_bytes=1 << 30).records)
    control = [
        record
        for batch in decode_batches(data)
        if batch.header.is_control
        for record in batch.records
    ]
    assert {len(record.key or b"") for record in control} == {4}
    assert "LEADER_CHANGE" in {decode_control_record(record).name for record in control}
    assert (control[0].key or b"")[2:] == b"\x00\x02"


@gotcha(19, "batches are served with their CRC and their leader epoch", breaks="all but kafkajs")
def batches_as_written() -> None:
    world = World(sample_partition())
    data = bytes(fetched(world, NEWEST_FETCH, 0, max_bytes=1 << 30).records)
    assert data == b"".join(batch.data for batch in world.partition.batches)
    for header in iter_batches(data):
        verify_crc(data, header)  # raises where it is wrong
        assert header.partition_leader_epoch >= 1


@gotcha(24, "a long poll at the end waits instead of answering emptily", breaks="clients that spin")
def long_polls_wait() -> None:
    assert isinstance(ask_fetch(World(), NEWEST_FETCH, 15, max_wait_ms=500), PendingResponse)


@pytest.mark.parametrize("row", GOTCHAS, ids=lambda row: f"{row.number}-{row.check.__name__}")
def test_gotcha_of_the_protocol_is_handled(row: Gotcha) -> None:
    row.check()


def test_every_check_is_a_row() -> None:
    elsewhere = {20, 21, 22, 23}  # raft's requests, group membership, connections
    assert {row.number for row in GOTCHAS} | elsewhere == set(range(1, 25))
