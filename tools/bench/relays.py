"""Measures gateways behind gateways: from the leader's commit to a stock consumer at each of three
levels, and what a gateway's answer to each of many waiting children costs.

The commit time is as in ``observer``. The cost of an answer is the processor time of the gateway
with many children less that with none, while the same changes are made. ``python -m
tools.relay_plan`` takes these figures.
"""

from __future__ import annotations

import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import FetchResponse
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.records import iter_batches
from tools.admin import Admin
from tools.bench.observer import raft_fetch, watch_gateway, watch_leader
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import cpu_seconds
from tools.relay_tree import Relay, relay_chain

_LEVELS = 3
_CHANGES, _PACE_S = 200, 0.05
#: Children of the first gateway while the cost of an answer is measured, and changes meanwhile.
_CHILDREN, _COSTED_CHANGES = 100, 100
_SIZE = struct.Struct(">i")


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    with own_quorum(1) as cluster, relay_chain(cluster.controllers, _LEVELS) as levels:
        return [*_lags(cluster, levels), *_costs(cluster, levels[0])]


def _lags(cluster: OwnCluster, levels: list[Relay]) -> Iterator[dict[str, Any]]:
    committed: dict[int, float] = {}
    seen: list[dict[int, float]] = [{} for _ in levels]
    stop, ready = threading.Event(), threading.Barrier(len(levels) + 2)
    threads = [
        threading.Thread(target=watch_leader, args=(cluster.controllers, committed, stop, ready))
    ]
    for level, found in zip(levels, seen, strict=True):
        timestamps: dict[int, int] = {}
        arguments = (level.bootstrap, found, timestamps, stop, ready)
        threads.append(threading.Thread(target=watch_gateway, args=arguments))
    for thread in threads:
        thread.start()
    try:
        ready.wait(30)
        _change(cluster, "lag", _CHANGES)
        time.sleep(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    for number, found in enumerate(seen, 1):
        both = sorted(set(committed) & set(found))
        if len(both) < _CHANGES:
            raise AssertionError(f"only {len(both)} records were seen at level {number}")
        values = [1000 * (found[offset] - committed[offset]) for offset in both]
        cuts = statistics.quantiles(values, n=100)
        yield {
            "what": f"commit to consumer, level {number} of {len(levels)}",
            "unit": "ms (p50)",
            "kwire": statistics.median(values),
            "notes": f"p99 {cuts[98]:.1f} ms, largest {max(values):.1f} ms, {len(both)} records",
        }


def _change(cluster: OwnCluster, name: str, count: int) -> None:
    """Create one topic after the other, at a steady pace."""
    with Admin(cluster.bootstrap.split(",")) as admin:
        for number in range(count):
            began = time.monotonic()
            topic = CreatableTopic(name=f"{name}-{number}", num_partitions=1, replication_factor=1)
            admin.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            time.sleep(max(0.0, _PACE_S - (time.monotonic() - began)))


def _costs(cluster: OwnCluster, relay: Relay) -> Iterator[dict[str, Any]]:
    alone_s = _busy_s(cluster, relay, "alone")
    for what, address, version, request in (
        ("a consumer", relay.bootstrap, 11, _consumer_fetch),
        ("an observer", relay.controller_address, 17, _observer_fetch(cluster)),
    ):
        with _Children(address, version, request) as children:
            used = _busy_s(cluster, relay, what.replace(" ", "-")) - alone_s
            answers = children.answers
        yield {
            "what": f"processor time of an answer to {what} that waits",
            "unit": "µs",
            "kwire": 1e6 * used / answers,
            "notes": f"{_CHILDREN} of them, {answers:,} answers",
        }


def _busy_s(cluster: OwnCluster, relay: Relay, name: str) -> float:
    """Return the processor time of the gateway while changes are made."""
    before = cpu_seconds(relay.pid)
    _change(cluster, name, _COSTED_CHANGES)
    return cpu_seconds(relay.pid) - before


def _consumer_fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


def _observer_fetch(cluster: OwnCluster) -> Callable[[int], FetchRequest]:
    epoch = 1  # a quorum of one that was never restarted
    assert cluster.shape.controllers == 1
    return lambda offset: raft_fetch(epoch, offset, epoch)


class _Children:
    """Connections that each have a Fetch waiting at the end of the log, on a thread."""

    def __init__(self, address: str, version: int, request: Callable[[int], Message]) -> None:
        self.answers = 0
        self._version = version
        self._request = request
        host, _, port = address.rpartition(":")
        self._sockets = [socket.create_connection((host, int(port))) for _ in range(_CHILDREN)]
        self._offsets = [1] * _CHILDREN
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _Children:
        self._thread.start()
        while self.answers < 3 * _CHILDREN:  # all of them have read up to the end
            time.sleep(0.05)
        time.sleep(0.5)
        self.answers = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)
        for one in self._sockets:
            one.close()

    def _run(self) -> None:
        frames: dict[int, bytes] = {}
        for at, one in enumerate(self._sockets):
            one.sendall(self._frame(frames, self._offsets[at]))
        while not self._stop.is_set():
            # In order: a commit answers all of them.
            for at, one in enumerate(self._sockets):
                self._offsets[at] = self._receive(one, self._offsets[at])
                self.answers += 1
                one.sendall(self._frame(frames, self._offsets[at]))

    def _frame(self, frames: dict[int, bytes], offset: int) -> bytes:
        """Return the frame of a Fetch at ``offset``, made once for all children."""
        if offset not in frames:
            message = self._request(offset)
            assert message.API_KEY is not None
            frame = encode_request_header(message.API_KEY, self._version, 1, "bench")
            frame += message.encode(self._version)
            frames.clear()
            frames[offset] = _SIZE.pack(len(frame)) + frame
        return frames[offset]

    def _receive(self, one: socket.socket, offset: int) -> int:
        """Return the offset behind the records of the next answer."""
        (size,) = _SIZE.unpack(one.recv(_SIZE.size, socket.MSG_WAITALL))
        data = one.recv(size, socket.MSG_WAITALL)
        assert FetchResponse.API_KEY is not None
        _, body = decode_response_header(FetchResponse.API_KEY, self._version, data)
        answer = FetchResponse.decode(data[body:], self._version)
        partition = answer.responses[0].partitions[0]
        if partition.error_code:
            raise AssertionError(f"a waiting Fetch got error {partition.error_code}")
        for batch in iter_batches(partition.records or b""):
            offset = batch.next_offset
        return offset
