"""Exposes the state of one node for metrics, status pages and the driver. It changes nothing.

Follows the getters of ``KafkaRaftClient`` and ``KafkaRaftMetrics``.
"""

from __future__ import annotations

from gateway.base.address import Address
from gateway.quorum.describing import observers_of
from gateway.quorum.measures import Measures
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.roles import Leader, Progress
from gateway.quorum.upgrading import UpgradeRefused, upgraded_voters
from gateway.quorum.voter_set import VoterSet


class RaftStatus:
    """The readable side of ``gateway.quorum.raft.Raft``. -1 stands for no node and no offset."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self._node.settings.node_id

    @property
    def epoch(self) -> int:
        """The newest epoch known."""
        return self._node.epoch

    @property
    def leader_id(self) -> int:
        """The leader of ``epoch``, -1 while unknown."""
        return self._node.leader_id

    @property
    def voted_id(self) -> int:
        """The candidate that has this node's vote in ``epoch``, -1 for none."""
        return self._node.election.voted_id

    @property
    def role(self) -> str:
        """The role: leader, candidate, prospective, follower, resigned or unattached."""
        return type(self._node.role).__name__.lower()

    @property
    def is_voter(self) -> bool:
        """Whether the node is a voter; else it is an observer."""
        return self._node.is_voter

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed, and durable on this node; 0 while unknown."""
        return self._node.high_watermark

    @property
    def leader_high_watermark(self) -> int:
        """The last high watermark that any leader reported, -1 before the first."""
        return self._node.leader_high_watermark

    @property
    def leader_answered_at(self) -> float | None:
        """When a leader last answered Fetch or FetchSnapshot without an error, this node or the
        first relay above it, in monotonic seconds; None if none has.
        """
        return self._node.leader_answered_at

    @property
    def relays(self) -> int:
        """The number of relays between this observer and the leader, by the last response."""
        return self._node.distance.relays

    @property
    def leader_address(self) -> Address | None:
        """The leader's address, None while leader or address is unknown."""
        # The id is compared first: -1 is also the id of an observer without one.
        return (
            self._node.address_of(self._node.leader_id) if self._node.leader_id != NO_NODE else None
        )

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None while an observer has not learned it."""
        return self._node.cluster_id

    @property
    def reported_voters(self) -> frozenset[int]:
        """Ids of the voters as reported to an observer; empty before the first report."""
        return self._node.reported_voters

    @property
    def log(self) -> ReplicatedLog:
        """Start, end, epochs and snapshots of the log. Callers must not change it."""
        return self._node.log

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self._node.voters

    @property
    def kraft_version(self) -> int:
        """0: the voters are in the configuration. 1: they are in the log (KIP-853)."""
        return self._node.history.kraft_version

    def upgrade_refusal(self, version: int) -> str | None:
        """Return why this leader cannot raise kraft.version to ``version`` now; None if it can."""
        try:
            upgraded_voters(self._node, version)
        except UpgradeRefused as refused:
            return str(refused)
        return None

    @property
    def election_started_at(self) -> float:
        """When this node first campaigned since the last leader, in monotonic seconds; infinite
        outside of elections.
        """
        return self._node.election_began

    @property
    def measures(self) -> Measures:
        """Counts and durations since the start."""
        return self._node.measures

    @property
    def replicas(self) -> tuple[tuple[Progress, ...], tuple[Progress, ...]]:
        """The progress of the other voters, and of the observers; empty unless this node leads."""
        role = self._node.role
        if not isinstance(role, Leader):
            return (), ()
        return tuple(role.progress.values()), tuple(observers_of(role, self._node.now))
