"""Lists every metric of this server: name, kind, help, and the function that reads its values.

It knows neither Prometheus nor HTTP. Names of KRaft's JMX beans are spelt as the JMX exporter
writes them, so that dashboards and alerts made for Kafka work; a metric that Kafka does not have
begins with ``kwire_``. docs/metrics.md describes every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.ports.services import State
from gateway.server.management.metric import (
    Metric,
    Sample,
    applied_lag_ms,
    applied_timestamp_ms,
    counter,
    event_counter,
    gauge,
)
from gateway.server.management.metrics_broker import BROKER
from gateway.server.management.metrics_broker_tasks import BROKER_TASKS
from gateway.server.management.metrics_clients import CLIENTS
from gateway.server.management.metrics_cluster import CLUSTER
from gateway.server.management.metrics_controller import CONTROLLER, FORWARDING
from gateway.server.management.metrics_quorum import KRAFT, UPSTREAM
from gateway.server.management.metrics_quotas import QUOTAS
from gateway.server.management.metrics_workers import WORKERS

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts

_APPLIED: Final = "kafka_server_broker_metadata_metrics_last_applied_record_"


def _info(facts: Facts) -> Iterable[Sample]:
    return (((facts.version, str(facts.node_id), facts.partition.cluster_id, facts.source), 1),)


def _partition_state(facts: Facts) -> Iterator[Sample]:
    for state in State:
        yield (state.value,), float(facts.partition.state is state)


_IDENTITY: Final = (
    Metric(
        "kwire_info",
        "gauge",
        "Always 1; its labels identify the server.",
        _info,
        labels=("version", "node_id", "cluster_id", "source"),
    ),
)

_APPLIED_RECORDS: Final = (
    gauge(
        f"{_APPLIED}offset",
        "Offset of the last record that clients can read.",
        lambda facts: facts.partition.high_watermark - 1,
    ),
    gauge(
        f"{_APPLIED}timestamp",
        "Largest timestamp of a record that clients can read, ms.",
        applied_timestamp_ms,
    ),
    gauge(f"{_APPLIED}lag_ms", "Age of that timestamp, ms.", applied_lag_ms),
)

_PARTITION: Final = (
    gauge(
        "kwire_ready",
        "1 if /readyz says that this server is ready.",
        lambda facts: float(facts.readiness().ready),
    ),
    Metric(
        "kwire_partition_state",
        "gauge",
        "1 for the state the partition is in.",
        _partition_state,
        ("state",),
    ),
    gauge(
        "kwire_partition_log_start_offset",
        "First offset that is served.",
        lambda facts: facts.partition.log_start_offset,
    ),
    gauge(
        "kwire_partition_high_watermark",
        "One past the last offset that is served.",
        lambda facts: facts.partition.high_watermark,
    ),
    gauge(
        "kwire_partition_leader_epoch",
        "Leader epoch in responses to clients.",
        lambda facts: facts.partition.leader_epoch,
    ),
    gauge(
        "kwire_partition_size_bytes",
        "Size of the log on disk.",
        lambda facts: facts.partition.size_bytes,
    ),
    gauge(
        "kwire_image_incomplete",
        "1 if the metadata image lacks a part of the log: this node does not lead then, and"
        " /readyz says why.",
        lambda facts: float(facts.cluster.image_lacks is not None),
    ),
    gauge(
        "kwire_problems",
        "Current problems of the source; /status lists them.",
        lambda facts: len(facts.problems()),
    ),
)

_SERVER: Final = (
    event_counter(
        "kwire_metadata_changes_total",
        "Changes that clients requested and this node made.",
        "metadata changed",
    ),
    event_counter(
        "kwire_audit_failures_total",
        "Changes without an entry in the audit topic, because it could not be written.",
        "change not recorded",
    ),
    event_counter(
        "kwire_log_write_failures_total",
        "Writes to the log that failed.",
        "log not written",
    ),
    event_counter(
        "kwire_snapshot_failures_total",
        "Snapshots that could not be written.",
        "snapshot not written",
    ),
    event_counter(
        "kwire_offset_write_failures_total",
        "Commits of groups that could not be written to the disk.",
        "offset store write failed",
    ),
    event_counter(
        "kwire_view_failures_total",
        "Bugs of the server that interrupted the view topics.",
        "view not made",
    ),
    counter(
        "kwire_view_cache_hits_total",
        "Reads of view topics whose batches were kept.",
        lambda facts: facts.counted.counts.views.hits,
    ),
    counter(
        "kwire_view_cache_misses_total",
        "Reads of view topics whose batches had to be made first.",
        lambda facts: facts.counted.counts.views.misses,
    ),
    gauge(
        "kwire_view_cache_entries",
        "Ranges of offsets of the view topics whose batches are kept.",
        lambda facts: facts.counted.counts.views.entries,
    ),
    gauge(
        "kwire_view_cache_bytes",
        "Approximate memory of these batches.",
        lambda facts: facts.counted.counts.views.size,
    ),
    gauge(
        "kwire_kept_answer_bytes",
        "Topics that this process keeps encoded for Metadata, bytes.",
        lambda facts: facts.kept_answer_bytes(),
    ),
    counter(
        "kwire_event_loop_held_total",
        "Steps that held the event loop for 50 ms of processor time or longer.",
        lambda facts: facts.counted.held.held,
    ),
    counter(
        "kwire_event_loop_held_seconds_total",
        "Processor time of these steps, s.",
        lambda facts: facts.counted.held.held_s,
    ),
    gauge(
        "kwire_event_loop_held_max_seconds",
        "Processor time of the longest of these steps, s.",
        lambda facts: facts.counted.held.longest_s,
    ),
    event_counter(
        "kwire_internal_errors_total",
        "Bugs of the server that closed a connection.",
        "internal error",
    ),
)

#: In the order in which they are shown. Histograms and rates are in ``metrics``.
TABLE: Final = (
    *_IDENTITY,
    *KRAFT,
    *_APPLIED_RECORDS,
    *CLUSTER,
    *BROKER,
    *BROKER_TASKS,
    *CONTROLLER,
    *FORWARDING,
    *UPSTREAM,
    *_PARTITION,
    *CLIENTS,
    *QUOTAS,
    *_SERVER,
    *WORKERS,
)
