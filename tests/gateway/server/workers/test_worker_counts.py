"""Sums of the counts of several processes."""

from __future__ import annotations

from gateway.server.scheduling.counts import Counts, ViewCounts
from gateway.server.scheduling.loop_watchdog import EventLoopStats
from gateway.server.workers.messages import StatsResponse, decode, encode
from gateway.server.workers.worker_counts import WorkerCounts, total
from kwire.frame import SIZE_BYTES

METADATA = 3


def counted(requests: int) -> WorkerCounts:
    counts = Counts(received=10 * requests, sent=100 * requests)
    for _ in range(requests):
        counts.apis[METADATA].run_sliced(0.001)
    counts.apis[METADATA].errors[3] += 1
    counts.connections["PLAINTEXT"] += requests
    counts.software["kcat/1"] += requests
    counts.views = ViewCounts(requests, 2 * requests, 3 * requests, 4 * requests)
    made = WorkerCounts(counts, held=EventLoopStats(1, 0.06, 0.06 * requests), cpu_s=1.5)
    made.events["connection accepted"] += requests
    made.buffered_bytes, made.parked, made.resident_bytes = 7, 2, 1000
    return made


def test_total_adds_counters_and_gauges() -> None:
    sums = total([counted(1), counted(2)])
    api = sums.counts.apis[METADATA]
    assert (sum(api.buckets), round(api.seconds, 6), api.errors) == (3, 0.003, {3: 2})
    assert (sums.counts.received, sums.counts.sent) == (30, 300)
    assert sums.counts.connections == {"PLAINTEXT": 3}
    assert sums.events["connection accepted"] == 3
    assert sums.held == EventLoopStats(2, 0.12, 0.12)
    assert sums.counts.views == ViewCounts(3, 6, 9, 12)
    assert (sums.buffered_bytes, sums.parked, sums.parked_fetches) == (14, 4, 0)


def test_counters_of_an_ended_process_have_no_gauges() -> None:
    kept = counted(2).counters()
    assert kept.counts.connections == {} and kept.counts.software == {}
    assert kept.counts.views == ViewCounts(2, 4)
    assert (kept.buffered_bytes, kept.parked, kept.resident_bytes) == (0, 0, 0)
    assert (kept.counts.received, kept.cpu_s, kept.events["connection accepted"]) == (20, 1.5, 2)


def test_total_changes_none_of_its_parts() -> None:
    part = counted(1)
    total([part, part])
    assert part.counts.received == 10 and sum(part.counts.apis[METADATA].buckets) == 1


def test_counts_are_a_message() -> None:
    found = decode(encode(StatsResponse(counted(3)))[SIZE_BYTES:]).counts
    assert total([found]).counts.connections == {"PLAINTEXT": 3}
    assert found.counts.apis[METADATA].buckets == counted(3).counts.apis[METADATA].buckets
    assert found.counts.apis[0].waits == 0, "an API without requests"
