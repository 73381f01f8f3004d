"""Holds the state of one node of the quorum, and answers who is who from it (``QuorumState``).

It changes nothing but the addresses that peers name: ``node`` makes every other change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from gateway.base.address import Address
from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum.effects import Effect, ElectionState
from gateway.quorum.leader_distance import LEADER
from gateway.quorum.measures import Measures
from gateway.quorum.peers import Peers
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.retry_policy import RetryPolicy
from gateway.quorum.roles import Role, Unattached
from gateway.quorum.settings import RaftSettings, Stored
from gateway.quorum.voter_history import VoterHistory
from gateway.quorum.voter_set import VoterSet
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID, Uuid

#: The id that stands for no leader, no vote, or a replica without an id.
NO_NODE: Final = -1
#: An epoch is an int32. A node in the last one keeps its role; Kafka's would wrap around below
#: zero.
EPOCH_MAX: Final = (1 << 31) - 1
#: A voter that stored an epoch out of reach begins so far above its last record: no election has
#: been there, so that no vote is forgotten, and the others believe it.
_RESTART_AT: Final = OUT_OF_REACH >> 1
#: Addresses that are remembered from responses; a hostile peer may name any number.
_ADDRESSES_MAX: Final = 64


class NodeState:
    """State shared by the parts of the core. ``now`` (monotonic seconds) and ``wall_ms`` are those
    of the current event.
    """

    def __init__(
        self,
        settings: RaftSettings,
        stored: Stored,
        *,
        random: Callable[[], float],
        now: float,
        wall_ms: int,
    ) -> None:
        self.settings = settings
        self.random = random
        self.now = now
        self.wall_ms = wall_ms
        self.log = ReplicatedLog(stored)
        self.history = VoterHistory(settings, stored)
        self.peers = Peers(settings.retry_backoff_s, settings.retry_backoff_max_s, random)
        #: None until an observer has learned it. Peers refuse an empty id, and accept none.
        self.cluster_id = settings.cluster_id or None
        #: Ids of the voters that were reported to an observer; empty before the first report.
        self.reported_voters: frozenset[int] = frozenset()
        self.leader_high_watermark = -1  #: the last one that any leader reported
        self.leader_answered_at: float | None = None  #: when a leader last answered as one
        self.distance = LEADER  #: how far from the leader an observer's last response was made
        #: Used by an observer only.
        self.retry = RetryPolicy(settings.retry_backoff_s, settings.retry_backoff_max_s, random)
        self.measures = Measures()
        self.leader_endpoints: Mapping[str, Address] = {}  #: of the leader last followed
        #: Addresses of nodes that responses named, in addition to those in the voter set.
        self.addresses: dict[int, Address] = {}
        self._remember(stored)
        snapshot = self.log.latest_snapshot
        # A snapshot holds committed records only (KIP-630), so its end is a lower bound that is
        # left when the high watermark itself was lost with the machine's power.
        floor = max(stored.high_watermark, self.log.start_offset, snapshot[0] if snapshot else 0)
        #: Everything below it is committed, and durable on this node. It never decreases. Not
        #: persisted by Kafka's raft: its nodes begin without one and learn it from the leader
        #: (KIP-595).
        self.high_watermark = min(floor, self.log.end_offset)
        #: The snapshot that is about to replace the log on disk.
        self.installing: SnapshotId | None = None
        self.stopped = False
        #: The process is shutting down: the node does not lead any more, but still votes.
        self.leaving = False
        #: The part of the committed log that the image lacks (``events.ImageLacks``).
        self.image_lacks: str | None = None
        self.token = 0  #: of the last effect on the disk
        self.state_token = 0  #: of the last Persist
        #: Called with the old role once the new one is in place.
        self.left: Callable[[Role], None] = _nothing
        #: Called after the voter set has changed.
        self.voters_changed: Callable[[], None] = _nothing_changed
        self.role: Role = Unattached(math.inf)
        self.election_began = math.inf  #: when this node first campaigned since the last leader
        self._announced: tuple[int, int] | None = None
        self._effects: list[Effect] = []
        # Events that are not repeated before there is progress.
        self._reported: set[tuple[str, ...]] = set()

    def _remember(self, stored: Stored) -> None:
        """Take the epoch and the vote that the disk has, if that epoch can be believed."""
        observes = self.settings.observer is not None
        self.election = _first_state(stored, self.log.last_epoch, observes=observes)
        # A missing ``quorum-state`` file means epoch 0 (``QuorumState.initialize``).
        self._stored = stored.election or ElectionState(0)
        #: The epoch of quorum-state, above that of ``election`` if it is not believed.
        self.refused_epoch = self._stored.epoch
        #: The newest epoch in which a leader has answered this observer. One above that and above
        #: that of its log is only named by peers: it is not stored, and may be given up.
        self.answered_epoch = self.log.last_epoch
        self.epoch_since = self.now  #: when this node moved to its epoch

    # --- identities ---

    @property
    def epoch(self) -> int:
        """The newest epoch known."""
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """The leader of ``epoch``, -1 while unknown."""
        return self.election.leader_id

    @property
    def is_answered(self) -> bool:
        """Whether the epoch of this node is more than a word of its peers: a voter's always is."""
        return self.settings.observer is None or self.epoch <= self.proven_epoch

    @property
    def proven_epoch(self) -> int:
        """The newest epoch that a record or the answer of a leader proves."""
        return max(self.answered_epoch, self.log.last_epoch)

    @property
    def voters(self) -> VoterSet:
        """The current voters: those of the last record appended, committed or not (KIP-853)."""
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters."""
        return self.settings.observer is None and self.history.is_voter

    @property
    def is_relay(self) -> bool:
        """Whether this node is an observer with a listener for other observers."""
        return self.settings.observer is not None and bool(self.settings.endpoints)

    def is_self(self, id: int) -> bool:
        """Return whether ``id`` is this node's. -1 is no node's, although an observer may have
        it.
        """
        return id >= 0 and id == self.settings.node_id

    @property
    def replica(self) -> tuple[int, Uuid]:
        """Replica id and directory id, as Fetch and FetchSnapshot carry them."""
        settings = self.settings
        # An observer sends no id until it knows the voters: the leader would count the fetches of a
        # voter's id towards the high watermark, because a voter without a directory id is matched
        # by its id alone. Without the id, the directory id would only add rows to DescribeQuorum.
        if settings.observer is not None and (settings.node_id < 0 or not self.reported_voters):
            return NO_NODE, ZERO_UUID
        return settings.node_id, settings.directory_id

    @property
    def is_electable(self) -> bool:
        """Whether the node campaigns when there is no leader: not as an observer, not as a
        non-electable voter, not during shutdown, not without a whole image, and not in the last
        epoch.
        """
        if (
            self.leaving
            # A leader must not decide on a log that it does not know whole. Seeded bug in
            # tests/sim: ``leads_without_a_whole_image``.
            or self.image_lacks is not None
            or not self.settings.campaigns
            or self.settings.observer is not None
            or self.election.epoch >= EPOCH_MAX
        ):
            return False
        return self.is_voter or self._is_on_its_way_out

    @property
    def _is_on_its_way_out(self) -> bool:
        """Whether a record that may not be committed yet removes this node from the voters."""
        # If no other node has the record, only this node can be elected, because its log is the
        # longest (Ongaro's thesis, 4.2.2). Its own vote does not count then.
        history, me = self.history, self.settings
        return history.offset >= self.high_watermark and history.previous.has(
            me.node_id, me.directory_id
        )

    @property
    def may_campaign(self) -> bool:
        """Whether the node may campaign now."""
        # The log's end, which a Vote request names, is unknown while a snapshot replaces the log.
        return self.installing is None and self.is_electable

    def others(self) -> list[int]:
        """Return the ids of the other voters."""
        me = self.settings.node_id
        return [id for id in self.history.voters.nodes if id != me]

    def address_of(self, id: int) -> Address | None:
        """Return the address of node ``id`` at this node's listener name, None while unknown."""
        listener = self.settings.listener
        # The leader's own words come first: the voter set may hold the address that it had before
        # it moved, until UpdateRaftVoter is committed (KIP-853).
        if id == self.election.leader_id and listener in self.leader_endpoints:
            return self.leader_endpoints[listener]
        voter = self.history.voters.nodes.get(id)
        if voter is not None and listener in voter.endpoints:
            return voter.endpoints[listener]
        return self.addresses.get(id)

    def leader_endpoint(self, listener: str) -> Address | None:
        """Return the leader's address at ``listener``, the name of the one that a request came
        by.
        """
        leader_id = self.election.leader_id
        # A relay gives its own address: observers behind it must not connect to the quorum.
        if self.is_self(leader_id) or (self.is_relay and leader_id != NO_NODE):
            return self.settings.endpoints.get(listener)
        if leader_id == NO_NODE:
            return None
        if listener in self.leader_endpoints:
            return self.leader_endpoints[listener]
        voter = self.history.voters.nodes.get(leader_id)
        return voter.endpoints.get(listener) if voter is not None else None

    def learn_address(self, id: int, host: str, port: int) -> None:
        """Remember the address of node ``id``, if it can be one."""
        if id < 0 or not 0 < port < 65536 or not 0 < len(host) < 256:
            return
        if len(self.addresses) >= _ADDRESSES_MAX and id not in self.addresses:
            self.addresses.clear()
        self.addresses[id] = Address(host, port)


def _first_state(stored: Stored, last_epoch: int, *, observes: bool) -> ElectionState:
    """Return the election state at start."""
    state = stored.election
    # An observer's log may have a newer epoch than its quorum-state, which was lost or is an older
    # copy. It has not voted in that epoch. A voter's directory is refused in that case
    # (``gateway.log.metadata.voter_directory_check``). Kafka does this for a voter too
    # (``QuorumState.initialize``).
    if state is None or state.epoch < last_epoch:
        return ElectionState(last_epoch)
    # An earlier release, or Kafka's, believed a peer that named such an epoch. Without a record in
    # the log there is no measure.
    if state.epoch > last_epoch + OUT_OF_REACH and stored.end_offset:
        return ElectionState(last_epoch if observes else last_epoch + _RESTART_AT)
    return state


def _nothing(role: Role) -> None:
    pass


def _nothing_changed() -> None:
    pass
