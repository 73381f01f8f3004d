"""The audit log of whole servers: entries are stored, delivered to waiting consumers and found
after a restart; it can be disabled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID
from gateway.sources.audit_partition import DIRECTORY
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.records import decode_batches
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_node
from tests.waiting import until_async


def fetch(partition: int = 0, offset: int = 0, wait_ms: int = 0) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=AUDIT_TOPIC_ID, partitions=[asked])
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])


async def told(
    node: OwnNode, partition: int = 0, offset: int = 0, wait_ms: int = 0
) -> list[dict[str, Any]]:
    """The entries that a consumer reads from this node's partition."""
    answer = await node.ask(fetch(partition, offset, wait_ms), 16)
    (found,) = answer.responses[0].partitions
    assert found.error_code == 0
    return [
        json.loads(record.value or b"")
        for batch in decode_batches(found.records)
        for record in batch.records
    ]


def test_audit_entries_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, metadata_log_fsync=True) as node:
            assert await node.create("a") == 0
            await node.cut_off()
        async with lone_node(tmp_path) as node:
            assert await node.create("b") == 0
            assert await node.create("b") != 0, "it is there: no change"
            await until_async(
                lambda: (
                    node.quorum.audit is not None
                    and node.quorum.audit.partition.high_watermark == 2
                )
            )
            first, second = await told(node)
            assert [one["resources"][0]["name"] for one in (first, second)] == ["a", "b"]
            assert (first["listener"], first["forwarder"], first["node_id"]) == (
                "PLAINTEXT",
                None,
                1,
            )
            assert (
                first["leader_epoch"] < second["leader_epoch"]
                and first["last_offset"] < second["offset"]
            )

    run(main)


def test_waiting_fetch_of_the_audit_topic_is_completed_by_a_change(tmp_path: Path) -> None:
    async def main() -> None:
        got: list[dict[str, Any]] = []
        async with lone_node(tmp_path) as node, trio.open_nursery() as nursery:

            async def wait() -> None:
                got.extend(await told(node, wait_ms=20_000))

            nursery.start_soon(wait)
            await until_async(lambda: node.ready.purgatory.waiting == 1)
            assert await node.create("a") == 0
        assert [one["api"] for one in got] == ["CreateTopics"]

    run(main)


def test_disabled_audit_log_has_no_topic_and_no_files(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(
            tmp_path, metadata_audit_enable=False, metadata_views_enable=False
        ) as node:
            assert await node.create("a") == 0
            await until_async(lambda: node.topics == {"a"})
            answer = await node.ask(MetadataRequest(topics=None), 12)
            assert [topic.name for topic in answer.topics] == ["__cluster_metadata", "a"]
            topic = CreatableTopic(name=AUDIT_TOPIC, num_partitions=1, replication_factor=1)
            created = await node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
            assert created.topics[0].error_code == 42, "nobody else's, all the same"
        assert not (tmp_path / DIRECTORY).exists()

    run(main)


def test_forwarded_change_is_in_the_audit_log_of_the_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 3) as three:
            await three.start()
            leader = await three.leader()
            follower = next(node for node in three.nodes.values() if node is not leader)
            assert await follower.create("a") == 0
            id = leader.raft.node_id
            await until_async(
                lambda: (
                    leader.quorum.audit is not None
                    and leader.quorum.audit.partition.high_watermark == 1
                )
            )
            (one,) = await told(leader, id - 1)
            assert (one["node_id"], one["host"], one["listener"]) == (id, "127.0.0.1", "CONTROLLER")
            assert one["forwarder"] == {
                "principal": "User:ANONYMOUS",
                "host": "127.0.0.1",
                "client_id": f"raft-client-{follower.raft.node_id}",
            }
            topics = [MetadataRequestTopic(name=AUDIT_TOPIC)]
            for node in three.nodes.values():
                (topic,) = (await node.ask(MetadataRequest(topics=topics), 12)).topics
                assert [index.replica_nodes for index in topic.partitions] == [[1], [2], [3]]
            assert (
                follower.quorum.audit is not None
                and follower.quorum.audit.partition.high_watermark == 0
            )

    run(main)
