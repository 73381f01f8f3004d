"""Every metric of this server, a line each: name, kind, help, and where its values are. Knows
neither Prometheus nor HTTP.

Names of KRaft's JMX beans are spelt as the JMX exporter writes them, so that dashboards and alerts
made for Kafka's own nodes work for this one; what Kafka has no word for begins with ``kwire_``.
docs/metrics.md has the same table for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.ports import State
from gateway.server.management.facts import ROLES
from gateway.server.management.metric import (
    Metric,
    Sample,
    applied_lag_ms,
    applied_timestamp_ms,
    one,
    percentile_ms,
)
from gateway.server.management.metrics_controller import CONTROLLER
from kwire.protocol import error_name

if TYPE_CHECKING:
    from gateway.quorum.measures import Latency, Measures
    from gateway.server.controller.envelopes import ForwardingMeasures
    from gateway.server.counts import ApiCounts
    from gateway.server.management.facts import Facts, UpstreamFacts


def _gauge(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    return Metric(name, "gauge", help, lambda facts: one(value(facts)))


def _counter(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    return Metric(name, "counter", help, lambda facts: one(value(facts)))


def _quorum_gauge(name: str, help: str, value: Callable[[UpstreamFacts], float | None]) -> Metric:
    """Of the quorum that is followed: there with that source only."""
    return _gauge(
        name, help, lambda facts: None if facts.upstream is None else value(facts.upstream)
    )


def _quorum_counter(name: str, help: str, value: Callable[[UpstreamFacts], float]) -> Metric:
    return _counter(
        name, help, lambda facts: None if facts.upstream is None else value(facts.upstream)
    )


def _event_counter(name: str, help: str, event: str) -> Metric:
    """How often something was reported (``gateway.server.logs.Reports``)."""
    return _counter(name, help, lambda facts: facts.server_context.reports.counts[event])


def _api_counter(name: str, help: str, value: Callable[[ApiCounts], float]) -> Metric:
    def samples(facts: Facts) -> Iterator[Sample]:
        for api in facts.server_context.counts.apis.values():
            yield (api.name,), value(api)

    return Metric(name, "counter", help, samples, ("api",))


def _info(facts: Facts) -> Iterable[Sample]:
    return (((facts.version, str(facts.node_id), facts.partition.cluster_id, facts.source), 1),)


def _partition_state(facts: Facts) -> Iterator[Sample]:
    for state in State:
        yield (state.value,), float(facts.partition.state is state)


def _raft_state(facts: Facts) -> Iterator[Sample]:
    if facts.upstream is not None:
        for role in ROLES:
            yield (role,), float(facts.upstream.role == role)


def _measured(value: Callable[[Measures], float | None]) -> Callable[[Facts], float | None]:
    """Of a node of our own quorum; nothing of others."""

    def look(facts: Facts) -> float | None:
        measures = facts.upstream.measures if facts.upstream is not None else None
        return None if measures is None else value(measures)

    return look


def _forwarding(
    value: Callable[[ForwardingMeasures], float | None],
) -> Callable[[Facts], float | None]:
    """Of a node of our own quorum, which forwards what the active controller is to do; nothing of
    others.
    """
    return lambda facts: None if facts.forwarding is None else value(facts.forwarding)


def _mean_ms(latency: Latency) -> float | None:
    return 1000 * latency.total_s / latency.count if latency.count else None


def _max_ms(latency: Latency) -> float | None:
    return 1000 * latency.max_s if latency.count else None


def _fetch_errors(facts: Facts) -> Iterator[Sample]:
    if facts.upstream is not None:
        for kind, number in sorted(facts.upstream.fetch_errors.items()):
            yield (kind,), number


def _request_errors(facts: Facts) -> Iterator[Sample]:
    for api in facts.server_context.counts.apis.values():
        for code, number in sorted(api.errors.items()):
            yield (api.name, error_name(code)), number


def _connections(facts: Facts) -> Iterator[Sample]:
    for listener in facts.listeners:
        yield (listener,), facts.server_context.counts.connections[listener]


def _cuts(facts: Facts) -> Iterator[Sample]:
    for reason, number in sorted(facts.server_context.counts.cuts.items()):
        yield (reason,), number


def _groups(facts: Facts) -> Iterator[Sample]:
    for state, number in sorted(facts.groups().items()):
        yield (state,), number


def _group_bytes(facts: Facts) -> Iterator[Sample]:
    usage = facts.group_usage()
    yield ("members",), usage.member_bytes
    yield ("offsets",), usage.offset_bytes


def _group_bytes_of_largest(facts: Facts) -> Iterator[Sample]:
    shares = facts.group_usage().by_owner.values()
    yield ("members",), max((held.member_bytes for held in shares), default=0)
    yield ("offsets",), max((held.offset_bytes for held in shares), default=0)


def _group_refusals(facts: Facts) -> Iterator[Sample]:
    for limit, number in sorted(facts.group_refusals().items()):
        yield (limit,), number


def _own_snapshot_bytes(facts: Facts) -> float | None:
    made = facts.own_snapshot()
    return None if made is None else made.size


def _own_snapshot_age_ms(facts: Facts) -> float | None:
    made = facts.own_snapshot()
    return None if made is None else 1000 * max(0.0, facts.clock() - made.made_at)


_RAFT: Final = "kafka_server_raft_metrics_"
_LOADER: Final = "kafka_server_metadataloader_"
_FORWARDING: Final = "kafka_server_forwardingmanager_"
_EMITTER: Final = "kafka_server_snapshotemitter_"
_APPLIED: Final = "kafka_server_broker_metadata_metrics_last_applied_record_"

#: In the order in which they are shown. Those that need more than a look (times, a rate) are in
#: ``gateway.server.management.metrics``.
TABLE: Final = (
    Metric(
        "kwire_info",
        "gauge",
        "Always 1; says who this is.",
        _info,
        labels=("version", "node_id", "cluster_id", "source"),
    ),
    # The quorum that is followed, under Kafka's names.
    Metric(
        f"{_RAFT}current_state",
        "gauge",
        "1 for the state this node is in, 0 for the others.",
        _raft_state,
        ("state",),
    ),
    _quorum_gauge(
        f"{_RAFT}current_leader", "Id of the quorum's leader; -1: unknown.", lambda up: up.leader_id
    ),
    _quorum_gauge(
        f"{_RAFT}current_vote",
        "Whom this node voted for in this epoch; -1: nobody.",
        lambda up: up.voted_id,
    ),
    _quorum_gauge(f"{_RAFT}current_epoch", "Epoch of the quorum.", lambda up: up.epoch),
    _quorum_gauge(
        f"{_RAFT}high_watermark",
        "High watermark of this node; -1: unknown.",
        lambda up: up.high_watermark,
    ),
    _quorum_gauge(
        f"{_RAFT}log_end_offset", "End offset of this node's log.", lambda up: up.log_end_offset
    ),
    _quorum_gauge(
        f"{_RAFT}log_end_epoch",
        "Epoch of the last batch in this node's log.",
        lambda up: up.log_end_epoch,
    ),
    _quorum_gauge(
        f"{_RAFT}number_of_voters",
        "Voters of the quorum, once they are known.",
        lambda up: len(up.voters) or None,
    ),
    _gauge(
        f"{_RAFT}election_latency_avg",
        "Mean time from candidate to leader, ms.",
        _measured(lambda raft: _mean_ms(raft.election)),
    ),
    _gauge(
        f"{_RAFT}election_latency_max",
        "The longest of them, ms.",
        _measured(lambda raft: _max_ms(raft.election)),
    ),
    _gauge(
        f"{_RAFT}commit_latency_avg",
        "Mean time from append to commit, ms.",
        _measured(lambda raft: _mean_ms(raft.commit)),
    ),
    _gauge(
        f"{_RAFT}commit_latency_max",
        "The longest of them, ms.",
        _measured(lambda raft: _max_ms(raft.commit)),
    ),
    _counter(
        f"{_RAFT}append_records_total",
        "Records appended as leader.",
        _measured(lambda raft: raft.appended_records),
    ),
    _quorum_gauge(
        f"{_LOADER}currentcontrollerid",
        "Id of the active controller; -1: unknown.",
        lambda up: up.leader_id,
    ),
    _quorum_gauge(
        f"{_LOADER}handleloadsnapshotcount",
        "Snapshots that were loaded since the start.",
        lambda up: up.snapshot_loads,
    ),
    _gauge(
        f"{_LOADER}currentmetadataversion",
        "Feature level of metadata.version.",
        lambda facts: facts.metadata_version(),
    ),
    _gauge(
        f"{_EMITTER}latestsnapshotgeneratedbytes",
        "Size of the newest snapshot this node made.",
        _own_snapshot_bytes,
    ),
    _gauge(
        f"{_EMITTER}latestsnapshotgeneratedagems", "Age of that snapshot, ms.", _own_snapshot_age_ms
    ),
    _gauge(
        f"{_APPLIED}offset",
        "Offset of the last record that clients can see.",
        lambda facts: facts.partition.high_watermark - 1,
    ),
    _gauge(
        f"{_APPLIED}timestamp",
        "Largest timestamp of a record that clients can see, ms.",
        applied_timestamp_ms,
    ),
    _gauge(f"{_APPLIED}lag_ms", "How long ago that was, ms.", applied_lag_ms),
    *CONTROLLER,
    # Clients' requests that the active controller elsewhere carries out, under Kafka's names and
    # those of KIP-590.
    _gauge(
        f"{_FORWARDING}queuelength",
        "Requests that were not answered yet.",
        _forwarding(lambda one: one.queue_length),
    ),
    _gauge(
        f"{_FORWARDING}queuetimems_p99",
        "99 % left for it within so many ms.",
        _forwarding(lambda measures: percentile_ms(measures.queue, 0.99)),
    ),
    _gauge(
        f"{_FORWARDING}queuetimems_p999",
        "99.9 % did.",
        _forwarding(lambda measures: percentile_ms(measures.queue, 0.999)),
    ),
    _gauge(
        f"{_FORWARDING}remotetimems_p99",
        "99 % were then answered within so many ms.",
        _forwarding(lambda measures: percentile_ms(measures.remote, 0.99)),
    ),
    _gauge(
        f"{_FORWARDING}remotetimems_p999",
        "99.9 % were.",
        _forwarding(lambda measures: percentile_ms(measures.remote, 0.999)),
    ),
    _gauge(
        "kwire_num_client_forwarding_to_controller",
        "Client ids that wait for an answer.",
        _forwarding(lambda one: len(one.waiting)),
    ),
    _counter(
        "kwire_num_messages_redirected_total",
        "Requests that left in an Envelope.",
        _forwarding(lambda one: one.forwarded),
    ),
    _counter(
        "kwire_request_forwarding_to_controller_authorization_fail_total",
        "Of these, refused because this node may not forward.",
        _forwarding(lambda one: one.unauthorized),
    ),
    # The quorum that is followed, under names of our own.
    _gauge(
        "kwire_lag_offsets",
        "Committed records that clients cannot see here yet.",
        lambda facts: facts.lag_offsets(),
    ),
    _gauge(
        "kwire_lag_ms",
        "How long ago clients could see here all that was committed, ms.",
        lambda facts: facts.lag_ms(),
    ),
    _gauge(
        "kwire_upstream_silent_seconds",
        "How long ago the quorum's leader answered.",
        lambda facts: facts.silent_s(),
    ),
    _quorum_gauge(
        "kwire_upstream_high_watermark",
        "High watermark as the leader last told; -1: unknown.",
        lambda up: up.leader_high_watermark,
    ),
    _quorum_counter(
        "kwire_upstream_fetches_total", "Answers to Fetch that were taken.", lambda up: up.fetches
    ),
    _quorum_counter(
        "kwire_upstream_fetched_records_total",
        "Records that were appended to the log.",
        lambda up: up.fetched_records,
    ),
    _quorum_counter(
        "kwire_upstream_fetched_bytes_total",
        "Bytes of batches and snapshots that came.",
        lambda up: up.fetched_bytes,
    ),
    Metric(
        "kwire_upstream_fetch_errors_total",
        "counter",
        "Requests to the quorum that failed.",
        _fetch_errors,
        ("kind",),
    ),
    _quorum_counter(
        "kwire_snapshot_downloads_total",
        "Snapshots that were begun to be fetched.",
        lambda up: up.snapshot_downloads,
    ),
    _quorum_gauge(
        "kwire_snapshot_download_position_bytes",
        "Bytes that are here of the snapshot that is being fetched.",
        lambda up: up.snapshot.position if up.snapshot else None,
    ),
    _quorum_gauge(
        "kwire_snapshot_download_size_bytes",
        "Size of the snapshot that is being fetched; 0: unknown.",
        lambda up: up.snapshot.size if up.snapshot else None,
    ),
    # What is served.
    _gauge(
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
    _gauge(
        "kwire_partition_log_start_offset",
        "First offset that is served.",
        lambda facts: facts.partition.log_start_offset,
    ),
    _gauge(
        "kwire_partition_high_watermark",
        "One past the last offset that is served.",
        lambda facts: facts.partition.high_watermark,
    ),
    _gauge(
        "kwire_partition_leader_epoch",
        "Leader epoch that clients are told.",
        lambda facts: facts.partition.leader_epoch,
    ),
    _gauge(
        "kwire_partition_size_bytes",
        "Size of the log on disk.",
        lambda facts: facts.partition.size_bytes,
    ),
    _gauge(
        "kwire_problems",
        "What is wrong with the source now: /status has the sentences.",
        lambda facts: len(facts.problems()),
    ),
    Metric("kwire_groups", "gauge", "Consumer groups.", _groups, ("state",)),
    _gauge(
        "kwire_group_members",
        "Members of groups, and ids given to clients that join.",
        lambda facts: facts.group_usage().members,
    ),
    Metric(
        "kwire_group_memory_bytes",
        "gauge",
        "What groups take in memory, about.",
        _group_bytes,
        ("kind",),
    ),
    Metric(
        "kwire_group_memory_largest_principal_bytes",
        "gauge",
        "The same of the principal, or address, that takes most.",
        _group_bytes_of_largest,
        ("kind",),
    ),
    Metric(
        "kwire_group_refusals_total",
        "counter",
        "Requests of groups that a limit refused, by its key.",
        _group_refusals,
        ("limit",),
    ),
    # Clients.
    Metric(
        "kwire_connections", "gauge", "Open connections of clients.", _connections, ("listener",)
    ),
    _event_counter(
        "kwire_connections_accepted_total", "Connections that were accepted.", "connection accepted"
    ),
    _event_counter(
        "kwire_connections_refused_total",
        "Connections closed at once: there were too many.",
        "connection refused",
    ),
    _event_counter(
        "kwire_failed_authentications_total",
        "Connections that failed to authenticate.",
        "authentication failed",
    ),
    _event_counter(
        "kwire_failed_handshakes_total",
        "Connections whose TLS handshake failed.",
        "handshake failed",
    ),
    Metric(
        "kwire_connections_cut_total",
        "counter",
        "Connections that this server ended, by the key of the limit.",
        _cuts,
        ("reason",),
    ),
    _counter(
        "kwire_received_bytes_total",
        "Bytes from clients.",
        lambda facts: facts.server_context.counts.received,
    ),
    _counter(
        "kwire_sent_bytes_total",
        "Bytes to clients.",
        lambda facts: facts.server_context.counts.sent,
    ),
    _gauge(
        "kwire_buffered_bytes",
        "Unfinished requests and unsent answers of clients.",
        lambda facts: facts.server_context.memory.held,
    ),
    _gauge(
        "kwire_parked_requests",
        "Requests whose answer waits for something.",
        lambda facts: facts.server_context.purgatory.parked,
    ),
    _gauge(
        "kwire_parked_fetches",
        "Fetches among them: they wait for records.",
        lambda facts: facts.server_context.purgatory.waiting,
    ),
    _api_counter(
        "kwire_request_waits_total",
        "Answers that had to wait for something.",
        lambda api: api.waits,
    ),
    _api_counter(
        "kwire_request_wait_seconds_total",
        "How long they waited in all.",
        lambda api: api.wait_seconds,
    ),
    Metric(
        "kwire_request_errors_total",
        "counter",
        "Errors that answers told.",
        _request_errors,
        ("api", "error"),
    ),
    _event_counter(
        "kwire_bad_requests_total", "Requests that did not follow the protocol.", "bad request"
    ),
    _event_counter(
        "kwire_refused_requests_total",
        "Requests of an API or version that is not served.",
        "unsupported request",
    ),
    # Who changed what.
    _event_counter(
        "kwire_metadata_changes_total",
        "Changes that clients asked for and this node made.",
        "metadata changed",
    ),
    _event_counter(
        "kwire_audit_failures_total",
        "Of these, missing in the audit topic: they could not be written.",
        "change not recorded",
    ),
    _counter(
        "kwire_event_loop_held_total",
        "Steps that held the event loop for 50 ms of processor time or longer.",
        lambda facts: facts.server_context.watchdog.measures.held,
    ),
    _counter(
        "kwire_event_loop_held_seconds_total",
        "Processor time of these steps, s.",
        lambda facts: facts.server_context.watchdog.measures.held_s,
    ),
    _gauge(
        "kwire_event_loop_held_max_seconds",
        "Processor time of the longest of these steps, s.",
        lambda facts: facts.server_context.watchdog.measures.longest_s,
    ),
    _event_counter(
        "kwire_internal_errors_total",
        "Bugs of this server, each the end of a connection.",
        "internal error",
    ),
)
