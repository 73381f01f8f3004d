"""The scripted cluster: each version of each API is answered in its form, faults change answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.conformance.client.answers import SERVED, offered
from kwire.conformance.client.cluster import Cluster
from kwire.conformance.client.faults import Fault, close_before, cut_half
from kwire.conformance.client.state import State, fill
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import Record, encode_batch
from kwire.registry import response_type
from kwire.uuid import Uuid
from tests.waiting import PATIENCE_S

_TOPIC = "t"
_ID = Uuid(b"kwire-conform-id")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    state = State(_TOPIC, _ID)
    fill(state.log, "abcdef")
    state.group.member, state.group.generation = "m", 3
    with Cluster(state) as running:
        yield running


def exchange(cluster: Cluster, api: ApiKey, version: int, request: Message) -> Any:
    """The answer to a request on a connection of its own, None if the connection was closed."""
    host, _, port = cluster.bootstrap.rpartition(":")
    head = encode_request_header(api, version, 9, "test")
    splitter = FrameSplitter(1 << 20)
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(frame(head, request.encode(version)))
        while (data := splitter.next_frame()) is None:
            piece = connection.recv(65536)
            if not piece:
                return None
            splitter.feed(piece)
    header, start = decode_response_header(api, version, data)
    assert header.correlation_id == 9
    return response_type(api).decode(data[start:], version)


def _request(api: ApiKey, version: int) -> Message:
    return {**_group_requests(version), **_other_requests(version)}[api]


def _named(version: int, by_id_from: int, name: str) -> dict[str, Any]:
    return {"topic_id": _ID} if version >= by_id_from else {name: _TOPIC}


def _other_requests(version: int) -> dict[ApiKey, Message]:
    records = encode_batch([Record(offset=0, timestamp=1, value=b"v")])
    software = "a" if version >= 3 else ""
    written = TopicProduceData(
        **_named(version, 13, "name"),
        partition_data=[PartitionProduceData(index=0, records=records)],
    )
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    fetched = FetchTopic(
        **_named(version, 13, "topic"),
        partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
    )
    epoch = OffsetForLeaderPartition(partition=0, leader_epoch=5)
    return {
        ApiKey.API_VERSIONS: ApiVersionsRequest(
            client_software_name=software, client_software_version=software
        ),
        ApiKey.METADATA: MetadataRequest(topics=None if version else []),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id=None),
        ApiKey.PRODUCE: ProduceRequest(acks=1, topic_data=[written]),
        ApiKey.LIST_OFFSETS: ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=_TOPIC, partitions=[latest])]
        ),
        ApiKey.FETCH: FetchRequest(max_wait_ms=100, topics=[fetched]),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=_TOPIC, partitions=[epoch])]
        ),
        ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest(mechanism="PLAIN"),
        ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b"\0a\0b"),
    }


def _group_requests(version: int) -> dict[ApiKey, Message]:
    keys: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
    members: dict[str, Any] = {"member_id": "m"}
    if version >= 3:
        members = {"members": [MemberIdentity(member_id="m")]}
    committed = OffsetCommitRequestTopic(
        **_named(version, 10, "name"),
        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=4)],
    )
    named = _named(version, 10, "name")
    asked = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name=_TOPIC, partition_indexes=[0])]
    )
    if version >= 8:
        topics = [OffsetFetchRequestTopics(**named, partition_indexes=[0])]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    return {
        ApiKey.FIND_COORDINATOR: FindCoordinatorRequest(**keys),
        ApiKey.JOIN_GROUP: JoinGroupRequest(
            group_id="g",
            member_id="m",
            protocol_type="consumer",
            session_timeout_ms=9000,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x")],
        ),
        ApiKey.SYNC_GROUP: SyncGroupRequest(
            group_id="g",
            generation_id=3,
            member_id="m",
            assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"y")],
        ),
        ApiKey.HEARTBEAT: HeartbeatRequest(group_id="g", generation_id=3, member_id="m"),
        ApiKey.LEAVE_GROUP: LeaveGroupRequest(group_id="g", **members),
        ApiKey.OFFSET_COMMIT: OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=3, member_id="m", topics=[committed]
        ),
        ApiKey.OFFSET_FETCH: asked,
    }


def _codes(value: Any) -> Iterator[int]:
    for field in value.fields():
        one = getattr(value, field.attr)
        if field.is_struct and field.array:
            for part in one or ():
                yield from _codes(part)
        elif field.name == "ErrorCode":
            yield one


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.title)
def test_each_version_is_answered_without_an_error(cluster: Cluster, api: ApiKey) -> None:
    low, high = offered(cluster.state)[api]
    for version in range(max(low, 3) if api is ApiKey.PRODUCE else low, high + 1):
        answer = exchange(cluster, api, version, _request(api, version))
        assert answer is not None, version
        assert set(_codes(answer)) <= {0}, (version, answer)


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.title)
def test_each_version_can_be_refused(cluster: Cluster, api: ApiKey) -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    cluster.fault(Fault("refused", error=code, times=100))
    low, high = offered(cluster.state)[api]
    for version in range(max(low, 3) if api is ApiKey.PRODUCE else low, high + 1):
        answer = exchange(cluster, api, version, _request(api, version))
        # OffsetFetch 1 has errors of partitions only, of which an error of the group has none.
        if (api, version) != (ApiKey.OFFSET_FETCH, 1):
            assert code in set(_codes(answer)), (version, answer)


def test_a_version_that_is_not_offered_closes_the_connection(cluster: Cluster) -> None:
    cluster.state.offered = {ApiKey.METADATA: (0, 8)}
    assert exchange(cluster, ApiKey.METADATA, 9, MetadataRequest(topics=None)) is None
    assert exchange(cluster, ApiKey.METADATA, 8, MetadataRequest(topics=None)) is not None


@pytest.mark.parametrize("act", [close_before, cut_half])
def test_a_fault_happens_to_one_request(cluster: Cluster, act: Any) -> None:
    fault = cluster.fault(Fault("closed", ApiKey.METADATA, act=act))
    assert exchange(cluster, ApiKey.METADATA, 8, MetadataRequest(topics=None)) is None
    assert exchange(cluster, ApiKey.METADATA, 8, MetadataRequest(topics=None)) is not None
    assert [seen.fault for seen in fault.happened] == ["closed"]


def test_a_batch_that_comes_twice_is_in_the_log_once(cluster: Cluster) -> None:
    exchange(cluster, ApiKey.INIT_PRODUCER_ID, 1, InitProducerIdRequest(transactional_id=None))
    [producer] = cluster.state.producers

    def produce(sequence: int, value: bytes) -> tuple[int, int]:
        records = encode_batch(
            [Record(offset=0, timestamp=1, value=value)],
            producer_id=producer, producer_epoch=0, base_sequence=sequence,
        )  # fmt: skip
        part = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name=_TOPIC, partition_data=[part])
        request = ProduceRequest(acks=-1, topic_data=[topic])
        answer = exchange(cluster, ApiKey.PRODUCE, 7, request)
        [found] = answer.responses[0].partition_responses
        return found.error_code, found.base_offset

    assert produce(0, b"a") == (0, 30)
    assert produce(0, b"a") == (0, 30)
    assert produce(1, b"b") == (0, 31)
    assert produce(3, b"d") == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert cluster.state.written == [b"a", b"b"]


def test_a_request_behind_an_answer_is_the_only_one_in_flight(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    head = encode_request_header(ApiKey.METADATA, 8, 9, "test")
    request = frame(head, MetadataRequest(topics=[]).encode(8))
    splitter = FrameSplitter(1 << 20)
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        for _ in range(300):
            connection.sendall(request)
            while splitter.next_frame() is None:
                splitter.feed(connection.recv(65536))
    assert {seen.in_flight for seen in cluster.traffic.all()} == {1}


def test_an_exception_in_a_fault_is_kept_and_closes_the_connection(cluster: Cluster) -> None:
    def fail(answer: object) -> None:
        raise LookupError("no such thing")

    cluster.fault(Fault("broken", act=fail))
    try:
        answer = exchange(cluster, ApiKey.METADATA, 8, MetadataRequest(topics=None))
    except ConnectionError:
        answer = None
    assert answer is None
    assert isinstance(cluster.broken, LookupError)
