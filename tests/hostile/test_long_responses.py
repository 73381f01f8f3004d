"""Requests with long responses: all topics of a large cluster, also again and again while topics
are created, and configurations of many groups.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.metadata_request import MetadataRequest
from tests.gateway.controller.cluster import create
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tests.waiting import PATIENCE_S, until
from tools.own_quorum import OwnCluster
from tools.process import memory_mib
from tools.wire_client import WireClient

TOPICS, PARTITIONS = 1_000, 100
#: A request creates at most 10,000 records: one for each topic and each partition.
TOPICS_PER_REQUEST = 90
NAMES = 19_000
GROUP = 32
CLIENTS = 50
#: For so long all clients list all topics: each does several times.
SECONDS = 4.0
#: A partition with one replica in an answer, bytes.
PARTITION_BYTES = 26
#: The time between two creations of a topic, s.
PAUSE_S = 0.2
#: Memory after the attack in proportion to that before.
MEMORY_MAX = 1.2


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum() as cluster:
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


def bytes_of_all(address: str) -> int:
    """The size of a Metadata response of all topics, which is read and not decoded."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=4 * PATIENCE_S) as sock:
        sock.sendall(
            frame(
                encode_request_header(3, 12, 1, "attacker"), MetadataRequest(topics=None).encode(12)
            )
        )
        stream = sock.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        left = size
        while left:
            left -= len(stream.read(min(left, 1 << 20)))
        return int(size)


def test_metadata_of_all_topics_leaves_others_undisturbed(cluster: OwnCluster) -> None:
    address = cluster.wait_for_leader().broker_address

    def attack() -> None:
        with WireClient(address) as client:
            answer: Any = client.call(MetadataRequest(topics=None), 12)
        assert sum(len(topic.partitions) for topic in answer.topics) >= TOPICS * PARTITIONS

    assert_others_undisturbed(cluster, attack)


def test_metadata_of_all_topics_for_fifty_clients_leaves_others_undisturbed(
    cluster: OwnCluster,
) -> None:
    address = cluster.wait_for_leader().broker_address

    def attack() -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            sizes = list(clients.map(bytes_of_all, [address] * CLIENTS))
        assert min(sizes) == max(sizes) > PARTITION_BYTES * TOPICS * PARTITIONS

    assert_others_undisturbed(cluster, attack)


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


def test_clients_that_list_all_topics_again_and_again_leave_others_undisturbed(
    cluster: OwnCluster,
) -> None:
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


def test_configurations_of_many_groups_leave_others_undisturbed(cluster: OwnCluster) -> None:
    asked = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"group-{number}")
        for number in range(NAMES)
    ]
    request = DescribeConfigsRequest(
        resources=asked, include_synonyms=True, include_documentation=True
    )

    def attack() -> None:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as client:
            answer: Any = client.call(request, 4)
        refused = [result for result in answer.results if result.error_code]
        assert len(answer.results) == NAMES
        assert 0 < len(refused) < NAMES
        assert "response.max.bytes" in refused[0].error_message

    assert_others_undisturbed(cluster, attack)
