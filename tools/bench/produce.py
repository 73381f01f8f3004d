"""Measures Produce and Fetch beside Kafka: the server's processor time for a GB, the throughput,
the time until a record is acknowledged.

A raw client keeps several requests in flight and costs little, so that the server is what is
measured. Both servers are warm, take turns, and each value is the median of the rounds. Clients and
servers run on one processor each (see ``processors``); the processor time is that of the whole
process. After each measurement the end of the log is compared with what was sent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.records import Record, encode_batch
from tools.bench import processors
from tools.bench.data_servers import DataServer, both, frame_of
from tools.bench.request_load import load
from tools.bench.rounds import ROUNDS, Value, compared, row
from tools.java import JavaError
from tools.process import ProcessError, cpu_seconds
from tools.wire_client import WireClient

_PRODUCE, _FETCH = 9, 11
_GB = 1e9
_MEASURED_S = 2.0
_CONNECTIONS, _IN_FLIGHT = 2, 5
_ACKS = 1
_PARTITIONS = 1000
#: Requests of the idle session, of each latency, and the pause between two of these.
_FETCHES = 2000
_ACKNOWLEDGED, _PAUSE_S = 600, 0.005


@dataclass(frozen=True)
class _Batch:
    """Batches of up to ``size`` bytes with records of ``record`` bytes; ``bar``: the ratio of
    processor time that docs/scale.md aims at.
    """

    title: str
    size: int
    record: int
    bar: float | None


_BATCHES: Sequence[_Batch] = (
    _Batch("16 KiB, records of 100 B", 16 << 10, 100, 0.8),
    _Batch("64 KiB, records of 1 kB", 64 << 10, 1000, 1.0),
    _Batch("256 KiB, records of 1 kB", 256 << 10, 1000, 1.0),
    _Batch("1 MiB, records of 10 kB", (1 << 20) - 8192, 10_000, 1.0),
)


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason where Kafka cannot run."""
    try:
        with both() as servers, processors.pin_processors(*(one.pid for one in servers)):
            return list(_rows(servers))
    except (JavaError, ProcessError) as error:
        return [{"what": "produce", "ok": False, "notes": f"not measured: {error}"}]


def _rows(servers: Sequence[DataServer]) -> Iterator[dict[str, Any]]:
    for batch in _BATCHES:
        yield _produce_row(servers, batch)
    yield _fetch_row(servers)
    yield _partitions_row(servers)
    yield _session_row(servers)
    yield from _latency_rows(servers)


# --- what is sent
# ------------------------------------------------------------------------------------------------


def batch_of(size: int, record: int, now_ms: int) -> tuple[bytes, int]:
    """Return a batch of nearly ``size`` bytes with records of ``record`` random bytes, and the
    number of records.
    """
    rng = random.Random(size)
    count = max(1, size // (record + 12))
    records = [
        Record(offset=n, timestamp=now_ms, value=rng.randbytes(record)) for n in range(count)
    ]
    return encode_batch(records), count


def produce_request(
    topic: str, indexes: Sequence[int], records: bytes, acks: int = _ACKS
) -> ProduceRequest:
    """Return the request that produces ``records`` to each of the partitions ``indexes``."""
    partitions = [PartitionProduceData(index=index, records=records) for index in indexes]
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )


def wall_ms() -> int:
    """The time of records that are made now, ms."""
    return int(time.time() * 1000)


# --- rows
# ------------------------------------------------------------------------------------------------


def _produce_row(servers: Sequence[DataServer], batch: _Batch) -> dict[str, Any]:
    records, count = batch_of(batch.size, batch.record, wall_ms())

    def measure(server: DataServer, warm_up_s: float) -> Value:
        server.create("bench-produce")
        try:
            frame = frame_of(produce_request("bench-produce", [0], records), _PRODUCE)
            value, sent = _loaded(server, frame, warm_up_s)
            _compare(server.end("bench-produce"), sent * count, server)
        finally:
            server.delete("bench-produce")
        return value._replace(cost=value.cost / len(records) * _GB)

    row = compared(servers, f"Produce, batches of {batch.title}", "s CPU/GB", measure)
    return {**row, "bar": batch.bar}


def _fetch_row(servers: Sequence[DataServer]) -> dict[str, Any]:
    records, _ = batch_of(64 << 10, 1000, wall_ms())
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="bench-fetch", partitions=[asked])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    sizes = {}
    for server in servers:
        server.create("bench-fetch")
        with WireClient(server.address) as client:
            for _ in range(20):
                client.call(produce_request("bench-fetch", [0], records), _PRODUCE)
            answer = client.call(request, _FETCH)
            # Kafka cuts the last batch off where the limit is.
            sizes[server.name] = len(answer.responses[0].partitions[0].records)

    def measure(server: DataServer, warm_up_s: float) -> Value:
        value, _ = _loaded(server, frame_of(request, _FETCH), warm_up_s)
        return value._replace(cost=value.cost / sizes[server.name] * _GB)

    what = "Fetch of 1 MiB of one partition"
    return {**compared(servers, what, "s CPU/GB", measure), "bar": 1.0 / 0.7}


def _partitions_row(servers: Sequence[DataServer]) -> dict[str, Any]:
    """Requests of 200 partitions with one record each, to 1,000 partitions."""
    records, _ = batch_of(1, 100, wall_ms())
    for server in servers:
        server.create("bench-many", _PARTITIONS)
    asked = 200

    def measure(server: DataServer, warm_up_s: float) -> Value:
        first = random.Random(warm_up_s).randrange(_PARTITIONS - asked)
        indexes = range(first, first + asked)
        frame = frame_of(produce_request("bench-many", indexes, records), _PRODUCE)
        before = sum(server.end("bench-many", index) for index in indexes)
        value, sent = _loaded(server, frame, warm_up_s)
        after = sum(server.end("bench-many", index) for index in indexes)
        _compare(after - before, sent * asked, server)
        return value._replace(cost=1e6 * value.cost / asked)

    what = f"Produce, {asked} of {_PARTITIONS:,} partitions a request, one record each"
    return compared(servers, what, "µs CPU/batch", measure)


def _session_row(servers: Sequence[DataServer]) -> dict[str, Any]:
    """A session of 1,000 partitions without new records."""
    ends = {
        server.name: [server.end("bench-many", index) for index in range(_PARTITIONS)]
        for server in servers
    }

    def measure(server: DataServer, warm_up_s: float) -> Value:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in enumerate(ends[server.name])
        ]
        topic = FetchTopic(topic="bench-many", partitions=partitions)
        with WireClient(server.address) as client:
            full = FetchRequest(min_bytes=0, session_epoch=0, topics=[topic])
            session = client.call(full, _FETCH).session_id
            before, began = cpu_seconds(server.pid), time.monotonic()
            for epoch in range(1, _FETCHES + 1):
                one = FetchRequest(min_bytes=0, session_id=session, session_epoch=epoch)
                answer = client.call(one, _FETCH)
                if answer.error_code or answer.responses:
                    raise OSError(f"{server.name}: the session is not idle: {answer.error_code}")
            took = time.monotonic() - began
            cost = (cpu_seconds(server.pid) - before) / _FETCHES
        return Value(1e6 * cost, _FETCHES / took)

    what = f"Fetch session of {_PARTITIONS:,} partitions, nothing new"
    return compared(servers, what, "µs CPU/fetch", measure)


def _latency_rows(servers: Sequence[DataServer]) -> Iterator[dict[str, Any]]:
    records, _ = batch_of(1, 100, wall_ms())
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for server in servers:
        server.create("bench-latency")
    for number in range(ROUNDS + 1):
        for server in servers:
            waits = _waits(server, records)
            if number:  # the first round warms up
                found[server.name] += waits
    own, peer = (sorted(found[server.name]) for server in servers)
    for name, part, bar in (("p50", 0.5, 1 / 1.25), ("p99", 0.99, 1.0)):
        mine, other = (1000 * waits[int(part * (len(waits) - 1))] for waits in (own, peer))
        what = f"acks=1, 200 records of 100 B a second: {name}"
        yield row(servers, what, "ms", mine, other, bar=bar)


def _waits(server: DataServer, records: bytes) -> list[float]:
    request, found = produce_request("bench-latency", [0], records), []
    with WireClient(server.address) as client:
        for _ in range(_ACKNOWLEDGED):
            began = time.perf_counter()
            client.call(request, _PRODUCE)
            found.append(time.perf_counter() - began)
            time.sleep(_PAUSE_S)
    return found


# --- how
# ------------------------------------------------------------------------------------------------


def _loaded(server: DataServer, frame: bytes, warm_up_s: float) -> tuple[Value, int]:
    """Return processor time (s) for a request and requests a second; how many were sent in all."""
    # As from any client: a connection may begin with a small request only.
    first = frame_of(ApiVersionsRequest(), 0)
    address = server.address
    with load(address, frame, _CONNECTIONS, _IN_FLIGHT, first=first, is_continuous=True) as made:
        warm, _ = made.run(warm_up_s)
        before = cpu_seconds(server.pid)
        count, took = made.run(_MEASURED_S)
        used = cpu_seconds(server.pid) - before
    return Value(used / count, count / took), warm + count


def _compare(found: int, sent: int, server: DataServer) -> None:
    if found != sent:
        raise OSError(f"{server.name} acknowledged {sent} records and has {found}")
