"""Formats a described quorum as JSON, and as the text of Apache's ``kafka-metadata-quorum``. It
makes no requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.base.address import Address
from kwire.printable import json_text
from kwire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from gateway.cli.quorum_ask import Quorum
    from kwire.messages.describe_quorum_response import ReplicaState

_COLUMNS: Final = {
    "NodeId": "nodeId",
    "DirectoryId": "directoryId",
    "LogEndOffset": "logEndOffset",
    "Lag": "lag",
    "LastFetchTimestamp": "lastFetchTimestamp",
    "LastCaughtUpTimestamp": "lastCaughtUpTimestamp",
    "Status": "status",
}
_TIMESTAMPS: Final = ("lastFetchTimestamp", "lastCaughtUpTimestamp")
_UNKNOWN: Final = -1


def status(quorum: Quorum) -> dict[str, Any]:
    """Return the fields of ``--status``, under the tool's names."""
    partition = quorum.partition
    leader, last = (
        _leader(quorum),
        min(partition.current_voters, key=lambda one: one.log_end_offset, default=None),
    )
    return {
        "clusterId": quorum.cluster_id,
        "leaderId": partition.leader_id,
        "leaderEpoch": partition.leader_epoch,
        "highWatermark": partition.high_watermark,
        "maxFollowerLag": 0 if last is None else _end_offset(quorum) - last.log_end_offset,
        "maxFollowerLagTimeMs": _lag_ms(leader, last),
        "currentVoters": [_node(quorum, one) for one in partition.current_voters],
        "currentObservers": [_node(quorum, one) for one in partition.observers],
    }


def status_text(quorum: Quorum) -> str:
    """Return the text of ``kafka-metadata-quorum describe --status``: a line for each value."""
    lines = []
    for name, value in status(quorum).items():
        text = (
            f"[{', '.join(json_text(one) for one in value)}]" if isinstance(value, list) else value
        )
        lines.append(f"{name[0].upper()}{name[1:]}:".ljust(24) + str(text))
    return "\n".join(lines)


def replication(quorum: Quorum) -> Iterator[dict[str, Any]]:
    """Return the rows of ``--replication``, one object for each replica: leader, other voters,
    observers.
    """
    partition, leader = quorum.partition, _leader(quorum)
    if leader is not None:
        yield _row(quorum, leader, "Leader")
    for one in partition.current_voters:
        if one is not leader:
            yield _row(quorum, one, "Follower")
    for one in partition.observers:
        yield _row(quorum, one, "Observer")


def replication_text(quorum: Quorum, now_ms: int | None = None) -> str:
    """Return the text of ``kafka-metadata-quorum describe --replication``: columns, a tab behind
    each.

    With ``now_ms`` (since 1970) times are printed as ages (``--human-readable``).
    """
    rows = [list(_COLUMNS)]
    for replica in replication(quorum):
        for name in _TIMESTAMPS:
            if now_ms is not None and replica[name] != _UNKNOWN:
                # Clocks differ: a time later than now counts as now.
                replica[name] = f"{max(now_ms - replica[name], 0)} ms ago"
        rows.append([str(replica[name]) for name in _COLUMNS.values()])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def _row(quorum: Quorum, replica: ReplicaState, role: str) -> dict[str, Any]:
    values = (
        replica.replica_id,
        str(replica.replica_directory_id),
        replica.log_end_offset,
        _end_offset(quorum) - replica.log_end_offset,
        replica.last_fetch_timestamp,
        replica.last_caught_up_timestamp,
        role,
    )
    return dict(zip(_COLUMNS.values(), values, strict=True))


def _leader(quorum: Quorum) -> ReplicaState | None:
    """Return the leader among the voters; None while a removed leader waits for its removal to
    commit.
    """
    partition = quorum.partition
    return next(
        (one for one in partition.current_voters if one.replica_id == partition.leader_id), None
    )


def _end_offset(quorum: Quorum) -> int:
    """Return the end of the leader's log, from which lags are counted; without it, the furthest
    end.
    """
    leader = _leader(quorum)
    replicas: Sequence[ReplicaState] = [
        *quorum.partition.current_voters,
        *quorum.partition.observers,
    ]
    return (
        leader.log_end_offset
        if leader
        else max((one.log_end_offset for one in replicas), default=0)
    )


def _lag_ms(leader: ReplicaState | None, last: ReplicaState | None) -> int:
    """Return how long ago the last voter had caught up, by the leader's clock; -1 if a time is
    missing.
    """
    if last is leader:
        return 0
    if (
        leader is None
        or last is None
        or _UNKNOWN in (leader.last_caught_up_timestamp, last.last_caught_up_timestamp)
    ):
        return _UNKNOWN
    return leader.last_caught_up_timestamp - last.last_caught_up_timestamp


def _node(quorum: Quorum, replica: ReplicaState) -> dict[str, Any]:
    """Return the id, and directory and endpoints if they are known."""
    described: dict[str, Any] = {"id": replica.replica_id}
    if replica.replica_directory_id != ZERO_UUID:
        described["directoryId"] = str(replica.replica_directory_id)
    endpoints = [
        f"{listener.name}://{Address(listener.host, listener.port)}"
        for node in quorum.nodes
        if node.node_id == replica.replica_id
        for listener in node.listeners
    ]
    return described | ({"endpoints": endpoints} if endpoints else {})
