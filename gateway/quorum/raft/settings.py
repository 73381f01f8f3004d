"""What a node of the quorum is told at its birth: who it is, who votes, how long it waits, and what its disk holds.

Names and defaults are those of Kafka's ``controller.quorum.*`` settings (``QuorumConfig``) where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.address import Address
from gateway.quorum.raft.effects import ElectionState
from gateway.quorum.raft.voter_set import VoterSet
from gateway.snapshot_id import SnapshotId
from kwire.uuid import Uuid

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """``endpoints``: this node's controller listeners by name; ``listener`` is the one that nodes use between each other.

    ``static_voters``: from ``controller.quorum.voters``; empty when the log says who votes (KIP-853). ``bootstrap``: where
    to ask for the leader while nobody is known. ``campaigns``: False is a witness, which votes and never stands for election.
    ``auto_join``: an observer adds itself to the voters (``controller.quorum.auto.join.enable``). Times in seconds.
    """

    node_id: int
    directory_id: Uuid
    cluster_id: str
    listener: str
    endpoints: Mapping[str, Address]
    static_voters: Mapping[int, Address] = field(default_factory=dict)
    bootstrap: tuple[Address, ...] = ()
    campaigns: bool = True
    auto_join: bool = False
    election_timeout_s: float = 1.0
    fetch_timeout_s: float = 2.0
    election_backoff_max_s: float = 1.0
    request_timeout_s: float = 2.0
    retry_backoff_s: float = 0.02
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = MIB
    snapshot_max_bytes: int = MIB
    batch_max_bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the disk holds when the node is born.

    ``election``: None when there is no ``quorum-state``. ``epochs``: (epoch, first offset) of the log's batches, ascending.
    ``start_epoch``: epoch of the record before ``start_offset``, 0 at offset 0. ``snapshots``: complete ones, ascending, that
    of formatting (0-0) not among them. ``high_watermark``: as last made durable here, 0 when unknown; what is below it was
    committed once and for all. ``voters``: (offset of the record, voters) from snapshot, log and formatting, ascending, the
    latter with offset -1; ``kraft_versions`` likewise.
    """

    election: ElectionState | None = None
    start_offset: int = 0
    start_epoch: int = 0
    end_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    snapshots: tuple[SnapshotId, ...] = ()
    high_watermark: int = 0
    voters: tuple[tuple[int, VoterSet], ...] = ()
    kraft_versions: tuple[tuple[int, int], ...] = ()
