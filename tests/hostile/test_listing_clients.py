"""Fifty clients list 100,000 partitions for half a minute, while topics are created."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.gateway.controller.cluster import create
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tests.waiting import PATIENCE_S, until
from tools.own_quorum import OwnCluster
from tools.process import memory_mib
from tools.wire_client import WireClient

TOPICS, PARTITIONS = 1_000, 100
#: A request creates at most 10,000 records: one for each topic and each partition.
TOPICS_PER_REQUEST = 90
CLIENTS, SECONDS = 50, 30.0
#: A partition with one replica in an answer, bytes.
PARTITION_BYTES = 26
#: The time between two creations of a topic, s.
PAUSE_S = 0.2
#: Memory after the attack in proportion to that before.
MEMORY_MAX = 1.2


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum(formatted=True) as cluster:
        numbers = range(TOPICS)
        for first in range(0, TOPICS, TOPICS_PER_REQUEST):
            make(cluster, *(f"t{one}" for one in numbers[first : first + TOPICS_PER_REQUEST]))
        yield cluster


def make(cluster: OwnCluster, *names: str) -> None:
    """Create topics."""
    topics = [
        {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in names
    ]
    with WireClient(cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S) as admin:
        answer = admin.call(create(*topics, timeout_ms=60_000), 7)
    assert {topic.error_code for topic in answer.topics} == {0}


def lists_everything(cluster: OwnCluster, seconds: float, rounds: Iterator[int]) -> None:
    """List all topics at all nodes with all clients, and create topics meanwhile."""
    addresses = [node.broker_address for node in cluster.nodes]
    line = [sys.executable, "-m", "tools.listing_clients", str(seconds), str(CLIENTS), *addresses]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as clients:
        while True:
            make(cluster, f"new-{next(rounds)}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                clients.wait(PAUSE_S)
                break
        assert clients.stdout is not None and clients.returncode == 0
        found = json.loads(clients.stdout.read())
    assert len(found) == CLIENTS
    assert min(size for _, size in found) > TOPICS * PARTITIONS * PARTITION_BYTES


def test_clients_that_list_all_topics_leave_others_undisturbed(cluster: OwnCluster) -> None:
    rounds = iter(range(10_000))
    lists_everything(cluster, 0, rounds)
    before = {node.node_id: memory_mib(node.pid) for node in cluster.nodes}
    assert_others_undisturbed(cluster, lambda: lists_everything(cluster, SECONDS, rounds))
    until(
        lambda: [
            (node.node_id, memory_mib(node.pid), before[node.node_id])
            for node in cluster.nodes
            if memory_mib(node.pid) > MEMORY_MAX * before[node.node_id]
        ],
        "the nodes return to their memory before",
        lambda grown: not grown,
    )
