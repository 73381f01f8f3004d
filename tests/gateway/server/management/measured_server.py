"""Makes facts of a server of which every metric has a value, and reads rendered metrics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.samples import QuotaSettings
from gateway.broker.transactions.transaction import TransactionState
from gateway.broker.transactions.transaction_log import TransactionCounts
from gateway.controller.controller import Controller
from gateway.groups import Usage
from gateway.handlers.fetch_sessions import FetchSessionCache
from gateway.quorum.raft_metrics import Latency, RaftMetrics
from gateway.server.broker.broker_node import BrokerNode
from gateway.server.broker.replica_manager import ReplicaManager
from gateway.server.controller.controller_metrics import ControllerFacts
from gateway.server.controller.envelopes import ForwardingMetrics
from gateway.server.management.cluster_facts import ClusterFacts
from gateway.server.management.facts import Facts
from gateway.server.management.metrics import Metrics
from gateway.server.quorum.log_cleaner import OwnSnapshot
from gateway.server.quorum.quorum_status import SnapshotProgress
from gateway.server.scheduling.counts import ViewCounts
from gateway.server.workers.worker_processes import WorkerProcess, WorkerProcesses
from gateway.sources.append_counts import AppendCounts
from gateway.sources.cluster_counts import ClusterCounter
from gateway.sources.metadata_loader import MetadataLoader
from kwire.cluster import Image
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.server.watched import NOW, empty_context, facts, quorum_status

RAFT = "kafka_server_raft_metrics_"
CONTROLLER = "kafka_controller_kafkacontroller_"
#: The prefix of metrics of prometheus_client's own collector, which exist on Linux only.
PROCESS = "process_"


def group_usage() -> Usage:
    """Memory of the groups of two principals."""
    usage = Usage()
    usage.count("User:alice", groups=1, members=3, member_bytes=500, offset_bytes=50)
    usage.count("User:bob", groups=1, members=1, member_bytes=200)
    return usage


def used_quotas() -> ClientQuotas:
    """Quotas of one client that has exceeded each of them, and of one that it has not."""
    quotas = ClientQuotas(QuotaSettings(), QuotaSettings(), lambda: NOW)
    for manager in (quotas.produce, quotas.fetch, quotas.request, quotas.mutations):
        manager.limits.set((("user", "ann"),), 1000)
        manager.limits.set((("client-id", "app"),), 1000)
        manager.record("ann", "app", 20_000, quotas.now_ms())
        manager.is_throttled("ann", "app", 10_000, quotas.now_ms())
        manager.record("bob", "app", 5000, quotas.now_ms())
    return quotas


def everything() -> Facts:
    """Facts of a server of which every metric has a value."""
    server_context = empty_context()
    fetch = server_context.counts.apis[1]
    fetch.run_sliced(0.0002)
    fetch.run_sliced(7)
    fetch.waited(0.5)
    fetch.errors.update({1: 3, 999: 1})
    server_context.counts.cuts["buffers.max.bytes"] = 2
    server_context.counts.connections["PLAINTEXT"] = 4
    server_context.counts.received, server_context.counts.sent, server_context.memory.held = (
        100,
        2000,
        30,
    )
    server_context.counts.views = ViewCounts(hits=11, misses=12, entries=13, size=14)
    server_context.reports.counts.update(
        {"connection accepted": 9, "connection refused": 1, "bad request": 2, "internal error": 1}
    )
    server_context.reports.counts.update(
        {
            "log not written": 3,
            "snapshot not written": 4,
            "offset store write failed": 5,
            "view not made": 6,
        }
    )
    coming = SnapshotProgress("00000000000000000042-0000000007.checkpoint", 10, 40)
    measures = RaftMetrics(
        election=Latency(2, 0.5, 0.4), commit=Latency(4, 0.01, 0.004), appended_records=12
    )
    quorum = quorum_status(
        fetch_errors=Counter({"timeout": 2, "closed": 1}), snapshot=coming, measures=measures
    )
    forwarding = ForwardingMetrics(forwarded=8, unauthorized=1)
    for ms in range(1, 101):
        forwarding.queue.add(ms / 1000)
        forwarding.remote.add(ms / 100)
    for client_id in ("admin", "admin", None):
        forwarding.begins(client_id)
    return facts(
        quorum=quorum,
        forwarding=forwarding,
        broker=broker(),
        replicas=replicas(),
        quotas=used_quotas(),
        fetch_sessions=fetch_sessions(),
        cluster=cluster(),
        controlling=controlling(),
        server_context=server_context,
        groups=lambda: {"Stable": 2, "Empty": 1},
        group_usage=group_usage,
        group_refusals=lambda: {"groups.max": 3},
        own_snapshot=lambda: OwnSnapshot(777, NOW - 30),
        kept_answer_bytes=lambda: 15,
        metadata_version=lambda: 30,
        problems=lambda: ["torn tail"],
        worker_processes=cast(WorkerProcesses, SimpleNamespace(all=[WorkerProcess(1, 4711)])),
    )


def replicas(*, partitions: int = 1, topics: int = 1) -> ReplicaManager:
    """A broker's partitions of the topic orders, with 5 of 8 records, and counts of its topics."""
    counts = AppendCounts()
    counts.add(7, 700)
    counts.produces = 3
    counts.refused(ErrorCode.INVALID_RECORD)
    counts.fetched(300, of_follower=False)
    counts.fetched(200, of_follower=True)
    logs = [
        SimpleNamespace(
            directory=Path(f"/data/orders-{index}"),
            index=index,
            log_start_offset=3,
            end_offset=8,
            size_bytes=500,
        )
        for index in range(partitions)
    ]
    by_topic = {"orders": counts, **{f"t{number}": counts for number in range(1, topics)}}
    return cast(
        ReplicaManager,
        SimpleNamespace(
            appended=counts,
            appended_by_topic=by_topic,
            partitions=logs,
            offline=logs[:1],
            offline_count=1,
            directories=lambda: {"/a": True, "/b": False},
        ),
    )


def broker() -> BrokerNode:
    """A broker whose tasks have done something; its cleaner looked for work 3 s ago."""
    counts = TransactionCounts({TransactionState.ONGOING: 2, TransactionState.PREPARE_ABORT: 1}, 4)
    return cast(
        BrokerNode,
        SimpleNamespace(
            isrs=SimpleNamespace(shrinks=3, expands=2, failures=1),
            audit_forwarder=SimpleNamespace(waiting=12),
            cleaner=SimpleNamespace(looked_at=NOW - 3, max_dirty_ratio=0.756, uncleanable_count=1),
            replicas=SimpleNamespace(fetchers=SimpleNamespace(max_lag=9)),
            transactions=SimpleNamespace(counts=counts),
        ),
    )


def fetch_sessions() -> FetchSessionCache:
    """A session with two partitions, for which another had to go."""
    sessions = FetchSessionCache(1, lambda below: 0)
    session = sessions.create(2, by_id=False, now=0)
    assert session is not None
    for index in range(2):
        sessions.asked(session, "orders", METADATA_TOPIC_ID, index)
    sessions.evictions += 1
    return sessions


def cluster() -> ClusterFacts:
    """Facts of a cluster with two partitions, of which one has no leader."""
    image = Image()
    image.partitions = {
        METADATA_TOPIC_ID: {
            0: PartitionRecord(leader=-1, replicas=[1]),
            1: PartitionRecord(
                partition_id=1, leader=6, replicas=[6, 5, 4], isr=[6], adding_replicas=[4]
            ),
        }
    }
    image.topics = {METADATA_TOPIC_ID: "orders"}
    for broker_id, state in ((4, {"fenced": True}), (5, {"in_controlled_shutdown": True}), (6, {})):
        image.brokers[broker_id] = RegisterBrokerRecord(
            broker_id=broker_id,
            **{"fenced": False, **state},  # type: ignore[arg-type]
        )
    counter = ClusterCounter()
    counter.load(image)
    loader = SimpleNamespace(
        image=image,
        subscribe=lambda on_update, prepare: None,
        skipped={"damaged": 2},
        lacks=None,
        next_offset=500,
        high_watermark=501,
    )
    facts = ClusterFacts(cast(MetadataLoader, loader))
    counts = counter.counts()._replace(unclean_elections=3, eligible_elections=4)
    facts.counter.published = counts
    return facts


def controlling() -> ControllerFacts:
    """Facts of an active controller."""
    told = ControllerFacts(lambda: cast(Controller, SimpleNamespace()))
    told.measures.started = 1
    told.measures.processing.add(0.004)
    told.measures.too_late([BrokerHeartbeatRequest()])
    told.measures.leader_is(7, 2)
    return told


def values(told: Facts, metrics: Metrics | None = None) -> dict[str, float]:
    """Every value that Prometheus would store, by its name and labels."""
    _, text = (metrics or Metrics(told)).render()
    return {
        sample.name
        + "".join(
            f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())
        ): sample.value
        for family in parse_text(text.decode())
        for sample in family.samples
    }
