"""``kwire tail`` of the audit topic of a quorum with a dead node, before and after its removal from
the voters.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from gateway.ports.services import AUDIT_TOPIC
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.interop.test_own_quorum_upgrade import directory_of
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import KWIRE
from tools.kafka_files import Node
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop


def create(node: Node, name: str) -> bool:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    with WireClient(node.broker_address) as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    return answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def replicas(node: Node) -> list[list[int]]:
    """The nodes of the audit topic's partitions, by number."""
    with WireClient(node.broker_address) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=AUDIT_TOPIC)])
        (topic,) = client.call(request, 12).topics
    by_number = sorted(topic.partitions, key=lambda one: int(one.partition_index))
    return [one.replica_nodes for one in by_number]


def tailed(node: Node) -> tuple[int, list[tuple[int, str]], str]:
    """Exit status, partition and topic of each entry, and standard error of ``kwire tail``."""
    arguments = ["tail", "-b", node.broker_address, "--topic", AUDIT_TOPIC, "--until-end"]
    done = subprocess.run([*KWIRE, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    entries = [
        (one["partition"], resource["name"])
        for one in found
        for resource in one["change"]["resources"]
    ]
    return done.returncode, entries, done.stderr


def test_entries_of_live_nodes_are_shown_under_their_numbers_while_one_is_down_and_removed() -> (
    None
):
    with own_quorum(3, static_voters=False, properties=QUICK) as cluster:
        first = cluster.wait_for_leader()
        until(lambda: create(first, "a"), "a topic")
        # The dead node is not the last one: without it the numbers of others would move.
        dead = next(node for node in cluster.nodes if node is not first and node.node_id < 3)
        until(lambda: all_registered(cluster), "every node at every node")
        assert replicas(first) == [[1], [2], [3]]
        cluster.kill_node(dead)
        missing = f"{AUDIT_TOPIC}-{dead.node_id - 1} are missing"
        status, entries, said = tailed(first)
        assert (status, entries) == (1, [(first.node_id - 1, "a")])
        assert missing in said and "are missing" not in said.replace(missing, "")
        until(lambda: remove(cluster, dead), "the removal of a voter")
        assert replicas(first) == [[1], [2], [3]]
        status, entries, said = tailed(first)
        assert (status, entries) == (1, [(first.node_id - 1, "a")]) and missing in said


def all_registered(cluster: OwnCluster) -> bool:
    for node in cluster.nodes:
        with WireClient(node.broker_address) as client:
            answer = client.call(MetadataRequest(topics=[]), 12)
        if {one.node_id for one in answer.brokers} != {1, 2, 3}:
            return False
    return True


def remove(cluster: OwnCluster, dead: Node) -> bool:
    request = RemoveRaftVoterRequest(
        cluster_id=cluster.cluster_id,
        voter_id=dead.node_id,
        voter_directory_id=Uuid.parse(directory_of(dead)),
    )
    leader = cluster.wait_for_leader()
    with WireClient(leader.broker_address) as client:
        answer = client.call(request, 0)
    return answer.error_code in (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND)
