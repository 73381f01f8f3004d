"""The disk of a running node's groups, audit topic or metadata log is full, and has space again."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kwire.records import decode_batches
from tests.gateway.controller.cluster import create, made
from tests.hostile.bystander import attacked_quorum, bystander, wait_until_ready
from tests.hostile.failing_server import BEFORE
from tests.waiting import until
from tools.failing_server import full
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

AUDIT, METADATA = "__cluster_metadata_audit", "__cluster_metadata"
GROUPS_DISK, AUDIT_DISK, METADATA_DISK = (
    "__consumer_offsets-0",
    "__cluster_metadata_audit~local-0",
    "/__cluster_metadata-0/",
)
NOT_COORDINATOR, LOADING = 16, 14
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum(before=BEFORE) as cluster:
        yield cluster


def created(cluster: OwnCluster) -> str:
    """Create a topic at any node, trying again until that is acknowledged; return its name."""
    name = f"topic-{next(numbers)}"

    def error() -> int:
        with WireClient(cluster.wait_for_leader().broker_address) as client:
            return int(client.call(create({"name": name}), 7).topics[0].error_code)

    # TOPIC_ALREADY_EXISTS: an attempt without an answer made it.
    until(error, f"{name} is created", lambda code: code in (0, 36))
    return name


def wait_for_topics(node: Node, expected: set[str]) -> None:
    with WireClient(node.broker_address) as client:
        until(
            lambda: {
                topic.name for topic in client.call(made("MetadataRequest", topics=None), 9).topics
            },
            f"node {node.node_id} has {expected}",
            expected.issubset,
        )


def commit_error(client: WireClient, group: str, offset: int) -> int:
    partition = {"partition_index": 0, "committed_offset": offset}
    topics = [{"name": METADATA, "partitions": [partition]}]
    answer = client.call(made("OffsetCommitRequest", group_id=group, topics=topics), 7)
    return int(answer.topics[0].partitions[0].error_code)


def committed(client: WireClient, group: str) -> tuple[int, int]:
    """The error of the group, and its committed offset; -1: none."""
    groups = [{"group_id": group, "topics": None}]
    answer = client.call(made("OffsetFetchRequest", groups=groups), 8).groups[0]
    offsets = [one.committed_offset for topic in answer.topics for one in topic.partitions]
    return int(answer.error_code), int(offsets[0]) if offsets else -1


def test_full_disk_of_groups_refuses_commits_and_keeps_the_acknowledged_ones(
    cluster: OwnCluster,
) -> None:
    attacked, *others = cluster.nodes
    with bystander(cluster, others) as seen, WireClient(attacked.broker_address) as client:
        with full(attacked, GROUPS_DISK):
            errors = {commit_error(client, "g", offset) for offset in range(100, 120)}
            assert errors <= {NOT_COORDINATOR, LOADING}
            said = attacked.output()
            assert "No space left on device" in said and GROUPS_DISK in said
        offsets = itertools.count(1)
        acknowledged = until(
            lambda: (offset := next(offsets), commit_error(client, "g", offset)),
            "the store opens again",
            lambda attempt: attempt[1] == 0,
        )[0]
        with full(attacked, GROUPS_DISK):
            assert commit_error(client, "g", 1_000) in (NOT_COORDINATOR, LOADING)
        found = until(
            lambda: committed(client, "g"), "the group is loaded", lambda found: not found[0]
        )
        assert found == (0, acknowledged)
    seen.assert_undisturbed()


def audited(node: Node) -> list[dict[str, Any]]:
    """All entries of a node's partition of the audit topic."""
    fetch = made(
        "FetchRequest",
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            {
                "topic": AUDIT,
                "partitions": [
                    {
                        "partition": node.node_id - 1,  # in the order of node ids
                        "fetch_offset": 0,
                        "partition_max_bytes": 1 << 24,
                    }
                ],
            }
        ],
    )
    with WireClient(node.broker_address) as client:
        records = client.call(fetch, 12).responses[0].partitions[0].records
    return [
        json.loads(record.value)
        for batch in decode_batches(records or b"")
        for record in batch.records
        if record.value
    ]


def test_full_disk_of_the_audit_topic_costs_entries_and_says_how_many(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    with bystander(cluster) as seen:
        before = created(cluster)
        with full(leader, AUDIT_DISK):
            lost = [created(cluster) for _ in range(5)]
        after = created(cluster)
        said = leader.output()
        assert said.count("change not recorded") == len(lost)
        assert "No space left on device" in said and AUDIT_DISK in said
        entries = until(
            lambda: audited(leader),
            "the last entry is synced",
            lambda entries: after in json.dumps(entries),
        )
    text = [json.dumps(entry) for entry in entries]
    assert any(before in entry for entry in text) and any(after in entry for entry in text)
    assert [
        entry["not_recorded_before"] for entry in entries if "not_recorded_before" in entry
    ] == [len(lost)]
    for node in cluster.nodes:
        wait_for_topics(node, {before, *lost, after})
    seen.assert_undisturbed()


def wait_for_ends(nodes: Sequence[Node], count: int) -> None:
    """Wait until the processes of so many nodes have ended by themselves."""
    until(
        lambda: sum(not node.running_process().running() for node in nodes) >= count,
        "the processes end",
    )


@pytest.mark.parametrize("which", ["follower", "leader"])
def test_node_with_a_full_metadata_disk_ends_and_the_others_go_on(
    cluster: OwnCluster, which: str
) -> None:
    leader = cluster.wait_for_leader()
    attacked = next(node for node in cluster.nodes if (node is leader) == (which == "leader"))
    others = [node for node in cluster.nodes if node is not attacked]
    topics = {created(cluster)}
    with bystander(cluster, others) as seen:
        with full(attacked, METADATA_DISK):
            topics |= {created(cluster) for _ in range(3)}
            wait_for_ends([attacked], count=1)
            said = attacked.output()
            assert "No space left on device; make room on that file system" in said
            assert str(attacked.metadata_log_dir) in said
            assert "Traceback" not in said
            topics.add(created(cluster))
        cluster.stop_node(attacked)
        cluster.start_node(attacked)
        cluster.wait_for_node(attacked)
        wait_until_ready(attacked)
        wait_for_topics(attacked, topics)
    seen.assert_undisturbed(elections=which == "leader")


def test_quorum_whose_disks_are_all_full_stops_and_comes_back_with_everything(
    cluster: OwnCluster,
) -> None:
    topics = {created(cluster) for _ in range(3)}
    with contextlib.ExitStack() as stack:
        for node in cluster.nodes:
            stack.enter_context(full(node, METADATA_DISK))
        # The last node has nothing to write: without the others it is not elected. It may be the
        # leader, if a record that it wrote before its disk was full has ended both followers.
        wait_for_ends(cluster.nodes, count=2)
        last = [node for node in cluster.nodes if node.running_process().running()]
        for node in last:
            try:
                with WireClient(node.broker_address) as client:
                    refused = client.call(create({"name": "refused"}, timeout_ms=500), 7)
                    assert refused.topics[0].error_code
            except (OSError, EOFError):  # it was about to end, too
                wait_for_ends([node], count=1)
    for node in cluster.nodes:
        cluster.stop_node(node)
        cluster.start_node(node)
    for node in cluster.nodes:
        cluster.wait_for_node(node)
        wait_until_ready(node)
    topics.add(created(cluster))
    for node in cluster.nodes:
        wait_for_topics(node, topics)
