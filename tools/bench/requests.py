"""Measures small requests: how many a second, and the server's processor time for one, beside
Kafka, kfake and librdkafka's mock cluster.

Every server gets the same frames at the newest version that all of them offer. Processor time is
that of the whole process, from /proc, so a slow client does not distort it. Clients and server run
on one processor each (see ``processors``). Each server is warmed up, so that Kafka runs compiled.

For ApiVersions there are two more peers, ``tools.other_servers.empty_server``, which decode
nothing: they show how much of kwire's time sockets and the event loop take.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire.header import encode_request_header
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools import java
from tools.bench import processors
from tools.bench.request_load import load
from tools.gateway_process import gateway
from tools.java import KAFKA_VERSION, TOPICS
from tools.kafka import FULL_SPEED, kafka
from tools.other_servers.build import BuildError, go_program
from tools.other_servers.servers import empty_server, kfake, mock_cluster
from tools.process import ProcessError, cpu_seconds
from tools.wire_client import WireClient

#: As long as the name of the topic that kwire serves, so that the frames are.
_TOPIC = "a-topic-of-a-bench"
_CLIENT = "bench"
_SIZE = struct.Struct(">i")
_LATEST = -1
#: (connections, requests in flight on each)
_SHAPES: Sequence[tuple[int, int]] = ((1, 1), (1, 50), (100, 1), (100, 20), (1000, 1), (1000, 5))
_WARM_UP_S, _MEASURED_S = 0.7, 2.0
#: Before the first measurement of a server, for each API: the JVM compiles meanwhile.
_FIRST_WARM_UP_S = 4.0


def _metadata(topic: str, offset: int) -> Message:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )


def _list_offsets(topic: str, offset: int) -> Message:
    partition = ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )


def _fetch(topic: str, offset: int) -> Message:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def _offset_commit(topic: str, offset: int) -> Message:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=_CLIENT,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def _api_versions(topic: str, offset: int) -> Message:
    return ApiVersionsRequest(client_software_name="bench", client_software_version="1")


#: (API, the newest version to use, request for a topic whose log ends at an offset)
_APIS: Sequence[tuple[str, int, Callable[[str, int], Message]]] = (
    ("ApiVersions", 3, _api_versions),
    ("Metadata, one topic", 8, _metadata),
    ("ListOffsets", 7, _list_offsets),
    ("Fetch, empty", 11, _fetch),
    ("OffsetCommit", 8, _offset_commit),
)


@dataclass
class _Server:
    """``end``: the end of the topic's log. ``offered``: newest version by API key."""

    name: str
    address: str
    pid: int
    topic: str
    end: int = 0
    offered: Mapping[int, int] = field(default_factory=dict)


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason for each server that cannot run."""
    with contextlib.ExitStack() as stack:
        servers, rows = [], []
        for start in (_kwire, _kafka, _kfake, _mock):
            try:
                servers.append(stack.enter_context(start()))
            except (java.JavaError, BuildError, ProcessError) as error:
                rows.append({"what": "requests", "ok": False, "notes": f"not measured: {error}"})
        for server in servers:
            _prepare(server)
        answer = _answer(servers[0], _frame(servers[0], servers, _api_versions))
        loops = [stack.enter_context(_loop(name, answer)) for name in ("trio", "epoll")]
        with processors.pin_processors(*(server.pid for server in [*servers, *loops])):
            for server in servers:
                for _, _, make in _APIS:
                    _measure(server, servers, make, 10, 20, _FIRST_WARM_UP_S, 0.0)
            return [*rows, *_rows(servers, loops)]


@contextlib.contextmanager
def _kwire() -> Iterator[_Server]:
    # Without records of idleness the log does not grow, so that a Fetch at its end stays empty.
    with (
        tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch,
        gateway(
            "--data-dir", str(Path(scratch) / "node"), "--metadata-max-idle-interval-ms", "0"
        ) as server,
    ):
        yield _Server("kwire", server.bootstrap, server.pid, CLUSTER_METADATA_TOPIC)


@contextlib.contextmanager
def _kafka() -> Iterator[_Server]:
    java.java()
    java.class_path()
    one = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    with kafka(properties=one, options=FULL_SPEED) as cluster:
        cluster.tool(TOPICS, ["--create", "--topic", _TOPIC, "--partitions", "1"])
        name = f"Kafka {KAFKA_VERSION}"
        yield _Server(name, cluster.bootstrap, cluster.nodes[0].pid, _TOPIC)


@contextlib.contextmanager
def _kfake() -> Iterator[_Server]:
    with tempfile.TemporaryDirectory(prefix="kwire-kfake-") as directory:
        program = go_program("kfake", Path(directory))
        with kfake(program, _TOPIC) as peer:
            yield _Server("kfake", peer.bootstrap, peer.pid, _TOPIC)


@contextlib.contextmanager
def _mock() -> Iterator[_Server]:
    with mock_cluster(_TOPIC) as peer:
        yield _Server("librdkafka's mock", peer.bootstrap, peer.pid, _TOPIC)


@contextlib.contextmanager
def _loop(name: str, answer: bytes) -> Iterator[_Server]:
    with empty_server(name, answer) as peer:
        yield _Server(f"an empty loop of {name}", peer.bootstrap, peer.pid, "")


def _prepare(server: _Server) -> None:
    """Ask for versions, coordinator and the log's end; Kafka makes its topic of offsets now."""
    with WireClient(server.address) as client:
        offered = client.call(ApiVersionsRequest(), 0).api_keys
        server.offered = {one.api_key: one.max_version for one in offered}
        client.call(FindCoordinatorRequest(key=_CLIENT), 1)
        answer = client.call(_list_offsets(server.topic, 0), 2)
        server.end = answer.topics[0].partitions[0].offset


def _version(servers: Sequence[_Server], make: Callable[[str, int], Message]) -> int:
    """Return the newest version that all servers offer, up to that of ``_APIS``."""
    most = next(version for _, version, one in _APIS if one is make)
    key = make("", 0).API_KEY
    return min(most, *(server.offered[key] for server in servers if key is not None))


def _frame(
    server: _Server, servers: Sequence[_Server], make: Callable[[str, int], Message]
) -> bytes:
    """Return a request with its length."""
    version, message = _version(servers, make), make(server.topic, server.end)
    assert message.API_KEY is not None
    header = encode_request_header(message.API_KEY, version, 1, _CLIENT)
    frame = header + message.encode(version)
    return _SIZE.pack(len(frame)) + frame


def _answer(server: _Server, frame: bytes) -> bytes:
    """Return the response to ``frame`` with its length."""
    host, _, port = server.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as sock,
        sock.makefile("rb") as file,
    ):
        sock.sendall(frame)
        size = file.read(_SIZE.size)
        return size + file.read(_SIZE.unpack(size)[0])


def _measure(
    server: _Server,
    servers: Sequence[_Server],
    make: Callable[[str, int], Message],
    connections: int,
    in_flight: int,
    warm_up_s: float = _WARM_UP_S,
    measured_s: float = _MEASURED_S,
) -> tuple[float, float]:
    """Return (requests a second, µs of the server's processor time for each)."""
    frame = _frame(server, servers, make)
    _check(server, make(server.topic, server.end), _version(servers, make))
    with load(server.address, frame, connections, in_flight) as made:
        made.run(warm_up_s)
        if not measured_s:
            return 0.0, 0.0
        before = cpu_seconds(server.pid)
        count, took = made.run(measured_s)
        used = cpu_seconds(server.pid) - before
    return count / took, 1e6 * used / count


def _check(server: _Server, message: Message, version: int) -> None:
    """Send the request once. Raises AssertionError if the answer has an error, which would be fast
    for nothing.
    """
    with WireClient(server.address) as client:
        answer = client.call(message, version).to_json(version)
    codes = [code for code in _error_codes(answer) if code]
    if codes:
        raise AssertionError(f"{server.name} answers {message.NAME} with error {codes[0]}")


def _error_codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "errorCode":
                yield one
            else:
                yield from _error_codes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _error_codes(one)


def _rows(servers: Sequence[_Server], loops: Sequence[_Server]) -> Iterator[dict[str, Any]]:
    own = servers[0]
    for api, _, make in _APIS:
        peers = [*servers[1:], *(loops if make is _api_versions else ())]
        version = _version(servers, make)
        for connections, in_flight in _SHAPES:
            rates, costs = {}, {}
            for server in (own, *peers):
                rates[server.name], costs[server.name] = _measure(
                    server, servers, make, connections, in_flight
                )
            how = "1 in flight" if in_flight == 1 else f"{in_flight} in flight on each"
            what = f"{api} v{version}, {connections:,} connections, {how}"
            for peer in peers:
                yield {
                    "what": what,
                    "unit": "µs CPU/request",
                    "kwire": costs[own.name],
                    "peer": peer.name,
                    "peer_value": costs[peer.name],
                    "ratio": costs[peer.name] / costs[own.name],
                    # The aim of a ratio above 1 is for Kafka; the fakes check and store less.
                    "notes": f"{rates[own.name]:,.0f} and {rates[peer.name]:,.0f} requests/s",
                }
