"""Many clients park the largest requests: a parked request takes little memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from functools import partial

import pytest

from kwire.header import encode_request_header
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, status
from tests.waiting import until
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

CONNECTIONS, REPEATS = 30, 19_000
_ATTEMPTS = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum({"metadata.max.idle.interval.ms": "0"}) as cluster:
        yield cluster


def _end(client: WireClient) -> int:
    """The end offset of the metadata topic."""
    asked = ListOffsetsTopic(
        name="__cluster_metadata",
        partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
    )
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
    return int(answer.topics[0].partitions[0].offset)


def _fetch_of_one_partition_many_times(end: int) -> bytes:
    """The frame of a Fetch at the end of the log, which waits for ten minutes."""
    partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="__cluster_metadata", partitions=[partition] * REPEATS)
    body = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[topic]).encode(12)
    data = encode_request_header(1, 12, 2, "attacker") + body
    return struct.pack(">i", len(data)) + data


def test_parked_fetches_that_repeat_a_partition_take_little_memory(
    cluster: OwnCluster,
) -> None:
    leader = cluster.wait_for_leader()

    def attack() -> None:
        # A record that is committed after the offset was asked for completes a parked Fetch.
        assert any(_park(leader) for _ in range(_ATTEMPTS)), "the requests were not parked at once"

    assert_others_undisturbed(cluster, attack, [leader], memory_mib=40)


def _park(leader: Node) -> bool:
    """Park requests one after the other, as one that is being decoded takes more memory. False if a
    record was committed meanwhile.
    """
    with contextlib.ExitStack() as stack:
        asking = stack.enter_context(WireClient(leader.broker_address))
        end = _end(asking)
        frame = _fetch_of_one_partition_many_times(end)
        for number in range(1, CONNECTIONS + 1):
            waiting = socket.create_connection(("127.0.0.1", leader.broker_port))
            stack.enter_context(waiting).sendall(_api_versions() + frame)
            until(partial(_is_over, leader, number, asking, end), f"{number} requests are parked")
        return _end(asking) == end


def _is_over(leader: Node, number: int, asking: WireClient, end: int) -> bool:
    return _parked(leader) >= number or _end(asking) > end


def _parked(node: Node) -> int:
    return int(status(node)["connections"]["parked_fetches"])


def _api_versions() -> bytes:
    """A valid first request: larger ones are accepted after it."""
    data = encode_request_header(18, 0, 1, "attacker")
    return struct.pack(">i", len(data)) + data
