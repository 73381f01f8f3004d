"""How an observer stands, as one value for status pages and metrics. Knows no rules."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.address import Address
from gateway.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class Facts:
    """How things stand, for people and metrics."""

    leader_id: int  #: -1 while nobody is known to lead
    leader_address: Address | None
    epoch: int
    leader_high_watermark: int  #: as last told, in whatever epoch; -1 before
    high_watermark: int  #: committed and in our log
    voters: frozenset[int]  #: empty while unknown
    cluster_id: str | None
    last_answer_at: float | None  #: monotonic seconds of the leader's last answer without error
    snapshot: tuple[SnapshotId, int, int] | None  #: on its way: id, bytes here, bytes in all (0 while unknown)
    failures: int  #: fruitless requests since the last progress
    stopped: str | None  #: why nothing is asked any more
