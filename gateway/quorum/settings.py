"""What an observer is told at its birth: where voters are, who it is, how much it asks for, how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.address import Address
from kwire.uuid import Uuid

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """The names are those of Kafka's ``controller.quorum.*`` settings where it has them.

    ``bootstrap``: addresses of controllers, at least one. ``cluster_id``: checked by every voter when given, learned when
    None. ``replica_id``: -1 is an observer without a name, which ``DescribeQuorum`` does not list; any other must not be a
    voter's. ``directory_id``: identity of that replica (KIP-853). ``fetch_max_bytes`` and ``snapshot_max_bytes``: of one
    answer. ``max_wait_ms``: how long the leader may hold a Fetch that finds nothing. ``request_timeout_s``: how long the
    driver waits for an answer. ``fetch_timeout_s``: when the leader has not answered for so long, another one is looked for.
    ``backoff_min_s``, ``backoff_max_s``: the pauses between fruitless requests; ``denied_backoff_s``: after a refusal that
    somebody has to repair. ``history``: read the log below the newest snapshot where the leader still gives it.
    ``principal``: who the leader takes us for, such as ``User:kwire``; only for sentences.
    """

    bootstrap: tuple[Address, ...]
    cluster_id: str | None = None
    replica_id: int = -1
    directory_id: Uuid | None = None
    fetch_max_bytes: int = MIB
    snapshot_max_bytes: int = MIB
    max_wait_ms: int = 500
    request_timeout_s: float = 2.0
    fetch_timeout_s: float = 2.0
    backoff_min_s: float = 0.02
    backoff_max_s: float = 1.0
    denied_backoff_s: float = 5.0
    history: bool = False
    principal: str | None = None

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ValueError("an observer needs at least one bootstrap address")
        if self.replica_id < -1:
            raise ValueError(f"replica id {self.replica_id} is neither -1 nor the id of a node")
        if self.fetch_max_bytes < 1 or self.snapshot_max_bytes < 1:
            raise ValueError("an answer of no bytes never gets an observer anywhere: the limits must be at least 1")
        if not 0 < self.backoff_min_s <= self.backoff_max_s:
            raise ValueError(f"back-off from {self.backoff_min_s} s to {self.backoff_max_s} s is not a range above zero")
