"""Clients request long responses repeatedly and read little of them, or nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kwire.header import encode_request_header
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, status
from tests.waiting import until
from tools.own_quorum import OwnCluster

READERS, NAMES, REPEATS = 60, 5_000, 8
BUFFERS_MIB = 16
#: The limits that cut a client which does not read.
LIMITS = ("buffers.max.bytes", "response.send.timeout.ms")


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    limits = {
        "buffers.max.bytes": str(BUFFERS_MIB << 20),
        "socket.send.buffer.bytes": "65536",
        "response.send.timeout.ms": "1500",
    }
    with attacked_quorum(limits) as cluster:
        yield cluster


def metadata_of_many_names() -> bytes:
    """A request of 100 KB whose response is twice as long."""
    topics = [MetadataRequestTopic(name=f"there-is-no-such-{number}") for number in range(NAMES)]
    body = MetadataRequest(topics=topics, allow_auto_topic_creation=False).encode(12)
    data = encode_request_header(3, 12, 1, "attacker") + body
    return struct.pack(">i", len(data)) + data


def slow_reader(stack: contextlib.ExitStack, port: int) -> socket.socket:
    """A connection with a small receive buffer."""
    one = stack.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", port))
    one.setblocking(False)
    return one


def test_clients_that_read_nothing_are_cut_within_the_buffer_limit(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    asked = metadata_of_many_names() * REPEATS

    def attack() -> None:
        with contextlib.ExitStack() as stack:
            readers = [slow_reader(stack, leader.broker_port) for _ in range(READERS)]
            left = dict.fromkeys(readers, asked)

            def cut() -> int:
                for one, rest in left.items():
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        left[one] = rest[one.send(rest) :]
                counts = status(leader)["connections"]["cut"]
                return sum(counts.get(limit, 0) for limit in LIMITS)

            enough = cut() + READERS // 2
            until(lambda: cut() >= enough, "half of the readers are cut")

    assert_others_undisturbed(cluster, attack, [leader], memory_mib=BUFFERS_MIB + 48)


def test_clients_that_read_slowly_leave_others_undisturbed(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()

    def attack() -> None:
        with contextlib.ExitStack() as stack:
            readers = [slow_reader(stack, leader.broker_port) for _ in range(READERS // 2)]
            for one in readers:
                with contextlib.suppress(BlockingIOError):
                    one.send(metadata_of_many_names())
            for _ in range(30):
                time.sleep(0.1)
                for one in readers:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        one.recv(100)

    assert_others_undisturbed(cluster, attack, [leader], memory_mib=BUFFERS_MIB + 48)
