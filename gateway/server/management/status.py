"""The JSON of ``/readyz`` and ``/status``: what a person asks first of a server that behaves
strangely. Knows no HTTP.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from gateway.ports import TOPIC_NAME
from gateway.server.management.facts import progress
from kwire.protocol import error_name

if TYPE_CHECKING:
    from gateway.server.counts import ApiCounts
    from gateway.server.management.facts import Facts, UpstreamFacts

#: Kinds of client software that are named, those with the most connections first: peers choose the
#: names.
_SOFTWARE_MAX: Final = 20


def readyz(facts: Facts) -> tuple[bool, dict[str, Any]]:
    """Whether clients may be sent here, and the document that says why not."""
    ready, state, reason, since = facts.readiness()
    said: dict[str, Any] = {"ready": ready, "state": state}
    if reason:
        said["reason"] = reason
    if since is not None:
        said["since"] = since
    return ready, said


def status(facts: Facts) -> dict[str, Any]:
    """Everything, now. Times of day are UTC, offsets are Kafka's, None is what is not known."""
    up_s = facts.wall() - facts.began
    return {
        "version": facts.version,
        "node_id": facts.node_id,
        "cluster_id": facts.partition.cluster_id,
        "source": facts.source,
        "pid": os.getpid(),
        "started": facts.utc(up_s),
        "uptime_s": round(up_s, 1),
        "readiness": readyz(facts)[1],
        "problems": [str(problem) for problem in facts.problems()],
        "listeners": dict(facts.listeners),
        "partition": _partition(facts),
        "quorum": None if facts.upstream is None else _quorum(facts, facts.upstream),
        "connections": _connections(facts),
        "requests": {api.name: _requests(api) for api in facts.server_context.counts.apis.values()},
        "groups": dict(facts.groups()),
    }


def _partition(facts: Facts) -> dict[str, Any]:
    partition = facts.partition
    newest = partition.max_timestamp()
    return {
        "topic": TOPIC_NAME,
        "state": partition.state.value,
        "log_start_offset": partition.log_start_offset,
        "high_watermark": partition.high_watermark,
        "leader_epoch": partition.leader_epoch,
        "newest_record": None
        if newest is None
        else facts.utc(facts.wall() - newest.timestamp / 1000),
        "size_bytes": partition.size_bytes,
        "log_dir": partition.log_dir,
    }


def _quorum(facts: Facts, upstream: UpstreamFacts) -> dict[str, Any]:
    silent_s, lag_ms, snapshot = facts.silent_s(), facts.lag_ms(), upstream.snapshot
    return {
        "leader_id": upstream.leader_id,
        "leader_address": upstream.leader_address,
        "epoch": upstream.epoch,
        "voters": list(upstream.voters),
        "high_watermark": upstream.leader_high_watermark,
        "own_high_watermark": upstream.high_watermark,
        "log_end_offset": upstream.log_end_offset,
        "log_end_epoch": upstream.log_end_epoch,
        "lag_offsets": facts.lag_offsets(),
        "lag_ms": None if lag_ms is None else round(lag_ms),
        "last_answer_s_ago": None
        if silent_s is None or upstream.last_answer_at is None
        else round(silent_s, 3),
        "problem": upstream.problem,
        "fetches": upstream.fetches,
        "fetched_records": upstream.fetched_records,
        "fetched_bytes": upstream.fetched_bytes,
        "fetch_errors": dict(upstream.fetch_errors),
        "snapshot": None
        if snapshot is None
        else {**snapshot._asdict(), "progress": progress(snapshot)},
        "snapshot_downloads": upstream.snapshot_downloads,
        "snapshot_loads": upstream.snapshot_loads,
    }


def _connections(facts: Facts) -> dict[str, Any]:
    server_context = facts.server_context
    events = server_context.reports.counts
    return {
        "open": {name: server_context.counts.connections[name] for name in facts.listeners},
        "software": dict(server_context.counts.software.most_common(_SOFTWARE_MAX)),
        "accepted": events["connection accepted"],
        "refused": events["connection refused"],
        "cut": dict(server_context.counts.cuts),
        "bad_requests": events["bad request"],
        "refused_requests": events["unsupported request"],
        "internal_errors": events["internal error"],
        "parked_requests": server_context.purgatory.parked,
        "parked_fetches": server_context.purgatory.waiting,
        "received_bytes": server_context.counts.received,
        "sent_bytes": server_context.counts.sent,
        "buffered_bytes": server_context.memory.held,
    }


def _requests(api: ApiCounts) -> dict[str, Any]:
    count = sum(api.buckets)
    return {
        "count": count,
        "mean_ms": round(1000 * api.seconds / count, 3) if count else None,
        "waited": api.waits,
        "errors": {error_name(code): number for code, number in sorted(api.errors.items())},
    }
