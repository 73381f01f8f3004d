"""Measures an observer of a real quorum: from the controller's commit to a stock consumer of the
gateway, and the cost.

The commit time is when the leader first returns a high watermark beyond the record to an observer
that asks it directly; a consumer of the gateway cannot have the record before. Both wait in a long
poll of their own, on the same clock.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.messages.fetch_response import FetchResponse
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.records import iter_batches
from kwire.uuid import METADATA_TOPIC_ID
from tools.bench import passes
from tools.gateway_process import gateway
from tools.kafka import FULL_SPEED, Cluster, kafka
from tools.process import cpu_seconds
from tools.wire_client import WireClient

_CHANGES = 200
_PACE_S = 0.05
_IDLE_S = 20.0
_IDLE_PERCENT_MAX = 2.0
_FETCH = 17


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    if missing := passes.available():
        return [{"what": "observer", "ok": False, "notes": f"not measured: {'; '.join(missing)}"}]
    with (
        kafka(brokers=1, controllers=3, options=FULL_SPEED) as cluster,
        tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch,
    ):
        return [*_rows(cluster, Path(scratch))]


def _rows(cluster: Cluster, scratch: Path) -> Iterator[dict[str, Any]]:
    leader = cluster.wait_for_leader().controller_address
    for fsync in ("true", "false"):
        arguments = [
            "--bootstrap-controller",
            cluster.controllers,
            "--data-dir",
            str(scratch / f"fsync-{fsync}"),
        ]
        if fsync == "false":
            arguments.append("--no-metadata-log-fsync")
        with gateway(*arguments) as server:
            if fsync == "true":
                yield from _idle(server.pid)
            yield from _latency(cluster, leader, server.bootstrap, f"metadata.log.fsync={fsync}")


def _idle(pid: int) -> Iterator[dict[str, Any]]:
    before = cpu_seconds(pid)
    time.sleep(_IDLE_S)
    percent = 100 * (cpu_seconds(pid) - before) / _IDLE_S
    yield {
        "what": "CPU while the cluster is idle (two records a second)",
        "unit": "%",
        "kwire": percent,
        "ok": percent < _IDLE_PERCENT_MAX,
        "notes": f"below {_IDLE_PERCENT_MAX} %",
    }


def _latency(cluster: Cluster, leader: str, bootstrap: str, how: str) -> Iterator[dict[str, Any]]:
    """Watch both sides while configs of a topic change."""
    committed, seen, timestamps = _watch(cluster, leader, bootstrap)
    both = sorted(set(committed) & set(seen))
    if len(both) < _CHANGES:
        raise AssertionError(f"only {len(both)} records were seen on both sides")
    for what, values in (
        ("commit to consumer", [1000 * (seen[offset] - committed[offset]) for offset in both]),
        (
            "leader's append to consumer",
            [1000 * (seen[offset]) - timestamps[offset] for offset in both],
        ),
    ):
        cuts = statistics.quantiles(values, n=100)
        yield {
            "what": f"{what}, {how}", "unit": "ms (p50)", "kwire": statistics.median(values),
            "notes": f"p99 {cuts[98]:.1f} ms, largest {max(values):.1f} ms, {len(both)} records",
        }  # fmt: skip


def _watch(
    cluster: Cluster, leader: str, bootstrap: str
) -> tuple[dict[int, float], dict[int, float], dict[int, int]]:
    """Return for each offset when the leader reported it and when the consumer received it (seconds
    since the epoch), and when it was appended (ms).
    """
    committed: dict[int, float] = {}
    seen: dict[int, float] = {}
    timestamps: dict[int, int] = {}
    stop, ready = threading.Event(), threading.Barrier(3)
    threads = [
        threading.Thread(target=watch_leader, args=(leader, committed, stop, ready)),
        threading.Thread(target=watch_gateway, args=(bootstrap, seen, timestamps, stop, ready)),
    ]
    for thread in threads:
        thread.start()
    ready.wait(30)
    try:
        _change(cluster)
        time.sleep(1)
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    return committed, seen, timestamps


def _change(cluster: Cluster) -> None:
    """Make one small change of metadata after the other, at a steady pace."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    broker = next(node.node_id for node in cluster.nodes if node.is_broker())
    for number in range(_CHANGES):
        began = time.monotonic()
        entry = ConfigEntry(
            "log.cleaner.backoff.ms",
            str(10_000 + number),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(10)
        time.sleep(max(0.0, _PACE_S - (time.monotonic() - began)))


def watch_leader(
    leader: str, committed: dict[int, float], stop: threading.Event, ready: threading.Barrier
) -> None:
    """Note when the leader first reported each offset as committed, in seconds since the epoch,
    until ``stop``. It waits at ``ready`` when it has begun.
    """
    with WireClient(leader) as client:
        epoch, offset, last_epoch = _end_of_log(client)
        told, started = offset, False
        while not stop.is_set():
            partition = _raft_fetch(client, epoch, offset, last_epoch)
            now = time.time()
            for at in range(told, max(told, partition.high_watermark)):
                committed[at] = now
            told = max(told, partition.high_watermark)
            for batch in iter_batches(partition.records or b""):
                offset, last_epoch = batch.next_offset, batch.partition_leader_epoch
            if not started:
                started = True
                ready.wait(30)


def _end_of_log(client: WireClient) -> tuple[int, int, int]:
    """Return (epoch, high watermark, epoch of the record before it) on the leader, which names its
    own epoch when asked with a wrong one.
    """
    epoch = _raft_fetch(client, 0, 0, 0).current_leader.leader_epoch
    offset, last_epoch = 1, epoch
    while True:
        partition = _raft_fetch(client, epoch, offset, last_epoch)
        if partition.diverging_epoch.epoch >= 0:
            raise AssertionError(f"the leader's log has no epoch {last_epoch} at {offset}")
        batches = list(iter_batches(partition.records or b""))
        for batch in batches:
            offset, last_epoch = batch.next_offset, batch.partition_leader_epoch
        if offset >= partition.high_watermark:
            return epoch, offset, last_epoch


def _raft_fetch(client: WireClient, epoch: int, offset: int, last_epoch: int) -> Any:
    request = raft_fetch(epoch, offset, last_epoch)
    return cast(FetchResponse, client.call(request, _FETCH)).responses[0].partitions[0]


def raft_fetch(epoch: int, offset: int, last_epoch: int) -> FetchRequest:
    """Return the Fetch of an observer without an id, which waits for 500 ms."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=-1),
        max_wait_ms=500,
        max_bytes=8 << 20,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def watch_gateway(
    bootstrap: str,
    seen: dict[int, float],
    timestamps: dict[int, int],
    stop: threading.Event,
    ready: threading.Barrier,
) -> None:
    """Note when a consumer of the gateway received each offset, in seconds since the epoch, and
    the record's timestamp in ms, until ``stop``. It waits at ``ready`` when it has begun.
    """
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(CLUSTER_METADATA_TOPIC, 0, OFFSET_END)])
    started = False
    try:
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            offset = cast(int, message.offset())
            seen[offset] = time.time()
            timestamps[offset] = message.timestamp()[1]
            if not started:
                started = True
                ready.wait(30)
    finally:
        consumer.close()
