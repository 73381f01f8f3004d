"""One client fills its share of the memory of consumer groups, or sends times beyond int64, while
others commit and join.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, bystander
from tests.waiting import PATIENCE_S
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

#: With 4,000 characters each close to the limit of one group (groups.bytes.max.per.group).
PARTITIONS = 450
#: OffsetCommit v2 with a retention time of 2**63 - 1 ms, size and header included.
OVERFLOW = bytes.fromhex(
    "00000049000800020000000100017800046d696e65ffffffff00007fffffffffffffff"
    "0000000100125f5f636c75737465725f6d65746164617461"
    "00000001000000000000000000000001" + "0000"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum() as cluster:
        topic = CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)
        with WireClient(cluster.wait_for_leader().broker_address) as client:
            created: Any = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
            assert created.topics[0].error_code == 0, created.topics[0].error_message
        yield cluster


def test_commits_that_fill_the_groups_memory_leave_others_undisturbed(cluster: OwnCluster) -> None:
    def attack() -> None:
        for node in cluster.nodes:
            with attacker_at(node) as client:
                errors = [commit(client, f"fill-{i}") for i in range(24)]
            assert 44 in errors and 0 in errors

    assert_others_undisturbed(cluster, attack, memory_mib=160)
    assert_others_undisturbed(cluster, lambda: None)


def test_joins_that_fill_the_groups_memory_leave_others_undisturbed(cluster: OwnCluster) -> None:
    first: list[int] = []

    def attack() -> None:
        for node in cluster.nodes:
            errors = []
            for i in range(38):
                with attacker_at(node) as client:
                    errors.append(join(client, f"join-{i}"))
            first.append(errors[0])
            assert errors[-1] == 81

    assert_others_undisturbed(cluster, attack, memory_mib=160)
    assert first[: len(cluster.nodes)] == [0] * len(cluster.nodes)


@contextlib.contextmanager
def attacker_at(node: Node) -> Iterator[WireClient]:
    """A client that has sent its first valid request: larger ones are taken behind it."""
    with WireClient(node.broker_address) as client:
        client.call(
            ApiVersionsRequest(client_software_name="attacker", client_software_version="1"), 3
        )
        yield client


def test_retention_times_beyond_int64_leave_others_undisturbed(cluster: OwnCluster) -> None:
    node = cluster.wait_for_leader()
    host, _, port = node.broker_address.rpartition(":")
    with bystander(cluster) as seen, socket.create_connection((host, int(port))) as attacker:
        attacker.settimeout(PATIENCE_S)
        for _ in range(200):
            attacker.sendall(OVERFLOW)
            size = int.from_bytes(attacker.recv(4, socket.MSG_WAITALL), "big")
            answer = attacker.recv(size, socket.MSG_WAITALL)
            assert answer[-2:] == b"\0\0"
    seen.assert_undisturbed()


def join(client: WireClient, group: str) -> int:
    """The error of the JoinGroup of a new member with large metadata."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"m" * 1_700_000)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    answer: Any = client.call(request, 3)
    return int(answer.error_code)


def commit(client: WireClient, group: str) -> int:
    """The error of an OffsetCommit with nearly the longest allowed metadata for each partition of
    topic ``wide``.
    """
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=i, committed_offset=1, committed_metadata="m" * 4000
        )
        for i in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    answer: Any = client.call(OffsetCommitRequest(group_id=group, topics=topics), 7)
    return int(answer.topics[0].partitions[0].error_code)
