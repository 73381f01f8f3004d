"""DescribeCluster, DescribeTopicPartitions, DescribeQuorum and DescribeLogDirs of one node and
topic.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from gateway.handlers.access import NOT_ASKED
from gateway.handlers.apis import (
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
)
from gateway.ports.services import State
from kwire.cluster.image import Image
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kwire.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.world import CLUSTER_ID, NODE, MemoryQuorum, World, over_the_wire

NAME = "__cluster_metadata"


class TestCluster:
    @pytest.mark.parametrize("version", describe_cluster.VERSIONS)
    def test_this_node_is_all_of_it(self, version: int) -> None:
        answer = World().ask(describe_cluster, version, listener="EXTERNAL")
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, NODE)
        assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in answer.brokers] == [
            (NODE, "gateway.example", 19092, None, False)
        ]
        assert answer.cluster_authorized_operations == NOT_ASKED

    def test_allowed_operations(self) -> None:
        answer = World().ask(describe_cluster, 2, include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == 1 << 8 | 1 << 10

    @pytest.mark.parametrize(
        ("endpoint_type", "error"),
        [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_there_are_no_controllers_behind_a_broker_listener(
        self, endpoint_type: int, error: ErrorCode
    ) -> None:
        answer = World().ask(describe_cluster, 1, endpoint_type=endpoint_type)
        assert (answer.error_code, answer.brokers, answer.endpoint_type) == (
            error,
            [],
            endpoint_type,
        )
        assert answer.error_message


def register(
    node_id: int, *, fenced: bool = False, rack: str | None = None
) -> RegisterBrokerRecord:
    names = {"PLAINTEXT": node_id + 9000, "EXTERNAL": node_id + 19000}
    endpoints = [
        BrokerEndpoint(name=name, host=f"broker{node_id}", port=port)
        for name, port in names.items()
    ]
    return RegisterBrokerRecord(broker_id=node_id, fenced=fenced, rack=rack, end_points=endpoints)


class TestClusterOfAQuorum:
    @pytest.fixture
    def world(self) -> World:
        image = Image(
            brokers={5: register(5, rack="r1"), 4: register(4), 6: register(6, fenced=True)}
        )
        for node_id in (3, 1, 2):
            endpoint = ControllerEndpoint(name="CONTROLLER", host=f"ctl{node_id}", port=9093)
            image.controllers[node_id] = RegisterControllerRecord(
                controller_id=node_id, end_points=[endpoint]
            )
        return World(quorum=MemoryQuorum(leader_id=2, image=image))

    def test_its_brokers_at_the_listener_of_the_clients_name(self, world: World) -> None:
        answer = world.ask(describe_cluster, 1, listener="EXTERNAL")
        assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
            (4, "broker4", 19004, None),
            (5, "broker5", 19005, "r1"),
        ]
        assert (answer.controller_id, answer.cluster_id) == (4, CLUSTER_ID)

    def test_fenced_brokers_where_they_are_asked_for(self, world: World) -> None:
        answer = world.ask(describe_cluster, 2, include_fenced_brokers=True)
        assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [
            (4, False),
            (5, False),
            (6, True),
        ]
        assert [b.broker_id for b in world.ask(describe_cluster, 2).brokers] == [4, 5]

    def test_its_controllers_and_who_leads_them(self, world: World) -> None:
        answer = world.ask(describe_cluster, 1, endpoint_type=2)
        assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
            (n, f"ctl{n}", 9093) for n in (1, 2, 3)
        ]
        assert (answer.controller_id, answer.endpoint_type, answer.error_code) == (2, 2, 0)


class TestTopicPartitions:
    def ask(self, world: World, *names: str, **fields: Any) -> Any:
        return world.ask(
            describe_topic_partitions, 0, topics=[{"name": name} for name in names], **fields
        )

    def test_all_topics(self) -> None:
        answer = self.ask(World())
        (topic,) = answer.topics
        assert (topic.name, topic.topic_id, topic.is_internal, topic.error_code) == (
            NAME,
            METADATA_TOPIC_ID,
            False,
            0,
        )
        assert topic.topic_authorized_operations == 1 << 3 | 1 << 8 | 1 << 10
        (partition,) = topic.partitions
        assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (
            NODE,
            3,
            [NODE],
        )
        assert (partition.isr_nodes, partition.offline_replicas) == ([NODE], [])
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
        assert answer.next_cursor is None

    def test_topics_come_in_the_order_of_their_names(self) -> None:
        answer = self.ask(World(), "zebra", NAME, "a b", "aaa", NAME)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            (NAME, 0),
            ("a b", 17),
            ("aaa", 3),
            ("zebra", 3),
        ]

    def test_a_limit_is_followed_by_a_cursor_that_goes_on(self) -> None:
        first = self.ask(World(), NAME, "zebra", response_partition_limit=1)
        assert [topic.name for topic in first.topics] == [NAME]
        assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("zebra", 0)
        cursor = {"topic_name": "zebra", "partition_index": 0}
        second = self.ask(World(), NAME, "zebra", response_partition_limit=1, cursor=cursor)
        assert ([topic.name for topic in second.topics], second.next_cursor) == (["zebra"], None)

    @pytest.mark.parametrize("limit", [0, -1, -(2**31)])
    def test_at_least_one_partition_is_given(self, limit: int) -> None:
        assert len(self.ask(World(), response_partition_limit=limit).topics[0].partitions) == 1

    def test_a_cursor_behind_the_last_partition(self) -> None:
        answer = self.ask(World(), cursor={"topic_name": NAME, "partition_index": 1})
        assert [(topic.name, topic.partitions) for topic in answer.topics] == [(NAME, [])]

    def test_a_cursor_behind_the_last_topic(self) -> None:
        assert self.ask(World(), cursor={"topic_name": "a", "partition_index": 0}).topics == []

    def test_a_cursor_at_no_partition_is_refused(self) -> None:
        answer = self.ask(World(), NAME, "x", cursor={"topic_name": NAME, "partition_index": -1})
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            (NAME, 42),
            ("x", 42),
        ]

    def test_topics_one_may_not_describe(self) -> None:
        world = World()
        world.authorizer.forbidden = {("DESCRIBE", "TOPIC", NAME)}
        assert self.ask(world).topics == []
        answer = self.ask(world, NAME, "x")
        assert [(t.name, t.error_code) for t in answer.topics] == [
            ("x", 3),
            (NAME, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]

    def test_while_loading(self) -> None:
        world = World()
        world.partition.state = State.LOADING
        (partition,) = self.ask(world).topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


class TestQuorum:
    TOPICS = ({"topic_name": NAME, "partitions": [{"partition_index": 0}]},)

    @pytest.mark.parametrize("version", describe_quorum.VERSIONS)
    def test_what_kafka_metadata_quorum_prints(self, version: int) -> None:
        answer = World().ask(describe_quorum, version, topics=list(self.TOPICS))
        (topic,) = answer.topics
        (partition,) = topic.partitions
        assert (answer.error_code, topic.topic_name, partition.error_code) == (0, NAME, 0)
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (
            NODE,
            3,
            15,
        )
        (voter,) = partition.current_voters  # the tool looks for the leader among the voters
        assert (voter.replica_id, voter.log_end_offset, partition.observers) == (NODE, 15, [])
        assert voter.last_caught_up_timestamp == (1_700_000_000_000 if version >= 1 else -1)
        listeners = [
            (node.node_id, one.name, one.host, one.port)
            for node in answer.nodes
            for one in node.listeners
        ]
        assert listeners == ([(NODE, "PLAINTEXT", "gateway.example", 9092)] if version >= 2 else [])

    @pytest.mark.parametrize("version", describe_quorum.VERSIONS)
    @pytest.mark.parametrize(
        "asked",
        [
            [("orders", [0])],
            [(NAME, [1])],
            [(NAME, [0, 0])],
            [(NAME, [0]), ("orders", [0])],
            [(NAME, [])],
            [],
        ],
    )
    def test_anything_but_its_one_partition_is_unknown(
        self, version: int, asked: list[tuple[str, list[int]]]
    ) -> None:
        topics = [
            {"topic_name": name, "partitions": [{"partition_index": i} for i in indexes]}
            for name, indexes in asked
        ]
        answer = World().ask(describe_quorum, version, topics=topics)
        got = [
            (t.topic_name, [(p.partition_index, p.error_code) for p in t.partitions])
            for t in answer.topics
        ]
        assert got == [(name, [(index, 3) for index in indexes]) for name, indexes in asked]

    def test_while_loading_nobody_leads(self) -> None:
        world = World()
        world.partition.state = State.LOADING
        (partition,) = world.ask(describe_quorum, 2, topics=list(self.TOPICS)).topics[0].partitions
        assert (partition.error_code, partition.current_voters) == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            [],
        )

    def test_asking_needs_the_right_to_describe_the_cluster(self) -> None:
        world = World()
        world.authorizer.forbidden = {("DESCRIBE", "CLUSTER", "kafka-cluster")}
        answer = world.ask(describe_quorum, 2, topics=list(self.TOPICS))
        assert (answer.error_code, answer.topics) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


class TestLogDirs:
    @pytest.mark.parametrize("version", describe_log_dirs.VERSIONS)
    @pytest.mark.parametrize("topics", [None, [{"topic": NAME, "partitions": [0]}]])
    def test_where_the_log_is_and_how_large(self, version: int, topics: Any) -> None:
        answer = World().ask(describe_log_dirs, version, topics=topics)
        (result,) = answer.results
        assert (result.error_code, result.log_dir) == (0, "/var/lib/kafka/__cluster_metadata-0")
        assert (result.total_bytes, result.usable_bytes, result.is_cordoned) == (-1, -1, False)
        ((partition,),) = [topic.partitions for topic in result.topics if topic.name == NAME]
        assert (partition.partition_index, partition.partition_size, partition.offset_lag) == (
            0,
            400,
            0,
        )

    @pytest.mark.parametrize(
        "topics",
        [[], [{"topic": "orders", "partitions": [0]}], [{"topic": NAME, "partitions": [1]}]],
    )
    def test_other_partitions_are_not_in_it(self, topics: Any) -> None:
        assert World().ask(describe_log_dirs, 4, topics=topics).results[0].topics == []

    @pytest.mark.parametrize("version", describe_log_dirs.VERSIONS)
    def test_asking_needs_the_right_to_describe_the_cluster(self, version: int) -> None:
        world = World()
        world.authorizer.forbidden = {("DESCRIBE", "CLUSTER", "kafka-cluster")}
        answer = world.ask(describe_log_dirs, version, topics=None)
        assert answer.results == []
        assert answer.error_code == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version >= 3 else 0)


class TestQuorumThatIsObserved:
    ANSWER: ClassVar = {
        "errorCode": 0,
        "errorMessage": None,
        "topics": [
            {
                "topicName": NAME,
                "partitions": [
                    {
                        "partitionIndex": 0,
                        "errorCode": 0,
                        "errorMessage": None,
                        "leaderId": 2,
                        "leaderEpoch": 9,
                        "highWatermark": 77,
                        "currentVoters": [
                            {
                                "replicaId": 2,
                                "replicaDirectoryId": "AAAAAAAAAAAAAAAAAAAAAg",
                                "logEndOffset": 78,
                                "lastFetchTimestamp": 5,
                                "lastCaughtUpTimestamp": 6,
                            }
                        ],
                        "observers": [],
                    }
                ],
            }
        ],
        "nodes": [
            {"nodeId": 2, "listeners": [{"name": "CONTROLLER", "host": "ctl2", "port": 9093}]}
        ],
    }

    def ask(self, world: World, version: int) -> Any:
        topics = [{"topic_name": NAME, "partitions": [{"partition_index": 0}]}]
        return world.ask(describe_quorum, version, topics=topics)

    @pytest.mark.parametrize("version", describe_quorum.VERSIONS)
    def test_its_leader_is_asked(self, version: int) -> None:
        quorum = MemoryQuorum()
        told: list[Any] = []
        self.ask(World(quorum=quorum), version).attach(told.append)
        assert not told
        quorum.asked[0](DescribeQuorumResponse.from_json(self.ANSWER, 2))
        answer = over_the_wire(told[0], version)
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 9, 77)
        (voter,) = partition.current_voters
        assert voter.log_end_offset == 78
        assert voter.last_fetch_timestamp == (5 if version else -1)
        assert voter.replica_directory_id == (
            Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg") if version == 2 else Uuid(bytes(16))
        )
        assert [node.node_id for node in answer.nodes] == ([2] if version == 2 else [])

    def test_a_leader_that_cannot_be_asked_is_an_error_on_which_clients_ask_again(self) -> None:
        quorum = MemoryQuorum()
        told: list[Any] = []
        pending = self.ask(World(quorum=quorum), 2)
        expire = pending.expire
        pending.attach(told.append)
        quorum.asked[0]("nobody leads at the moment")
        (partition,) = told[0].topics[0].partitions
        assert (partition.error_code, partition.error_message) == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "nobody leads at the moment",
        )
        assert pending.deadline is not None and expire().topics[0].partitions[0].error_code == 6
