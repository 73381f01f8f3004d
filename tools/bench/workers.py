"""Measures what a second worker adds (``kwire serve --workers 2``): small requests and bytes served
in a second, and the processor time that the server takes for each.

A client that took as much processor time as the server would leave none for a second worker on a
machine of two processors. This one sends requests that are encoded before, many at a time, and
counts the bytes of the responses without copying them (MSG_TRUNC). Its own processor time is in the
notes. Rounds with one and two workers alternate; the ratio is the median over pairs of rounds. Each
connection always has requests to be answered, so both workers are busy whichever connections the
system gave them.
"""

from __future__ import annotations

import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools.bench import largelog
from tools.gateway_process import gateway
from tools.process import cpu_seconds

METADATA, FETCH = 3, 1
_METADATA_VERSION, _FETCH_VERSION = 9, 12
#: Connections: all at one of two workers once in 10^14 runs.
_CONNECTIONS = 48
#: Requests that a connection sends at a time.
_PIPELINED = {METADATA: 64, FETCH: 2}
_ROUNDS, _SECONDS, _WARM_UP_S = 7, 2.0, 1.0
_BAR = 1.7
_RECEIVE = 1 << 20
_COUNT = """
import time
ends, number = time.perf_counter() + 0.5, 0
while time.perf_counter() < ends:
    number += 1
print(number)
"""


class _Served(NamedTuple):
    """One round: responses, bytes, and processor time of the server and of this process, s."""

    seconds: float
    responses: float
    size: int
    server_s: float
    client_s: float


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    if (os.cpu_count() or 1) < 2:
        return [{"what": "workers", "ok": False, "notes": "not measured: one processor"}]
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            node = largelog.unpack(Path(scratch))
        except largelog.NoLog as error:
            return [{"what": "workers", "ok": False, "notes": f"not measured: {error}"}]
        return list(_rows(node))


def _rows(node: Path) -> Iterator[dict[str, Any]]:
    source = ("--source", "log", "--log-dir", str(node))
    with gateway(*source) as one, gateway(*source, "--workers", "2") as two:
        servers = [(one.bootstrap, [one.pid]), (two.bootstrap, two.ready["workers"])]
        for name, unit, api_key, body in (
            ("Metadata of one topic, pipelined", "requests/s", METADATA, _metadata()),
            ("Fetch of 1 MiB, pipelined", "MB/s", FETCH, _fetch()),
        ):
            sides = _measure(servers, api_key, body)
            rates = [[_rate(served, unit) for served in side] for side in sides]
            ratio = statistics.median(b / a for a, b in zip(*rates, strict=True))
            yield {
                "what": f"{name}: two workers, beside one",
                "unit": unit,
                "kwire": statistics.median(rates[1]),
                "peer": "one worker",
                "peer_value": statistics.median(rates[0]),
                "ratio": ratio,
                "bar": _BAR,
                "notes": (
                    f"the client takes {_client_share(sides[1]):.0%} of a processor; two loops"
                    f" without a server do {_loops():.2f} times as much as one"
                ),
            }
            cpu = [statistics.median(_cpu_us(served) for served in side) for side in sides]
            yield {
                "what": f"{name}: server CPU a response",
                "unit": "us",
                "kwire": cpu[1],
                "peer": "one worker",
                "peer_value": cpu[0],
                "ratio": cpu[0] / cpu[1],
            }


def _loops() -> float:
    """How much more two processes that only count do than one: below 2 other work takes processor
    time, and the ratios of this bench cannot be better.
    """
    return statistics.median(sum(_counted(2)) / sum(_counted(1)) for _ in range(_ROUNDS))


def _counted(processes: int) -> list[int]:
    """The number to which each of so many processes counts in half a second."""
    started = [
        subprocess.Popen([sys.executable, "-c", _COUNT], stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    return [int(one.communicate()[0]) for one in started]


def _metadata() -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=CLUSTER_METADATA_TOPIC)])
    head = encode_request_header(METADATA, _METADATA_VERSION, 1, "bench")
    return frame(head, request.encode(_METADATA_VERSION))


def _fetch() -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
    head = encode_request_header(FETCH, _FETCH_VERSION, 1, "bench")
    return frame(head, request.encode(_FETCH_VERSION))


def _rate(served: _Served, unit: str) -> float:
    """Requests, or megabytes, in a second of the clock."""
    total = served.responses if unit == "requests/s" else served.size / 1e6
    return total / served.seconds


def _cpu_us(served: _Served) -> float:
    """Processor time of the server for a response, us."""
    return 1e6 * served.server_s / served.responses


def _client_share(rounds: Sequence[_Served]) -> float:
    """Share of a processor that this process took."""
    return statistics.median(one.client_s / one.seconds for one in rounds)


def _measure(
    servers: Sequence[tuple[str, list[int]]], api_key: int, body: bytes
) -> list[list[_Served]]:
    """The rounds of each server."""
    sides: list[list[_Served]] = [[] for _ in servers]
    loads = [_Load(bootstrap, api_key, body, pids) for bootstrap, pids in servers]
    try:
        for load in loads:
            load.round(_WARM_UP_S)
        for number in range(_ROUNDS):
            for side in (0, 1) if number % 2 else (1, 0):
                sides[side].append(loads[side].round(_SECONDS))
    finally:
        for load in loads:
            load.close()
    return sides


class _Load:
    """Connections to one server, each with requests to be answered during a round."""

    def __init__(self, bootstrap: str, api_key: int, body: bytes, pids: list[int]) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._pids = pids
        self._number = _PIPELINED[api_key]
        self._requests = body * self._number
        self._socks = [socket.create_connection((host, int(port))) for _ in range(_CONNECTIONS)]
        self._response = self._size_of_response(self._socks[0], body)
        self._buffer = bytearray(_RECEIVE)
        self._selector = selectors.DefaultSelector()
        for sock in self._socks:
            self._selector.register(sock, selectors.EVENT_READ, [0])  # bytes to come

    @staticmethod
    def _size_of_response(sock: socket.socket, body: bytes) -> int:
        sock.sendall(body)
        size = 4 + int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
        left = size - 4
        while left:
            left -= len(sock.recv(min(left, _RECEIVE)))
        return size

    def round(self, seconds: float) -> _Served:
        """Keep all connections busy for ``seconds``, then receive what is left."""
        server_s, client_s = self._server_s(), time.process_time()
        began = time.perf_counter()
        ends, size = began + seconds, 0
        busy = len(self._socks)
        for key in self._selector.get_map().values():
            key.data[0] = self._ask(key.fileobj)
        while busy:
            for key, _ in self._selector.select():
                sock: Any = key.fileobj
                received = sock.recv_into(self._buffer, _RECEIVE, socket.MSG_TRUNC)
                if not received:
                    raise AssertionError("the server closed a connection")
                size += received
                key.data[0] -= received
                if key.data[0] == 0:
                    if time.perf_counter() < ends:
                        key.data[0] = self._ask(sock)
                    else:
                        busy -= 1
        took = time.perf_counter() - began
        return _Served(
            took,
            size / self._response,
            size,
            self._server_s() - server_s,
            time.process_time() - client_s,
        )

    def close(self) -> None:
        self._selector.close()
        for sock in self._socks:
            sock.close()

    def _ask(self, sock: Any) -> int:
        """Send the requests; return the size of their responses."""
        sock.sendall(self._requests)
        return self._number * self._response

    def _server_s(self) -> float:
        return sum(map(cpu_seconds, self._pids))
