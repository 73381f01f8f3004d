"""Measures serving ``p-large``: start, memory, and the rate of stock clients beside Kafka with the
same batches in a topic.

A pass over the log itself takes a tenth of a second, so rates are of a log of the same batches ten
times over. Passes on the two servers alternate; the ratio is the median over pairs of passes that
followed each other. The first passes do not count: they warm caches and the JVM. Clients run on one
processor and servers on another (see ``processors``), and the two topics have names of one length,
because some clients make a string of the name for every record.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.produce_response import ProduceResponse
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools.bench import largelog, passes, processors
from tools.gateway_process import gateway
from tools.java import KAFKA_VERSION, TOPICS
from tools.kafka import FULL_SPEED, Cluster, kafka
from tools.process import cpu_seconds, memory_mib
from tools.wire_client import WireClient

#: How often the batches of the log are in the long one, and the topic that they are in at Kafka.
TIMES = 10
_STARTS = 5
TOPIC = "p-large-as-a-topic"
_WARM_UP = 2
_START_S_MAX, _MEMORY_MIB_MAX = 0.5, 80
#: Name, how to do a pass, and how many passes: more of those that take least, and of those that are
#: the limit themselves, so that what they are apart is less than one pass is from the next.
_CLIENTS: Sequence[tuple[str, Callable[[str, str, int], float], int]] = (
    ("kcat", passes.kcat, 61),
    ("confluent-kafka", passes.confluent_kafka, 41),
    ("Java consumer", passes.java_consumer, 9),
)
#: Kafka's own defaults, but it may not remove batches of another day, nor refuse those as large as
#: a controller writes.
KAFKA_PROPERTIES = {
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "message.max.bytes": "16777216",
}


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    if missing := passes.available():
        return [{"what": "serving", "ok": False, "notes": f"not measured: {'; '.join(missing)}"}]
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            node = largelog.unpack(Path(scratch))
        except largelog.NoLog as error:
            return [{"what": "serving", "ok": False, "notes": f"not measured: {error}"}]
        batches = largelog.data_batches(node)
        long_log = largelog.repeated(node, batches, TIMES, Path(scratch) / "long")
        return [*_start_and_memory(node, batches), *_rates(long_log, batches)]


def _start_and_memory(node: Path, batches: Sequence[largelog.Batch]) -> Iterator[dict[str, Any]]:
    count = sum(batch.records for batch in batches)
    starts = []
    for _ in range(_STARTS):
        began = time.perf_counter()
        with gateway("--source", "log", "--log-dir", str(node)) as server:
            _first_records(server.bootstrap)
            starts.append(time.perf_counter() - began)
    yield {
        "what": f"start to first records, {count:,} records",
        "unit": "s",
        "kwire": statistics.median(starts),
        "ok": statistics.median(starts) < _START_S_MAX,
        "notes": f"below {_START_S_MAX} s",
    }
    with gateway("--source", "log", "--log-dir", str(node)) as server:
        for _, client, _ in _CLIENTS:
            client(server.bootstrap, CLUSTER_METADATA_TOPIC, count)
        peak = memory_mib(server.pid, "VmHWM")
    yield {
        "what": "memory, highest, after a pass of each client", "unit": "MiB", "kwire": peak,
        "ok": peak < _MEMORY_MIB_MAX, "notes": f"below {_MEMORY_MIB_MAX} MiB",
    }  # fmt: skip


def _first_records(bootstrap: str) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )
    with WireClient(bootstrap) as client:
        response = cast(FetchResponse, client.call(request, 12))
    if not response.responses[0].partitions[0].records:
        raise AssertionError(f"no records at offset 0: {response}")


def _rates(long_log: Path, batches: Sequence[largelog.Batch]) -> Iterator[dict[str, Any]]:
    count = TIMES * sum(batch.records for batch in batches)
    megabytes = TIMES * sum(len(batch.data) for batch in batches) / 1e6
    with (
        kafka(properties=KAFKA_PROPERTIES, options=FULL_SPEED) as cluster,
        gateway("--source", "log", "--log-dir", str(long_log)) as server,
    ):
        fill(cluster, batches)
        own = (server.bootstrap, CLUSTER_METADATA_TOPIC, server.pid)
        kafkas = (cluster.bootstrap, TOPIC, cluster.nodes[0].pid)
        with processors.pin_processors(own[2], kafkas[2]):
            for name, client, rounds in _CLIENTS:
                yield from _compare(name, client, rounds, (own, kafkas), count, megabytes)
        yield {
            "what": "memory after all passes", "unit": "MiB", "kwire": memory_mib(server.pid),
            "peer": f"Kafka {KAFKA_VERSION}", "peer_value": memory_mib(cluster.nodes[0].pid),
        }  # fmt: skip


def _compare(
    name: str,
    client: Callable[[str, str, int], float],
    rounds: int,
    servers: Sequence[tuple[str, str, int]],
    count: int,
    megabytes: float,
) -> Iterator[dict[str, Any]]:
    seconds: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    for number in range(_WARM_UP + rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            bootstrap, topic, pid = servers[side]
            before = cpu_seconds(pid)
            took = client(bootstrap, topic, count)
            if number >= _WARM_UP:
                seconds[side].append(took)
                cpu[side].append(cpu_seconds(pid) - before)
    own_rate, kafka_rate = (count / statistics.median(side) for side in seconds)
    ratio = statistics.median(their / own for own, their in zip(*seconds, strict=True))
    peer = f"Kafka {KAFKA_VERSION}"
    yield {
        "what": f"{name}, {count:,} records",
        "unit": "records/s",
        "kwire": own_rate,
        "peer": peer,
        "peer_value": kafka_rate,
        "ratio": ratio,
        "bar": 1.0,
        "notes": (
            f"{own_rate * megabytes / count:.0f} and {kafka_rate * megabytes / count:.0f} MB/s"
        ),
    }
    own_cpu, kafka_cpu = (statistics.mean(side) for side in cpu)
    yield {
        "what": f"{name}, server CPU a pass",
        "unit": "s",
        "kwire": own_cpu,
        "peer": peer,
        "peer_value": kafka_cpu,
        "ratio": kafka_cpu / max(own_cpu, 0.01),
    }


def fill(cluster: Cluster, batches: Sequence[largelog.Batch]) -> None:
    """Write the same batches to an ordinary topic; only offset and epoch differ."""
    cluster.tool(TOPICS, ["--create", "--topic", TOPIC, "--partitions", "1"])
    with WireClient(cluster.bootstrap) as client:
        for _ in range(TIMES):
            for batch in batches:
                data = [PartitionProduceData(index=0, records=bytes(8) + batch.data[8:])]
                request = ProduceRequest(
                    acks=1,
                    timeout_ms=30_000,
                    topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
                )
                response = cast(ProduceResponse, client.call(request, 9))
                if error := response.responses[0].partition_responses[0].error_code:
                    raise AssertionError(f"Kafka refused a batch with error {error}")
