"""Many clients park the largest requests: a parked request takes little memory."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kwire.header import encode_request_header
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, status
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

CONNECTIONS, REPEATS = 30, 19_000
_ATTEMPTS, _PARKED_WITHIN_S, _UNCHANGED_S = 5, 20.0, 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum({"metadata.max.idle.interval.ms": "0"}) as cluster:
        yield cluster


def _fetch_of_one_partition_many_times(client: WireClient) -> bytes:
    """The frame of a Fetch at the end of the log, which waits for a minute."""
    asked = ListOffsetsTopic(
        name="__cluster_metadata",
        partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
    )
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
    end = answer.topics[0].partitions[0].offset
    partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="__cluster_metadata", partitions=[partition] * REPEATS)
    body = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]).encode(12)
    data = encode_request_header(1, 12, 2, "attacker") + body
    return struct.pack(">i", len(data)) + data


def test_parked_fetches_that_repeat_a_partition_take_little_memory(
    cluster: OwnCluster,
) -> None:
    leader = cluster.wait_for_leader()

    def attack() -> None:
        # A record that is committed after the offset was asked for completes a parked Fetch.
        for _ in range(_ATTEMPTS):
            with contextlib.ExitStack() as stack:
                asking = stack.enter_context(WireClient(leader.broker_address))
                frame = _fetch_of_one_partition_many_times(asking)
                for _ in range(CONNECTIONS):
                    waiting = stack.enter_context(
                        socket.create_connection(("127.0.0.1", leader.broker_port))
                    )
                    waiting.sendall(_api_versions() + frame)
                if _parked(leader, CONNECTIONS):
                    return
        raise AssertionError(f"{CONNECTIONS} requests were not parked at the same time")

    assert_others_undisturbed(cluster, attack, [leader], memory_mib=40)


def _parked(node: Node, expected: int) -> bool:
    """Wait until so many requests are parked; False once their number does not grow any more."""
    began = grown = time.monotonic()
    most = 0
    while time.monotonic() < min(began + _PARKED_WITHIN_S, grown + _UNCHANGED_S):
        parked = status(node)["connections"]["parked_fetches"]
        if parked >= expected:
            return True
        if parked > most:
            most, grown = parked, time.monotonic()
        time.sleep(0.02)
    return False


def _api_versions() -> bytes:
    """A valid first request: larger ones are accepted after it."""
    data = encode_request_header(18, 0, 1, "attacker")
    return struct.pack(">i", len(data)) + data
