"""Measures the view topics: the first read of a large log, the server's CPU of a later one beside
that of the raw log, the memory, also of a longer history with the same state, and the time from a
commit to a consumer of a view.

A later read gets batches that are kept. The raw log is p-large as well, read by the same client.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.ports.view_topics import view_topic
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools.bench import largelog, passes
from tools.gateway_process import Gateway, gateway
from tools.process import cpu_seconds, memory_mib

_COLD_S_MAX, _CPU_RATIO, _LATENCY_MS_MAX = 10.0, 0.5, 15.0
_PASSES, _COMMITS, _WARM_UP = 9, 200, 20
#: The log so many times over has the same state; the memory for it may differ by this ratio.
_HISTORY, _MEMORY_RATIO = 3, 0.8
_TIMEOUT_S = 60


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    if missing := passes.available():
        return [{"what": "views", "ok": False, "notes": f"not measured: {'; '.join(missing)}"}]
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            node = largelog.unpack(Path(scratch))
        except largelog.NoLog as error:
            return [{"what": "views", "ok": False, "notes": f"not measured: {error}"}]
        batches = largelog.data_batches(node)
        with gateway("--source", "log", "--log-dir", str(node)) as server:
            rows = [*_reads(server, sum(batch.records for batch in batches))]
        rows.append(_memory(node, largelog.repeated(node, batches, _HISTORY, node.parent / "long")))
        return [*rows, *_latency(Path(scratch))]


def _reads(server: Gateway, raw: int) -> Iterator[dict[str, Any]]:
    log_cpu = _cpu(server, CLUSTER_METADATA_TOPIC, raw)
    for view, bar in (("partitions", _COLD_S_MAX), ("changes", None)):
        topic = view_topic(view)
        began, before = time.perf_counter(), cpu_seconds(server.pid)
        count = _count(server.bootstrap, topic)
        cold, cold_cpu = time.perf_counter() - began, cpu_seconds(server.pid) - before
        yield {
            "what": f"first read of .{view}, {count:,} records",
            "unit": "s",
            "kwire": cold,
            "ok": None if bar is None else cold < bar,
            "notes": f"{'' if bar is None else f'below {bar:.0f} s; '}{cold_cpu:.1f} s CPU",
        }
        cpu = _cpu(server, topic, count)
        yield {
            "what": f"kcat, server CPU of a later read of .{view}",
            "unit": "s",
            "kwire": cpu,
            "peer": "the raw log",
            "peer_value": log_cpu,
            "ratio": log_cpu / max(cpu, 0.001),
            "bar": _CPU_RATIO,
        }
    yield {"what": "memory after all reads", "unit": "MiB", "kwire": memory_mib(server.pid)}


def _memory(node: Path, longer: Path) -> dict[str, Any]:
    """The memory that a first read of .partitions takes, of both logs."""
    taken = []
    for directory in (node, longer):
        with gateway("--source", "log", "--log-dir", str(directory)) as server:
            before = memory_mib(server.pid)
            _count(server.bootstrap, view_topic("partitions"))
            taken.append(memory_mib(server.pid) - before)
    return {
        "what": f"memory for .partitions, of a log {_HISTORY} times as long with the same state",
        "unit": "MiB",
        "kwire": taken[1],
        "peer": "the log once",
        "peer_value": taken[0],
        "ratio": taken[0] / max(taken[1], 0.001),
        "bar": _MEMORY_RATIO,
    }


def _cpu(server: Gateway, topic: str, count: int) -> float:
    """Return the mean CPU seconds of the server in a pass over ``topic``."""
    passes.kcat(server.bootstrap, topic, count)
    before = cpu_seconds(server.pid)
    for _ in range(_PASSES):
        passes.kcat(server.bootstrap, topic, count)
    return (cpu_seconds(server.pid) - before) / _PASSES


def _count(bootstrap: str, topic: str) -> int:
    """Read the whole topic once, to its present end, and return the number of its records."""
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap, "group.id": "bench"}
    settings |= {"enable.auto.commit": False, "enable.partition.eof": True}
    settings["fetch.queue.backoff.ms"] = 1  # as in ``passes``: not a second with a full queue
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        count, deadline = 0, time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            for message in consumer.consume(num_messages=10_000, timeout=1.0):
                if message.error():
                    return count
                count += 1
        raise passes.PassError(f"{count} records in {_TIMEOUT_S} s")
    finally:
        consumer.close()


def _latency(scratch: Path) -> Iterator[dict[str, Any]]:
    """Time from the call of createTopics to the record at a consumer that follows the view."""
    with gateway("--process-roles", "controller", "--data-dir", str(scratch / "data")) as server:
        arrived: dict[str, float] = {}
        stop = threading.Event()
        reader = threading.Thread(target=_follow, args=(server.bootstrap, arrived, stop))
        reader.start()
        try:
            times = list(_commits(server.bootstrap, arrived))
        finally:
            stop.set()
            reader.join()
    found = statistics.quantiles([1000 * one for one in times[_WARM_UP:]], n=100)
    yield {
        "what": "commit to a consumer of .topics, p50",
        "unit": "ms",
        "kwire": found[49],
        "ok": found[49] < _LATENCY_MS_MAX,
        "notes": f"below {_LATENCY_MS_MAX:.0f} ms; p99 {found[98]:.1f} ms; from the call of"
        " createTopics on, the commit included",
    }


def _follow(bootstrap: str, arrived: dict[str, float], stop: threading.Event) -> None:
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap, "group.id": "bench"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(view_topic("topics"), 0, 0)])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            arrived[str(message.key())] = time.perf_counter()
    consumer.close()


def _commits(bootstrap: str, arrived: dict[str, float]) -> Iterator[float]:
    """Create topics one at a time; yield seconds from the call to the record in the view."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for number in range(_WARM_UP + _COMMITS):
        key = str(b'{"name":"bench-%d"}' % number)
        began = time.perf_counter()
        for future in admin.create_topics([NewTopic(f"bench-{number}", 1, 1)]).values():
            future.result(_TIMEOUT_S)
        deadline = time.monotonic() + _TIMEOUT_S
        while key not in arrived:
            if time.monotonic() > deadline:
                raise passes.PassError(f"{key} did not arrive")
            time.sleep(0.0002)
        yield arrived[key] - began
