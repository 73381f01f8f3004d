"""Makes the JSON of ``/readyz`` and ``/status``, for an operator who looks for a cause.

It knows no HTTP.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from kwire.protocol import CLUSTER_METADATA_TOPIC, error_name

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts
    from gateway.server.quorum.quorum_status import QuorumStatus
    from gateway.server.scheduling.counts import ApiCounts
    from gateway.server.workers.worker_processes import WorkerProcess

#: Names of client software that are shown, those with the most connections first. Clients choose
#: the names, so there may be many.
_SOFTWARE_MAX: Final = 20


def readyz(facts: Facts) -> tuple[bool, dict[str, Any]]:
    """Whether clients may be sent here, and the document that gives the reason if not."""
    ready, state, reason, since = facts.at_one_moment().readiness()
    document: dict[str, Any] = {"ready": ready, "state": state}
    if reason:
        document["reason"] = reason
    if since is not None:
        document["since"] = since
    return ready, document


def status(facts: Facts) -> dict[str, Any]:
    """The document of ``/status``. Times of day are UTC; None: not known."""
    facts = facts.at_one_moment()
    quorum = facts.quorum_status()
    up_s = facts.clock() - facts.began
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
        "quorum": None if quorum is None else _quorum(facts, quorum),
        "connections": _connections(facts),
        "requests": {api.name: _requests(api) for api in facts.counted.counts.apis.values()},
        "groups": dict(facts.groups()),
        "workers": [_worker(one) for one in facts.workers],
    }


def _worker(worker: WorkerProcess) -> dict[str, Any]:
    """One process; without an id while it is being replaced."""
    return {
        "worker": worker.number,
        "pid": worker.pid,
        "ready": worker.is_ready,
        "restarts": worker.restarts,
        "connections": dict(+worker.counts.counts.connections),
        "high_watermark": worker.counts.high_watermark,
        "processor_s": round(worker.counts.cpu_s, 3),
        "resident_bytes": worker.counts.resident_bytes,
    }


def _partition(facts: Facts) -> dict[str, Any]:
    partition = facts.partition
    newest = partition.max_timestamp()
    return {
        "topic": CLUSTER_METADATA_TOPIC,
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


def _quorum(facts: Facts, quorum: QuorumStatus) -> dict[str, Any]:
    silent_s, lag_ms, snapshot = facts.silent_s(), facts.lag_ms(), quorum.snapshot
    complete_s = facts.complete_s()
    return {
        "leader_id": quorum.leader_id,
        "leader_address": quorum.leader_address,
        "relays": quorum.relays,
        "epoch": quorum.epoch,
        "voters": list(quorum.voters),
        "high_watermark": quorum.leader_high_watermark,
        "own_high_watermark": quorum.high_watermark,
        "log_end_offset": quorum.log_end_offset,
        "log_end_epoch": quorum.log_end_epoch,
        "lag_offsets": facts.lag_offsets(),
        "lag_ms": None if lag_ms is None else round(lag_ms),
        "complete_since": facts.utc(complete_s) if complete_s else None,
        "last_answer_s_ago": None
        if silent_s is None or quorum.last_answer_at is None
        else round(silent_s, 3),
        "problem": quorum.problem,
        "fetches": quorum.fetches,
        "fetched_records": quorum.fetched_records,
        "fetched_bytes": quorum.fetched_bytes,
        "fetch_errors": dict(quorum.fetch_errors),
        "snapshot": None if snapshot is None else {**snapshot._asdict(), "progress": str(snapshot)},
        "snapshot_downloads": quorum.snapshot_downloads,
        "snapshot_loads": quorum.snapshot_loads,
    }


def _connections(facts: Facts) -> dict[str, Any]:
    counted = facts.counted
    events = counted.events
    return {
        "open": {name: counted.counts.connections[name] for name in facts.listeners},
        "software": dict(counted.counts.software.most_common(_SOFTWARE_MAX)),
        "accepted": events["connection accepted"],
        "refused": events["connection refused"],
        "cut": dict(counted.counts.cuts),
        "bad_requests": events["bad request"],
        "refused_requests": events["unsupported request"],
        "internal_errors": events["internal error"],
        "parked_requests": counted.parked,
        "parked_fetches": counted.parked_fetches,
        "received_bytes": counted.counts.received,
        "sent_bytes": counted.counts.sent,
        "buffered_bytes": counted.buffered_bytes,
    }


def _requests(api: ApiCounts) -> dict[str, Any]:
    count = sum(api.buckets)
    return {
        "count": count,
        "mean_ms": round(1000 * api.seconds / count, 3) if count else None,
        "waited": api.waits,
        "errors": {error_name(code): number for code, number in sorted(api.errors.items())},
    }
