"""Makes facts of a server for tests of its management port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from gateway.config.config import Config
from gateway.ports.services import OffsetAt, State
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server_context import ServerContext
from gateway.server.logging.logs import Reports
from gateway.server.management.facts import Facts
from gateway.server.quorum.quorum_status import QuorumStatus

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


def quorum_status(**changes: Any) -> QuorumStatus:
    """The status of an observer that follows leader 2 without a problem."""
    settled: dict[str, Any] = {
        "role": "observer",
        "epoch": 7,
        "leader_id": 2,
        "leader_address": "ctl2:9093",
        "relays": 0,
        "voted_id": -1,
        "voters": [1, 2, 3],
        "measures": None,
        "leader_high_watermark": 503,
        "high_watermark": 500,
        "log_end_offset": 504,
        "log_end_epoch": 7,
        "last_answer_at": NOW - 0.2,
        "last_caught_up_at": NOW - 0.4,
        "observes": True,
        "complete_since": NOW - 40,
        "problem": None,
        "fetches": 90,
        "fetched_records": 450,
        "fetched_bytes": 45_000,
        "fetch_errors": {},
        "snapshot": None,
        "snapshot_downloads": 1,
        "snapshot_loads": 1,
    }
    return QuorumStatus(**{**settled, **changes})


def facts(
    partition: FakePartition | None = None,
    quorum: QuorumStatus | None = None,
    *,
    server_context: ServerContext | None = None,
    **more: Any,
) -> Facts:
    """Facts of a server with two listeners that has run for a minute; clocks stand still."""
    settled: dict[str, Any] = {
        "version": "1.2.3",
        "node_id": 5,
        "source": "log" if quorum is None else "quorum",
        "listeners": {"PLAINTEXT": "127.0.0.1:9092", "CLIENTS": "127.0.0.1:9093"},
        "partition": partition or FakePartition(),
        "server_context": server_context or empty_context(),
        "quorum": None if quorum is None else lambda: quorum,
        "clock": lambda: NOW,
        "wall": lambda: WALL,
        "began": NOW - 60,
    }
    return Facts(**{**settled, **more})


def empty_context() -> ServerContext:
    """The context of a server without connections."""
    return ServerContext(
        Config(), Dispatcher({}, cast(Any, None), element_budget=1), Purgatory(), Reports()
    )
