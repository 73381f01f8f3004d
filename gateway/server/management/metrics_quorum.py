"""Lists the metrics of the quorum that this node takes part in or observes.

Names of Kafka's ``KafkaRaftMetrics`` and ``MetadataLoaderMetrics`` come first, then those that
Kafka does not have. A server without a quorum shows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import Metric, Sample, counter, gauge
from gateway.server.quorum.quorum_status import ROLES

if TYPE_CHECKING:
    from gateway.quorum.raft_metrics import Latency, RaftMetrics
    from gateway.server.management.facts import Facts
    from gateway.server.quorum.quorum_status import QuorumStatus

_RAFT: Final = "kafka_server_raft_metrics_"
_LOADER: Final = "kafka_server_metadataloader_"
_EMITTER: Final = "kafka_server_snapshotemitter_"


def _status(value: Callable[[QuorumStatus], float | None]) -> Callable[[Facts], float | None]:
    """The value of the quorum's status; None without a quorum."""

    def read(facts: Facts) -> float | None:
        status = facts.quorum_status()
        return None if status is None else value(status)

    return read


def _quorum_gauge(name: str, help: str, value: Callable[[QuorumStatus], float | None]) -> Metric:
    return gauge(name, help, _status(value))


def _quorum_counter(name: str, help: str, value: Callable[[QuorumStatus], float]) -> Metric:
    return counter(name, help, _status(value))


def _measured(value: Callable[[RaftMetrics], float | None]) -> Callable[[Facts], float | None]:
    """The value of a node that votes; None for an observer."""
    return _status(lambda status: None if status.measures is None else value(status.measures))


def _mean_ms(latency: Latency) -> float | None:
    return 1000 * latency.total_s / latency.count if latency.count else None


def _max_ms(latency: Latency) -> float | None:
    return 1000 * latency.max_s if latency.count else None


def _raft_state(facts: Facts) -> Iterator[Sample]:
    status = facts.quorum_status()
    if status is not None:
        for role in ROLES:
            yield (role,), float(status.role == role)


def _fetch_errors(facts: Facts) -> Iterator[Sample]:
    status = facts.quorum_status()
    if status is not None:
        for kind, number in sorted(status.fetch_errors.items()):
            yield (kind,), number


def _own_snapshot_bytes(facts: Facts) -> float | None:
    made = facts.own_snapshot()
    return None if made is None else made.size


def _own_snapshot_age_ms(facts: Facts) -> float | None:
    made = facts.own_snapshot()
    return None if made is None else 1000 * max(0.0, facts.clock() - made.made_at)


#: Under Kafka's names, in the order in which they are shown.
KRAFT: Final = (
    Metric(
        f"{_RAFT}current_state",
        "gauge",
        "1 for the state this node is in, 0 for the others.",
        _raft_state,
        ("state",),
    ),
    _quorum_gauge(
        f"{_RAFT}current_leader",
        "Id of the quorum's leader; -1: unknown.",
        lambda status: status.leader_id,
    ),
    _quorum_gauge(
        f"{_RAFT}current_vote",
        "Id of the candidate that this node voted for in this epoch; -1: none.",
        lambda status: status.voted_id,
    ),
    _quorum_gauge(f"{_RAFT}current_epoch", "Epoch of the quorum.", lambda status: status.epoch),
    _quorum_gauge(
        f"{_RAFT}high_watermark",
        "High watermark of this node; -1: unknown.",
        lambda status: status.high_watermark,
    ),
    _quorum_gauge(
        f"{_RAFT}log_end_offset",
        "End offset of this node's log.",
        lambda status: status.log_end_offset,
    ),
    _quorum_gauge(
        f"{_RAFT}log_end_epoch",
        "Epoch of the last batch in this node's log.",
        lambda status: status.log_end_epoch,
    ),
    _quorum_gauge(
        f"{_RAFT}number_of_voters",
        "Voters of the quorum, once they are known.",
        lambda status: len(status.voters) or None,
    ),
    gauge(
        f"{_RAFT}election_latency_avg",
        "Mean time from candidate to leader, ms.",
        _measured(lambda raft: _mean_ms(raft.election)),
    ),
    gauge(
        f"{_RAFT}election_latency_max",
        "Longest time from candidate to leader, ms.",
        _measured(lambda raft: _max_ms(raft.election)),
    ),
    gauge(
        f"{_RAFT}commit_latency_avg",
        "Mean time from append to commit, ms.",
        _measured(lambda raft: _mean_ms(raft.commit)),
    ),
    gauge(
        f"{_RAFT}commit_latency_max",
        "Longest time from append to commit, ms.",
        _measured(lambda raft: _max_ms(raft.commit)),
    ),
    counter(
        f"{_RAFT}append_records_total",
        "Records appended as leader.",
        _measured(lambda raft: raft.appended_records),
    ),
    _quorum_gauge(
        f"{_LOADER}currentcontrollerid",
        "Id of the active controller; -1: unknown.",
        lambda status: status.leader_id,
    ),
    _quorum_gauge(
        f"{_LOADER}handleloadsnapshotcount",
        "Snapshots that were loaded since the start.",
        lambda status: status.snapshot_loads,
    ),
    gauge(
        f"{_LOADER}currentmetadataversion",
        "Feature level of metadata.version.",
        lambda facts: facts.metadata_version(),
    ),
    gauge(
        f"{_EMITTER}latestsnapshotgeneratedbytes",
        "Size of the newest snapshot this node made.",
        _own_snapshot_bytes,
    ),
    gauge(
        f"{_EMITTER}latestsnapshotgeneratedagems", "Age of that snapshot, ms.", _own_snapshot_age_ms
    ),
)

#: Under names of this server.
UPSTREAM: Final = (
    gauge(
        "kwire_lag_offsets",
        "Committed records that clients cannot read here yet.",
        lambda facts: facts.lag_offsets(),
    ),
    gauge(
        "kwire_lag_ms",
        "Time since clients could read every committed record here, ms.",
        lambda facts: facts.lag_ms(),
    ),
    gauge(
        "kwire_copy_complete_seconds",
        "Time for which this observer's copy of the log has been complete, s; 0: it is not.",
        lambda facts: facts.complete_s(),
    ),
    gauge(
        "kwire_upstream_silent_seconds",
        "Time since the quorum's leader last answered, s.",
        lambda facts: facts.silent_s(),
    ),
    _quorum_gauge(
        "kwire_upstream_high_watermark",
        "High watermark that the leader last told; -1: unknown.",
        lambda status: status.leader_high_watermark,
    ),
    _quorum_counter(
        "kwire_upstream_fetches_total",
        "Successful responses to Fetch.",
        lambda status: status.fetches,
    ),
    _quorum_counter(
        "kwire_upstream_fetched_records_total",
        "Records that were appended to the log.",
        lambda status: status.fetched_records,
    ),
    _quorum_counter(
        "kwire_upstream_fetched_bytes_total",
        "Bytes of fetched batches and snapshots.",
        lambda status: status.fetched_bytes,
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
        "Downloads of snapshots that were begun.",
        lambda status: status.snapshot_downloads,
    ),
    _quorum_gauge(
        "kwire_snapshot_download_position_bytes",
        "Fetched bytes of the snapshot in download.",
        lambda status: status.snapshot.position if status.snapshot else None,
    ),
    _quorum_gauge(
        "kwire_snapshot_download_size_bytes",
        "Size of the snapshot in download; 0: unknown.",
        lambda status: status.snapshot.size if status.snapshot else None,
    ),
)
