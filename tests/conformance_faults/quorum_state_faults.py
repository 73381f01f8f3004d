"""The seeded faults of DescribeQuorum and FetchSnapshot, each with the rule that finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.messages.describe_quorum_response import ReplicaState
from kwire.messages.fetch_response import SnapshotId
from kwire.protocol import ApiKey, ErrorCode
from tests.conformance_faults.changes import (
    Change,
    Row,
    each,
    error_becomes,
    faults_of,
    names_a_cluster,
    partitions,
    when,
)
from tests.conformance_faults.proxy import Changed


def _more_voters(answer: Any, request: Any) -> None:
    for one in partitions(answer):
        one.observers = [*one.observers, *one.current_voters]


def _replicas(**values: Any) -> Change:
    def change(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            for replica in (*one.current_voters, *one.observers):
                for name, value in values.items():
                    setattr(replica, name, value(getattr(replica, name)))

    return change


def _observers(change: Callable[[list[Any]], list[Any]]) -> Change:
    def changed(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            one.observers = change(list(one.observers))

    return changed


def _ahead(answer: Any, request: Any) -> None:
    for one in partitions(answer):
        one.observers = [ReplicaState(replica_id=77, log_end_offset=1 << 40)]


def _no_nodes(answer: Any, request: Any) -> None:
    answer.nodes = []


_UNKNOWN_TAKEN: Final = error_becomes(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DESCRIBE_FAULTS: Final[tuple[Row, ...]] = (
    *faults_of(
        ApiKey.DESCRIBE_QUORUM,
        ("the leader is no voter", "describe-quorum.names-leader", each(current_voters=[])),
        ("a voter is an observer too", "describe-quorum.each-replica-once", _more_voters),
        ("the high watermark is beyond the log", "describe-quorum.high-watermark",
         each(high_watermark=1 << 40)),
        ("an observer is ahead", "describe-quorum.followers-behind-leader", _ahead),
        ("any topic is described", "describe-quorum.other-topic", _UNKNOWN_TAKEN),
        ("any partition is described", "describe-quorum.other-partition", _UNKNOWN_TAKEN),
        ("two partitions are described", "describe-quorum.several-partitions", _UNKNOWN_TAKEN),
        ("the leader never fetched", "describe-quorum.timestamps-of-leader",
         _replicas(last_fetch_timestamp=lambda at: -1, last_caught_up_timestamp=lambda at: -1)),
        ("replicas are caught up in the future", "describe-quorum.timestamps-in-order",
         _replicas(last_caught_up_timestamp=lambda at: at + 1)),
        ("voters have no endpoints", "describe-quorum.nodes-of-voters", _no_nodes),
        ("an observer is forgotten", "describe-quorum.observer", _observers(lambda many: [])),
    ),
    ("version 0 has another epoch", "describe-quorum.versions-agree",
     Changed(ApiKey.DESCRIBE_QUORUM, each(leader_epoch=lambda epoch: epoch + 1), range(1))),
    ("Fetch names an older leader", "describe-quorum.epoch-of-fetch",
     Changed(ApiKey.FETCH, when(names_a_cluster, each(leader_id=-1)))),
)  # fmt: skip

# --- faults of a leader whose log has a snapshot --------------------------------------------------


def _errors_to(new: ErrorCode) -> Change:
    """Every partition's error becomes ``new``."""

    def change(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            one.error_code = new if one.error_code else one.error_code

    return change


def _bytes(change: Callable[[bytes], bytes]) -> Change:
    def changed(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            one.unaligned_records = change(bytes(one.unaligned_records or b""))

    return changed


def _at_start(request: Any) -> bool:
    return bool(partitions(request)[0].position == 0)


def _names_snapshot(answer: Any, request: Any) -> None:
    for one in partitions(answer):
        if one.snapshot_id.end_offset < 0 and partitions(request)[0].fetch_offset > 0:
            one.snapshot_id = SnapshotId(end_offset=1, epoch=1)


def _beyond(answer: Any, request: Any) -> None:
    each(high_watermark=0)(answer, request)


def _header_last(data: bytes) -> bytes:
    size = 12 + int.from_bytes(data[8:12], "big")
    return data[size:] + data[:size]


def _of_epoch_9(data: bytes) -> bytes:
    return data[:12] + (9).to_bytes(4, "big") + data[16:]


_LOST: Final = _errors_to(ErrorCode.NONE)
_OTHER: Final = _errors_to(ErrorCode.INVALID_REQUEST)
SNAPSHOT_FAULTS: Final[tuple[Row, ...]] = (
    *faults_of(
        ApiKey.FETCH_SNAPSHOT,
        ("a snapshot for another cluster", "snapshots.other-cluster",
         error_becomes(ErrorCode.INCONSISTENT_CLUSTER_ID)),
        ("a snapshot that is not there", "snapshots.unknown-snapshot", _LOST),
        ("the bootstrap snapshot is there", "snapshots.bootstrap-snapshot", _LOST),
        ("a snapshot in an old epoch", "snapshots.old-epoch", _LOST),
        ("a snapshot in a newer epoch", "snapshots.newer-epoch", _OTHER),
        ("a snapshot of any topic", "snapshots.other-topic", _OTHER),
        ("a snapshot of any partition", "snapshots.other-partition", _LOST),
        ("a page has a byte too many", "snapshots.page", _bytes(lambda data: data + b"\0")),
        ("a page hides the leader", "snapshots.names-leader", each(leader_id=-1)),
        ("a page behind the end", "snapshots.beyond-end", _LOST),
        ("a page before the start", "snapshots.position-negative", _OTHER),
        ("a snapshot without a header", "snapshots.header-and-footer",
         when(_at_start, _bytes(_header_last))),
        ("a snapshot of another epoch", "snapshots.epoch-of-batches",
         when(_at_start, _bytes(_of_epoch_9))),
    ),
    *faults_of(
        ApiKey.FETCH,
        ("a snapshot is not committed", "snapshots.named-by-fetch", _beyond),
        ("the log is behind its snapshot", "snapshots.fetch-goes-on", _names_snapshot),
    ),
)  # fmt: skip
