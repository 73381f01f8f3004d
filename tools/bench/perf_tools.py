"""Runs Kafka's own performance tools against a broker of kwire's and one of Kafka:
``kafka-producer-perf-test`` and ``kafka-consumer-perf-test``, with the server's processor time.

The tools take about as much of the two processors as the servers, so that the ratios are those that
a user of Java's clients sees; ``produce`` has those of the server alone. Servers take turns, and
each value is the median of the rounds. The tools warm up before they count.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tools import java
from tools.bench.data_servers import DataServer, both
from tools.bench.passes import PassError, java_consumer
from tools.bench.rounds import ROUNDS, Value, compared, medians, row
from tools.java import JavaError
from tools.java_tools import run_alone
from tools.kafka import FULL_SPEED
from tools.process import ProcessError, cpu_seconds

_GB: Final = 1e9
_TIMEOUT_S: Final = 300
#: The topic of every run.
TOPIC: Final = "bench-perf"
#: Records of the producer whose acknowledgements are timed, behind its warm-up.
_SLOW: Final = 2_000
#: The closing line of ``ProducerPerformance``, without the records of the warm-up.
_CLOSING: Final = re.compile(
    r"(\d+) steady state records sent, ([\d.]+) records/sec .*?, ([\d.]+) ms avg latency,"
    r".* (\d+) ms 99th,"
)


@dataclass(frozen=True)
class Producing:
    """A run of ``kafka-producer-perf-test``: ``records`` of ``size`` bytes, as idempotent producers
    with ``acks=all`` send them, in batches of up to ``batch`` bytes. ``throughput`` is the part
    of Kafka's that docs/scale.md aims at, ``cost`` that of its processor time over kwire's.
    """

    title: str
    records: int
    size: int
    batch: int
    throughput: float
    cost: float | None = None


RUNS: Final = (
    Producing("defaults, records of 100 B", 1_500_000, 100, 16 << 10, 0.8),
    Producing("batches of 64 KiB, records of 1 kB", 800_000, 1000, 64 << 10, 1.0, 1.0),
    Producing("batches of 256 KiB, records of 1 kB", 1_000_000, 1000, 256 << 10, 1.0, 1.0),
)


class Printed(NamedTuple):
    """The closing line of ``kafka-producer-perf-test``: records a second, and the time until a
    record is acknowledged, ms: its mean, and its 99th percentile in whole ms.
    """

    rate: float
    mean_ms: float
    p99_ms: int


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows; one with the reason where Kafka cannot run."""
    try:
        with both() as servers:
            yield from rows(servers)
    except (JavaError, ProcessError, PassError) as error:
        yield {"what": "perf-tools", "ok": False, "notes": f"not measured: {error}"}


def rows(
    servers: Sequence[DataServer], runs: Sequence[Producing] = RUNS, rounds: int = ROUNDS
) -> Iterator[dict[str, Any]]:
    """Yield two rows for each of ``runs``, two of a consumer, and two of a slow producer."""
    for one in runs:
        yield from _producer_rows(servers, one, rounds)
    yield from _consumer_rows(servers, runs[-1], rounds)
    yield from _slow_rows(servers, rounds)


def _producer_rows(
    servers: Sequence[DataServer], one: Producing, rounds: int
) -> Iterator[dict[str, Any]]:
    def measure(server: DataServer, _warm_up_s: float) -> Value:
        server.create(TOPIC)
        try:
            before = cpu_seconds(server.pid)
            printed = produce(server, one.records, one.size, {"batch.size": str(one.batch)})
            used = cpu_seconds(server.pid) - before
        finally:
            server.delete(TOPIC)
        sent = (one.records + _warm_up(one.records)) * one.size
        return Value(used / sent * _GB, printed.rate * one.size / 1e6)

    what = f"kafka-producer-perf-test, {one.title}"
    yield from _two(servers, what, medians(servers, measure, rounds=rounds), one)


def _consumer_rows(
    servers: Sequence[DataServer], one: Producing, rounds: int
) -> Iterator[dict[str, Any]]:
    for server in servers:
        server.create(TOPIC)
        produce(server, one.records, one.size, {"batch.size": str(one.batch)})

    def measure(server: DataServer, _warm_up_s: float) -> Value:
        before = cpu_seconds(server.pid)
        took = java_consumer(server.address, TOPIC, one.records)
        size = one.records * one.size
        return Value((cpu_seconds(server.pid) - before) / size * _GB, size / took / 1e6)

    what = f"kafka-consumer-perf-test, {one.title}"
    values = medians(servers, measure, rounds=rounds)
    for server in servers:
        server.delete(TOPIC)
    yield from _two(servers, what, values, replace(one, throughput=1.0, cost=1 / 0.7))


def _two(
    servers: Sequence[DataServer], what: str, values: tuple[Value, Value], one: Producing
) -> Iterator[dict[str, Any]]:
    """The rows of the processor time and of the throughput."""
    own, peer = values
    yield row(servers, what, "s CPU/GB", own.cost, peer.cost, bar=one.cost)
    throughput = own.rate / peer.rate
    yield {
        "what": f"{what}: throughput",
        "unit": f"times {servers[1].name}'s",
        "kwire": throughput,
        "bar": one.throughput,
        "ratio": throughput,
    }


def _slow_rows(servers: Sequence[DataServer], rounds: int) -> Iterator[dict[str, Any]]:
    """200 records a second: the time until each is acknowledged."""
    settings = {"acks": "1", "enable.idempotence": "false", "linger.ms": "0"}
    p99: dict[str, list[int]] = {server.name: [] for server in servers}

    def measure(server: DataServer, _warm_up_s: float) -> Value:
        server.create(TOPIC)
        try:
            printed = produce(server, _SLOW, 100, settings, a_second=200)
        finally:
            server.delete(TOPIC)
        p99[server.name].append(printed.p99_ms)
        return Value(printed.mean_ms, printed.rate)

    what = "kafka-producer-perf-test, acks=1, 200 records of 100 B a second"
    yield {**compared(servers, f"{what}: mean", "ms", measure, rounds=rounds), "bar": 0.8}
    # The tool prints whole milliseconds.
    own, peer = (max(1.0, statistics.median(p99[server.name][1:])) for server in servers)
    yield row(servers, f"{what}: p99", "ms", own, peer, bar=1.0)


def produce(
    server: DataServer, records: int, size: int, settings: dict[str, str], a_second: int = -1
) -> Printed:
    """Send ``records`` of ``size`` random bytes, at most ``a_second``, behind those of the warm-up.
    Raises JavaError, PassError.
    """
    warm_up = _warm_up(records)
    words = [
        "--topic", TOPIC,
        "--num-records", str(records + warm_up), "--warmup-records", str(warm_up),
        "--record-size", str(size), "--throughput", str(a_second),
        "--command-property", f"bootstrap.servers={server.address}",
        *(f"{name}={value}" for name, value in settings.items()),
    ]  # fmt: skip
    done = run_alone(java.PRODUCER_PERFORMANCE, words, timeout_s=_TIMEOUT_S, options=FULL_SPEED)
    return printed_in(done.stdout + done.stderr, records)


def printed_in(output: str, records: int) -> Printed:
    """Read the line that the tool prints when it has sent ``records``. Raises PassError."""
    found = _CLOSING.findall(output)
    if not found or int(found[-1][0]) != records:
        raise PassError(f"kafka-producer-perf-test did not send {records}: {output[-1000:]}")
    _, rate, mean_ms, p99_ms = found[-1]
    return Printed(float(rate), float(mean_ms), int(p99_ms))


def _warm_up(records: int) -> int:
    """The records that are sent before the tool counts."""
    return records // 4
