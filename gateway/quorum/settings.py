"""Defines the settings of a node of the quorum, and the content of its disk at start.

Names and defaults are those of Kafka's ``controller.quorum.*`` settings (``QuorumConfig``) where it
has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.base.address import Address
from gateway.base.sizes import MIB
from gateway.quorum.effects import ElectionState
from gateway.quorum.voter_set import VoterSet
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """A node that follows a quorum and never votes: the gateway over a quorum of other controllers.

    ``replica_id``: -1 is a replica without an id, which ``DescribeQuorum`` does not list; any other
    must not be a voter's. ``history``: read the leader's log below its newest snapshot where the
    leader still has it. ``principal``: the principal of this node at the leader, such as
    ``User:kwire``; only error messages use it. ``denied_backoff_s``: the pause after a refusal that
    an administrator has to lift.
    """

    replica_id: int = -1
    history: bool = False
    principal: str | None = None
    denied_backoff_s: float = 5.0

    def __post_init__(self) -> None:
        if self.replica_id < -1:
            raise ValueError(f"replica id {self.replica_id} is neither -1 nor the id of a node")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """``endpoints``: this node's controller listeners by name; ``listener`` is the name of the one
    that the nodes of the quorum use.

    ``static_voters``: from ``controller.quorum.voters``; empty if the log holds the voters
    (KIP-853). ``bootstrap``: addresses to ask for the leader while none is known. ``campaigns``:
    False for a non-electable voter, which votes and never campaigns. ``auto_join``: an observer
    adds itself to the voters (``controller.quorum.auto.join.enable``). ``observer``: given for a
    node that never votes; ``node_id`` is then its replica id, and ``cluster_id`` may be None until
    a leader names it. Times in seconds.
    """

    node_id: int
    directory_id: Uuid
    cluster_id: str | None
    listener: str
    endpoints: Mapping[str, Address]
    static_voters: Mapping[int, Address] = field(default_factory=dict)
    bootstrap: tuple[Address, ...] = ()
    # Kafka has no such voter. It is safe, because nothing in Raft obliges a voter to campaign.
    campaigns: bool = True
    auto_join: bool = False
    # The defaults of Kafka: ``controller.quorum.election.timeout.ms`` and the four that follow it.
    election_timeout_s: float = 1.0
    fetch_timeout_s: float = 2.0
    election_backoff_max_s: float = 1.0
    request_timeout_s: float = 2.0
    retry_backoff_s: float = 0.02
    # KIP-595 has ``quorum.retry.backoff.max.ms``, which did not ship: Kafka's pause does not grow.
    retry_backoff_max_s: float = 0.5
    # ``KafkaRaftClient.MAX_FETCH_WAIT_MS``; the sizes are ``controller.quorum.fetch.max.bytes`` and
    # ``controller.quorum.fetch.snapshot.max.bytes`` of Kafka 4.3.
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = MIB
    snapshot_max_bytes: int = MIB
    # ``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``.
    batch_max_bytes: int = 8 * MIB
    observer: ObserverSettings | None = None

    def __post_init__(self) -> None:
        if self.fetch_max_bytes < 1 or self.snapshot_max_bytes < 1:
            raise ValueError(
                "a response of no bytes never gets a replica anywhere: the limits must be "
                "at least 1"
            )
        if not 0 < self.retry_backoff_s <= self.retry_backoff_max_s:
            raise ValueError(
                f"back-off from {self.retry_backoff_s} s to {self.retry_backoff_max_s} s is not a "
                "range above zero"
            )
        if self.observer is not None and not self.bootstrap:
            raise ValueError("an observer needs at least one bootstrap address")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The content of the disk at start.

    ``election``: None without a ``quorum-state``. ``epochs``: (epoch, first offset) of the log's
    batches, ascending. ``start_epoch``: epoch of the record before ``start_offset``, 0 at offset 0.
    ``snapshots``: complete ones, ascending, without the one from formatting (0-0).
    ``high_watermark``: the last one made durable, 0 if unknown; everything below it is committed.
    ``voters``: (offset of the record, voters) from snapshot, log and formatting, ascending, those
    of formatting with offset -1; ``kraft_versions`` likewise.
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
