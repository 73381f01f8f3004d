"""Metadata of one topic and one node, at every version and for every form of request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.handlers.access import NOT_ASKED
from gateway.handlers.apis import metadata
from gateway.ports.services import Requester, State
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.gateway.handlers.world import CLUSTER_ID, NODE, World, over_the_wire

NAME = "__cluster_metadata"
OTHER_ID = Uuid(b"\x07" * 16)


def names(answer: Any) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_every_version_names_the_node_and_the_topic(version: int) -> None:
    answer = World().ask(metadata, version, topics=[{"name": NAME}])
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [
        (NODE, "gateway.example", 9092)
    ]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, NAME, False)
    (partition,) = topic.partitions
    assert (partition.partition_index, partition.leader_id, partition.error_code) == (0, NODE, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == (
        [NODE],
        [NODE],
        [],
    )
    assert partition.leader_epoch == (3 if version >= 7 else -1)
    assert answer.controller_id == (NODE if version >= 1 else -1)
    assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert topic.topic_id == (METADATA_TOPIC_ID if version >= 10 else ZERO_UUID)
    assert topic.topic_authorized_operations == NOT_ASKED


def test_the_address_is_that_of_the_listener_asked_by() -> None:
    assert World().ask(metadata, 13, listener="EXTERNAL", topics=None).brokers[0].port == 19092


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_all_topics(version: int) -> None:
    everything: list[Any] | None = [] if version == 0 else None
    assert names(World().ask(metadata, version, topics=everything)) == [(NAME, 0)]


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_asks_for_the_nodes_only(version: int) -> None:
    answer = World().ask(metadata, version, topics=[])
    assert (answer.topics, len(answer.brokers)) == ([], 1)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x" * 249, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("käse", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
@pytest.mark.parametrize("version", [0, 9, 13])
def test_topics_that_are_not_there(version: int, name: str, error: ErrorCode) -> None:
    assert names(World().ask(metadata, version, topics=[{"name": name}])) == [(name, error)]


def test_no_topic_is_created() -> None:
    answer = World().ask(metadata, 13, topics=[{"name": "orders"}], allow_auto_topic_creation=True)
    assert names(answer) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_name_asked_twice_is_answered_once() -> None:
    assert names(
        World().ask(metadata, 9, topics=[{"name": NAME}, {"name": "x"}, {"name": NAME}])
    ) == [(NAME, 0), ("x", 3)]


@pytest.mark.parametrize("version", [12, 13])
def test_by_id(version: int) -> None:
    answer = World().ask(
        metadata,
        version,
        topics=[
            {"name": None, "topic_id": METADATA_TOPIC_ID},
            {"name": None, "topic_id": OTHER_ID},
        ],
    )
    assert names(answer) == [(NAME, 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert [topic.topic_id for topic in answer.topics] == [METADATA_TOPIC_ID, OTHER_ID]


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_have_the_id_but_may_not_use_it(version: int) -> None:
    answer = World().ask(
        metadata,
        version,
        topics=[
            {"name": None, "topic_id": METADATA_TOPIC_ID},
            {"name": NAME, "topic_id": OTHER_ID},
        ],
    )
    assert names(answer) == [("", ErrorCode.INVALID_REQUEST), (NAME, ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_allowed_operations_when_asked(version: int) -> None:
    world = World()
    world.authorizer.forbidden = {("DESCRIBE_CONFIGS", "TOPIC", NAME)}
    answer = world.ask(
        metadata,
        version,
        topics=[{"name": NAME}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert (
        answer.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
    )  # READ and DESCRIBE: no client may write
    assert answer.cluster_authorized_operations == 1 << 8 | 1 << 10


def test_a_topic_one_may_not_describe() -> None:
    world = World()
    world.authorizer.forbidden = {("DESCRIBE", "TOPIC", "*")}
    assert names(world.ask(metadata, 13, topics=None)) == []
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answer = world.ask(
        metadata,
        13,
        topics=[{"name": NAME}, {"name": "orders"}, {"name": None, "topic_id": METADATA_TOPIC_ID}],
    )
    assert names(answer) == [(NAME, refused), ("orders", refused), (None, refused)]
    assert [topic.topic_id for topic in answer.topics[:2]] == [ZERO_UUID, ZERO_UUID]


def test_while_loading_there_is_no_leader_yet() -> None:
    world = World()
    world.partition.state = State.LOADING
    (partition,) = world.ask(metadata, 13, topics=None).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        -1,
    )


def test_librdkafkas_malformed_question_for_all_topics() -> None:
    # It writes a four-byte array length of zero where a compact one belongs: null topics, and three
    # bytes too many.
    for version, flags in (9, bytes(3)), (12, bytes(2)):
        body = bytes(4) + flags + b"\x00"
        request, end = MetadataRequest.decode_from(body, version)
        assert len(body) - end == 3
        assert request == MetadataRequest.decode(body, version, allow_trailing=True)
        world = World()
        answer = over_the_wire(metadata.handle(request, world.context(version)), version)
        assert names(answer) == [(NAME, 0)]


class Creator:
    """The names that were to be created, with the clients that asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def create(self, name: str, requester: Requester) -> None:
        self.asked.append((name, requester.principal))


class TestTopicThatDoesNotExist:
    def ask(self, world: World, name: str, version: int = 12, **more: Any) -> int:
        [topic] = world.ask(metadata, version, topics=[{"name": name}], **more).topics
        assert topic.name == name and not topic.is_internal
        return int(topic.error_code)

    def world(self, *forbidden: tuple[str, str, str]) -> World:
        world = World()
        world.topic_creator = Creator()
        world.authorizer.forbidden = set(forbidden)
        return world

    @pytest.mark.parametrize("version", [1, 3, 4, 12])
    def test_it_is_created_and_unknown_until_then(self, version: int) -> None:
        world = self.world()
        assert self.ask(world, "orders", version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert world.topic_creator.asked == [("orders", "User:ANONYMOUS")]

    def test_it_is_not_created_where_the_client_does_not_allow_it(self) -> None:
        world = self.world()
        error = self.ask(world, "orders", allow_auto_topic_creation=False)
        assert (error, world.topic_creator.asked) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])

    def test_name_that_no_topic_can_have_is_not_created(self) -> None:
        world = self.world()
        assert self.ask(world, "a b") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert world.topic_creator.asked == []

    def test_client_without_create_on_cluster_and_topic_is_refused(self) -> None:
        world = self.world(("CREATE", "CLUSTER", "*"), ("CREATE", "TOPIC", "*"))
        assert self.ask(world, "orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert world.topic_creator.asked == []

    @pytest.mark.parametrize("resource", ["CLUSTER", "TOPIC"])
    def test_create_on_one_of_them_is_enough(self, resource: str) -> None:
        world = self.world(("CREATE", resource, "*"))
        assert self.ask(world, "orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [name for name, _ in world.topic_creator.asked] == ["orders"]

    def test_a_broker_that_has_just_started_may_not_know_it_yet(self) -> None:
        world = self.world()
        world.replicas = SimpleNamespace(knows_topics=False)
        assert self.ask(world, "orders") == ErrorCode.LEADER_NOT_AVAILABLE
        assert world.topic_creator.asked == []
        world.replicas = SimpleNamespace(knows_topics=True)
        assert self.ask(world, "orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
