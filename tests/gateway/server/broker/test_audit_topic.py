"""The audit topic of nodes that are broker and controller: a topic like any other, with the changes
of all nodes, those of before it was created among them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.ports.services import AUDIT_CLIENT_ID, AUDIT_TOPIC, AUDIT_TOPIC_ID
from gateway.server.management.requester import replica_of_audit_topic, search
from gateway.sources.audit_partition import DIRECTORY, FORMER_DIRECTORY
from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol import ErrorCode
from kwire.records import decode_batches
from tests.gateway.broker.produce.batches import produced
from tests.gateway.server.broker.test_broker_node import (
    broker,
    in_loop,
    produce,
    unfenced,
    with_topic,
)
from tests.gateway.server.own_nodes import Cluster, OwnNode, cluster, lone_node

#: As short as a busy machine can bear.
QUICK_BROKERS: dict[str, Any] = {
    "process_roles": "broker,controller",
    "broker_session_timeout_ms": 2_000,
    "broker_heartbeat_interval_ms": 200,
}


async def fetched(node: OwnNode, version: int = 12) -> tuple[int, list[dict[str, Any]]]:
    """The error of the partition, and the entries that a consumer reads from it."""
    topic_id = node.quorum.image.topic_ids.get(AUDIT_TOPIC, AUDIT_TOPIC_ID)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=AUDIT_TOPIC, topic_id=topic_id, partitions=[asked])
    answer = await node.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), version)
    (found,) = answer.responses[0].partitions
    return found.error_code, [
        json.loads(record.value or b"")
        for batch in decode_batches(found.records or b"")
        for record in batch.records
    ]


async def names(node: OwnNode) -> list[str]:
    """The topics that the changes in the audit topic created, read from this node."""
    _, entries = await fetched(node)
    return [one["resources"][0]["name"] for one in entries]


async def until_names(node: OwnNode, *wanted: str) -> None:
    """Wait until the topic has entries for these topics, in this order."""
    found: list[str] = []
    while found != list(wanted):
        found = await names(node)


@in_loop
async def test_changes_are_in_a_created_topic_also_after_a_restart(tmp_path: Path) -> None:
    async with broker(tmp_path, metadata_log_fsync=True) as node:
        await with_topic(node, "a")
        topic_id = node.quorum.image.topic_ids[AUDIT_TOPIC]
        assert topic_id != AUDIT_TOPIC_ID, "a random one, which the log has"
        await node.cut_off()
    async with broker(tmp_path) as node:
        await with_topic(node, "b")
        await until_names(node, "a", "b")
        _, (first, second) = await fetched(node, 16)
        assert first["last_offset"] < second["offset"]
        assert node.quorum.image.topic_ids[AUDIT_TOPIC] == topic_id


@in_loop
async def test_page_finds_the_requester_in_the_replica(tmp_path: Path) -> None:
    """The entries of other nodes are nowhere else."""
    async with broker(tmp_path) as node:
        replicas = node.ready.services.replicas
        await with_topic(node, "a")
        await until_names(node, "a")
        replica = replica_of_audit_topic(node.quorum.image, replicas)
        _, (entry,) = await fetched(node)
        assert replica is not None
        time = replica.max_timestamp()
        assert time is not None
        found = await search(replica, entry["last_offset"], time.timestamp)
        assert found is not None and found["principal"] == "User:ANONYMOUS"
        assert await search(replica, entry["last_offset"] + 1, time.timestamp) is None
        assert replica_of_audit_topic(node.quorum.image, None) is None


@in_loop
async def test_topic_is_listed_once_and_its_log_counted_once(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        answer = await node.ask(MetadataRequest(topics=None), 12)
        (listed,) = [topic for topic in answer.topics if topic.name == AUDIT_TOPIC]
        assert listed.topic_id == node.quorum.image.topic_ids[AUDIT_TOPIC]
        asked = [MetadataRequestTopic(name=None, topic_id=AUDIT_TOPIC_ID)]
        answer = await node.ask(MetadataRequest(topics=asked), 12)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID, "that of the audit logs"
        answer = await node.ask(DescribeLogDirsRequest(topics=None), 4)
        logs = [topic.name for result in answer.results for topic in result.topics]
        assert logs.count(AUDIT_TOPIC) == 1


@in_loop
async def test_nodes_alone_may_produce_to_the_topic(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await unfenced(node)
        refused = await produce(node, b"{}", topic=AUDIT_TOPIC)
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert "nothing can be produced" in refused.error_message
        data = PartitionProduceData(index=0, records=bytes(produced(b"{}")))
        topic = TopicProduceData(name=AUDIT_TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # until the log is open
        while error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer = await node.ask(request, 12, client_id=AUDIT_CLIENT_ID)
            error = answer.responses[0].partition_responses[0].error_code
        assert error == ErrorCode.NONE


@in_loop
async def test_entries_of_a_controller_alone_are_taken_over_when_it_becomes_a_broker(
    tmp_path: Path,
) -> None:
    async with lone_node(tmp_path) as node:
        assert await node.create("a") == 0 and await node.create("b") == 0
    # Where earlier releases have it.
    (tmp_path / DIRECTORY).rename(tmp_path / FORMER_DIRECTORY)
    for name in ("c", "d"):
        async with broker(tmp_path) as node:
            await with_topic(node, name)
            await until_names(node, *"abcd"[: "abcd".index(name) + 1])


@in_loop
async def test_topic_is_not_created_where_it_is_disabled(tmp_path: Path) -> None:
    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await with_topic(node)
        assert node.topics == {"t"} and not (tmp_path / DIRECTORY).exists()


async def created(nodes: Cluster) -> None:
    """Wait until every node has the topic, with three replicas."""
    await nodes.all(lambda node: AUDIT_TOPIC in node.topics)


@in_loop
async def test_loss_of_any_node_loses_no_entry(tmp_path: Path) -> None:
    """Each of three nodes is killed in turn, and changes are made through the others."""
    async with cluster(tmp_path, **QUICK_BROKERS) as nodes:
        await nodes.start()
        await created(nodes)
        wanted: list[str] = []
        for number, killed in enumerate((1, 2, 3)):
            one = nodes.nodes.pop(killed)
            await one.cut_off()
            leader = await nodes.leader()
            for via, node in enumerate(nodes.nodes.values()):
                wanted.append(f"t{number}{via}")
                assert await node.create(wanted[-1]) == 0
            await until_read(nodes, wanted)
            assert leader.quorum.image.topic_ids[AUDIT_TOPIC]
            await nodes.start(killed)
            await nodes.leader()
            await in_sync(nodes)


async def in_sync(nodes: Cluster) -> None:
    """Wait until every node has the partition with all replicas in sync."""

    def isr(node: OwnNode) -> list[int]:
        image = node.quorum.image
        record = image.partitions[image.topic_ids[AUDIT_TOPIC]][0]
        return sorted(record.isr)

    await nodes.all(lambda node: AUDIT_TOPIC in node.topics and isr(node) == [1, 2, 3])


async def until_read(nodes: Cluster, wanted: list[str]) -> None:
    """Wait until the leader of the partition has these entries, each once."""
    found: list[str] = []
    while sorted(found) != sorted(wanted):
        for node in nodes.nodes.values():
            error, entries = await fetched(node)
            if error == 0:
                found = [one["resources"][0]["name"] for one in entries]
