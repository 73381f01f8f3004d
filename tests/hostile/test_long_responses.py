"""Requests with long responses: all topics of a large cluster, and configurations of many
groups.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.metadata_request import MetadataRequest
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tests.waiting import PATIENCE_S
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

TOPICS, PARTITIONS = 2000, 100
NAMES = 19_000
GROUP = 32


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum() as cluster:
        with WireClient(cluster.wait_for_leader().broker_address) as admin:
            for first in range(0, TOPICS, 10):  # 1,000 partitions are created in one step
                topics = [
                    CreatableTopic(
                        name=f"topic-{number}", num_partitions=PARTITIONS, replication_factor=1
                    )
                    for number in range(first, first + 10)
                ]
                answer = admin.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
                assert {topic.error_code for topic in answer.topics} == {0}
        yield cluster


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
        with ThreadPoolExecutor(50) as clients:
            sizes = list(clients.map(bytes_of_all, [address] * 50))
        assert min(sizes) == max(sizes) > 20 * TOPICS * PARTITIONS

    assert_others_undisturbed(cluster, attack)


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
