"""A server's facts for tests of what is said about it: a partition and a quorum whose values a test
sets.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from gateway.config import Config
from gateway.ports import OffsetAt, State
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.logs import Reports
from gateway.server.management.facts import Facts, SnapshotProgress
from gateway.server.server_context import ServerContext

#: The loop's clock and the time of day in these tests, s.
NOW, WALL = 1000.0, 1_700_000_000.0


@dataclass
class FakePartition:
    state: State = State.READY
    cluster_id: str = "7QN8irUjSqO4QGNDS7ESyw"
    leader_epoch: int = 3
    log_start_offset: int = 10
    high_watermark: int = 500
    size_bytes: int = 12_345
    log_dir: str = "/data"
    newest_ms: int | None = int(WALL * 1000) - 250

    def max_timestamp(self) -> OffsetAt | None:
        return (
            None
            if self.newest_ms is None
            else OffsetAt(self.high_watermark - 1, self.newest_ms, self.leader_epoch)
        )


@dataclass
class FakeUpstream:
    """``UpstreamFacts``, all well."""

    leader_id: int = 2
    leader_address: str | None = "ctl2:9093"
    epoch: int = 7
    voters: list[int] = field(default_factory=lambda: [1, 2, 3])
    leader_high_watermark: int = 503
    high_watermark: int = 500
    log_end_offset: int = 504
    log_end_epoch: int = 7
    last_answer_at: float | None = NOW - 0.2
    last_caught_up_at: float | None = NOW - 0.4
    fetches: int = 90
    fetched_records: int = 450
    fetched_bytes: int = 45_000
    role: str = "observer"
    voted_id: int = -1
    measures: Any = None
    fetch_errors: Counter[str] = field(default_factory=Counter)
    snapshot_downloads: int = 1
    snapshot_loads: int = 1
    snapshot: SnapshotProgress | None = None
    problem: str | None = None


def facts(
    partition: FakePartition | None = None,
    upstream: FakeUpstream | None = None,
    *,
    server_context: ServerContext | None = None,
    **more: Any,
) -> Facts:
    """Of a server at PLAINTEXT and CLIENTS that has run for a minute; clocks stand still."""
    settled: dict[str, Any] = {
        "version": "1.2.3",
        "node_id": 5,
        "source": "log" if upstream is None else "quorum",
        "listeners": {"PLAINTEXT": "127.0.0.1:9092", "CLIENTS": "127.0.0.1:9093"},
        "partition": partition or FakePartition(),
        "server_context": server_context or a_hub(),
        "upstream": upstream,
        "clock": lambda: NOW,
        "wall": lambda: WALL,
        "began": WALL - 60,
    }
    return Facts(**{**settled, **more})


def a_hub() -> ServerContext:
    """What connections share, without any."""
    return ServerContext(
        Config(), Dispatcher({}, cast(Any, None), element_budget=1), Purgatory(), Reports()
    )
