"""kwire's broker follows partitions that a broker of Kafka leads, under Kafka's controller: it is
in sync, has the leader's bytes, leads in its turn, and drops what an unclean election took back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kwire.uuid import ZERO_UUID
from tests.interop.brokers import partitions
from tests.interop.clients import need_clients
from tests.interop.quorum import need_kafka
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.admin import Admin
from tools.kafka import Cluster, Node, kafka
from tools.own_brokers import OwnBrokers, own_brokers
from tools.real_brokers import SESSIONS

KAFKAS, OURS = 101, 201
_LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION_NOT_NEEDED = 84
PROPERTIES = {
    **SESSIONS,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Mixed(NamedTuple):
    """A broker of Kafka, with the controller, and one of kwire."""

    kafka: Cluster
    own: OwnBrokers

    @property
    def theirs(self) -> Node:
        return self.kafka.node(KAFKAS)

    @property
    def ours(self) -> Node:
        return self.own.nodes[0]

    def stop(self, node_id: int) -> None:
        """Kill a broker (``kill -9``)."""
        of = self.kafka if node_id == KAFKAS else self.own
        of.kill_node(of.node(node_id))

    def start(self, node_id: int) -> None:
        of = self.kafka if node_id == KAFKAS else self.own
        of.start_node(of.node(node_id))
        of.wait_for_node(of.node(node_id))

    def log(self, node_id: int, topic: str) -> bytes:
        """The bytes of partition 0 at a broker."""
        directory = self.directory(node_id, topic)
        files = sorted(directory.glob("*.log")) if directory else []
        return b"".join(file.read_bytes() for file in files)

    def directory(self, node_id: int, topic: str) -> Path | None:
        of = self.kafka if node_id == KAFKAS else self.own
        found = list(of.node(node_id).directory.glob(f"data*/{topic}-0"))
        return found[0] if found else None

    def are_equal(self, topic: str) -> bool:
        """Whether both brokers have the same bytes, and epochs."""
        found = [self.directory(one, topic) for one in (KAFKAS, OURS)]
        if None in found or self.log(KAFKAS, topic) != self.log(OURS, topic):
            return False
        epochs = {(one / "leader-epoch-checkpoint").read_text() for one in found if one}
        return len(epochs) == 1

    def wait_until_equal(self, topic: str) -> None:
        until(lambda: self.in_sync(topic) == {KAFKAS, OURS}, f"{topic} is in sync")
        until(lambda: self.are_equal(topic), f"the logs of {topic} are equal")

    def in_sync(self, topic: str) -> frozenset[int]:
        return partitions(self.kafka, topic)[0].in_sync

    def create(self, topic: str, *replicas: int, **configs: str) -> None:
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        made = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assigned],
            configs=[
                CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        with Admin([self.kafka.bootstrap]) as admin:
            (found,) = admin.send(CreateTopicsRequest(topics=[made], timeout_ms=10_000)).topics
        assert found.error_code == 0, found.error_message

    def reassign(self, topic: str, *replicas: int) -> None:
        moved = ReassignablePartition(partition_index=0, replicas=list(replicas))
        of = ReassignableTopic(name=topic, partitions=[moved])
        with Admin([self.kafka.bootstrap]) as admin:
            answer = admin.send(AlterPartitionReassignmentsRequest(topics=[of], timeout_ms=10_000))
        assert answer.error_code == answer.responses[0].partitions[0].error_code == 0

    def lead(self, topic: str, node_id: int) -> None:
        """Have a broker lead a topic (``kafka-reassign-partitions``, ``kafka-leader-election``)."""
        other = KAFKAS if node_id == OURS else OURS
        self.reassign(topic, node_id, other)
        asked = ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic=topic, partitions=[0])], timeout_ms=10_000
        )
        with Admin([self.kafka.bootstrap]) as admin:
            admin.send(asked, accept=(ELECTION_NOT_NEEDED,))
        until(lambda: partitions(self.kafka, topic)[0].leader == node_id, f"{node_id} leads")


def _two_directories(node: Node) -> dict[str, str]:
    return {"log.dirs": f"{node.log_dir},{node.directory / 'data-2'}"}


@pytest.fixture(scope="module")
def mixed() -> Iterator[Mixed]:
    need_kafka()
    need_clients()
    with (
        kafka(brokers=1, controllers=1, properties=PROPERTIES) as theirs,
        own_brokers(theirs, node_properties=_two_directories) as own,
    ):
        yield Mixed(theirs, own)


def produce(mixed: Mixed, topic: str, *values: str) -> None:
    """Produce as an idempotent producer, with acks=all; every record is acknowledged."""
    from confluent_kafka import Producer

    refused: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"{mixed.kafka.bootstrap},{mixed.own.bootstrap}",
            "enable.idempotence": True,
            "delivery.timeout.ms": 180_000,
            "linger.ms": 0,
        }
    )
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: refused.append(error) if error else None
        )
    assert producer.flush(PATIENCE_S * 2) == 0
    assert refused == []


def numbers(first: int, count: int) -> list[str]:
    return [f"record {number} " + "." * 100 for number in range(first, first + count)]


def test_follower_is_in_sync_and_has_the_leaders_bytes(mixed: Mixed) -> None:
    mixed.create("copied", KAFKAS, OURS, segment_bytes="1048576")
    produce(mixed, "copied", *numbers(0, 20_000))
    mixed.wait_until_equal("copied")
    directory = mixed.directory(OURS, "copied")
    assert directory is not None
    files = sorted(str(path) for path in directory.glob("*.log"))
    assert len(files) > 1
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--index-sanity-check", "--files", ",".join(files)]
    )
    assert "mismatch" not in said.lower() and "Found" not in said


def test_both_brokers_are_killed_in_turn(mixed: Mixed) -> None:
    mixed.create("killed", KAFKAS, OURS)
    produce(mixed, "killed", *numbers(0, 500))
    for first, node_id in ((500, OURS), (1000, KAFKAS)):
        mixed.stop(node_id)
        if node_id == OURS:
            produce(mixed, "killed", *numbers(first, 500))
        mixed.start(node_id)
        produce(mixed, "killed", *numbers(first + 250, 250))
        mixed.wait_until_equal("killed")


def test_leader_moves_to_kwire_and_back(mixed: Mixed) -> None:
    mixed.create("moved", KAFKAS, OURS)
    for first, node_id in ((0, KAFKAS), (500, OURS), (1000, KAFKAS), (1500, OURS)):
        mixed.lead("moved", node_id)
        produce(mixed, "moved", *numbers(first, 500))
        mixed.wait_until_equal("moved")


def test_records_that_an_unclean_election_took_back_are_dropped(mixed: Mixed) -> None:
    mixed.create("unclean", OURS, KAFKAS, unclean_leader_election_enable="true")
    produce(mixed, "unclean", *numbers(0, 500))
    mixed.stop(KAFKAS)
    until(lambda: partitions(mixed.own, "unclean")[0].in_sync == {OURS}, "kwire's is alone in sync")
    produce(mixed, "unclean", *numbers(500, 700))
    mixed.stop(OURS)
    mixed.start(KAFKAS)
    until(lambda: partitions(mixed.kafka, "unclean")[0].leader == KAFKAS, "Kafka's broker leads")
    produce(mixed, "unclean", *numbers(9000, 300))
    mixed.start(OURS)
    mixed.wait_until_equal("unclean")
    log = mixed.log(OURS, "unclean")
    assert b"record 9299 " in log and b"record 1199 " not in log


def test_replica_is_added_behind_deleted_records_and_removed(mixed: Mixed) -> None:
    mixed.create("reassigned", KAFKAS)
    produce(mixed, "reassigned", *numbers(0, 300))
    produce(mixed, "reassigned", *numbers(300, 200))
    # Inside of a batch, from which on the new replica gets the log.
    deleted = DeleteRecordsPartition(partition_index=0, offset=400)
    of = DeleteRecordsTopic(name="reassigned", partitions=[deleted])
    with Admin([mixed.kafka.bootstrap]) as admin:
        admin.send(DeleteRecordsRequest(topics=[of], timeout_ms=10_000))
    mixed.reassign("reassigned", KAFKAS, OURS)
    until(lambda: mixed.in_sync("reassigned") == {KAFKAS, OURS}, "the new replica is in sync")
    until(lambda: b"record 499 " in mixed.log(OURS, "reassigned"), "it has the last record")
    assert b"record 0 " not in mixed.log(OURS, "reassigned")
    mixed.reassign("reassigned", KAFKAS)
    until(lambda: mixed.directory(OURS, "reassigned") is None, "its directory is gone")


@pytest.mark.parametrize("leader", [OURS, KAFKAS])
def test_follower_goes_on_behind_a_log_whose_records_were_all_deleted_in_a_new_epoch(
    mixed: Mixed, leader: int
) -> None:
    """kwire's leader says then that it has compared the logs, which Kafka's follower ignores."""
    follower, topic = (KAFKAS, "emptied") if leader == OURS else (OURS, "emptied-by-kafka")
    mixed.create(topic, follower, leader)
    produce(mixed, topic, *numbers(0, 200))
    mixed.wait_until_equal(topic)
    mixed.lead(topic, leader)
    everything = DeleteRecordsPartition(partition_index=0, offset=-1)
    of = DeleteRecordsTopic(name=topic, partitions=[everything])
    with Admin([mixed.own.bootstrap if leader == OURS else mixed.kafka.bootstrap]) as admin:

        def low_watermark() -> int:
            """Where all replicas begin, after all that is known as committed was deleted."""
            answer = admin.send(DeleteRecordsRequest(topics=[of], timeout_ms=30_000))
            return answer.topics[0].partitions[0].low_watermark

        until(lambda: low_watermark() == 200, "the new leader has heard of its follower")
    produce(mixed, topic, *numbers(200, 100))
    until(lambda: b"record 299 " in mixed.log(follower, topic), "the follower has the last record")
    assert mixed.in_sync(topic) == {KAFKAS, OURS}


def test_transactions_of_the_leader_are_those_of_the_follower(mixed: Mixed) -> None:
    from confluent_kafka import Producer

    mixed.create("transactions", KAFKAS, OURS)
    # The coordinators are Kafka's.
    mixed.create("__transaction_state", KAFKAS)
    producer = Producer({"bootstrap.servers": mixed.kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    for number in range(9):
        producer.begin_transaction()
        for value in numbers(number * 10, 10):
            producer.produce("transactions", value)
        producer.flush()
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    mixed.wait_until_equal("transactions")
    found = [mixed.directory(one, "transactions") for one in (KAFKAS, OURS)]
    indexes = [(one / f"{0:020d}.txnindex").read_bytes() for one in found if one]
    assert indexes[0] == indexes[1] != b""


def test_deleted_topic_is_deleted_at_its_followers(mixed: Mixed) -> None:
    mixed.create("deleted", KAFKAS, OURS)
    produce(mixed, "deleted", *numbers(0, 10))
    mixed.wait_until_equal("deleted")
    asked = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="deleted", topic_id=ZERO_UUID)], timeout_ms=10_000
    )
    with Admin([mixed.kafka.bootstrap]) as admin:
        admin.send(asked)
    until(lambda: mixed.directory(OURS, "deleted") is None, "its directory is gone")


def _described(mixed: Mixed, topic: str) -> dict[str, list[dict[str, Any]]]:
    """The directories of kwire's broker, and the replicas of a topic in each
    (``kafka-log-dirs.sh``).
    """
    asked = ["--describe", "--topic-list", topic, "--broker-list", str(OURS)]
    said = java_tools.run_tool(_LOG_DIRS, ["--bootstrap-server", mixed.kafka.bootstrap, *asked])
    (told,) = json.loads(said.splitlines()[-1])["brokers"]
    assert all(one["error"] is None for one in told["logDirs"])
    return {one["logDir"]: one["partitions"] for one in told["logDirs"]}


def test_tools_of_kafka_move_a_log_between_directories_throttled(
    mixed: Mixed, tmp_path: Path
) -> None:
    mixed.create("between", KAFKAS, OURS)
    produce(mixed, "between", *numbers(0, 2000))
    mixed.wait_until_equal("between")
    before = {path: len(found) for path, found in _described(mixed, "between").items()}
    assert sorted(before.values()) == [0, 1]
    (target,) = (path for path, count in before.items() if not count)
    moves = tmp_path / "moves.json"
    moved = {
        "topic": "between",
        "partition": 0,
        "replicas": [OURS, KAFKAS],
        "log_dirs": [target, "any"],
    }
    moves.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    words = ["--bootstrap-server", mixed.kafka.bootstrap, "--reassignment-json-file", str(moves)]
    said = java_tools.run_tool(_REASSIGN, [*words, "--execute", "--throttle", "50000000"])
    assert "Successfully started moving log directory" in said, said
    verified: list[str] = []

    def is_over() -> bool:
        verified.append(java_tools.run_tool(_REASSIGN, [*words, "--verify"]))
        return "in progress" not in verified[-1]

    until(is_over, "the move is over")
    assert "currently on target log directory" in verified[-1] or "completed" in verified[-1]
    (found,) = _described(mixed, "between")[target]
    assert not found["isFuture"]
    produce(mixed, "between", *numbers(2000, 500))
    mixed.wait_until_equal("between")
    assert mixed.directory(OURS, "between") == Path(target) / "between-0"
    mixed.stop(OURS)
    mixed.start(OURS)
    mixed.wait_until_equal("between")
