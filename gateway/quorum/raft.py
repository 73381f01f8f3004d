"""Runs a node of a KRaft quorum: ``step(event, now, wall_ms)`` returns the effects to be performed.

The other modules of this package hold the rules. This one passes each event to the part that it
concerns, and polls the part of the current role. It has no clock, random numbers, files or sockets
of its own, so two runs with the same events are the same. Follows ``KafkaRaftClient`` (KIP-595).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gateway.base.address import Address
from gateway.quorum.describing import describe_quorum, observers_of
from gateway.quorum.effects import Effect, ShutDownComplete
from gateway.quorum.election import Election
from gateway.quorum.events import (
    Answered,
    Cancelled,
    Cleaned,
    Durable,
    Event,
    Failed,
    ImageLacks,
    Installed,
    NotInstalled,
    Propose,
    Requested,
    Resign,
    ShutDown,
    SnapshotWritten,
    Tick,
)
from gateway.quorum.following import Following
from gateway.quorum.leader_discovery import LeaderDiscovery
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.quorum_requests import QuorumRequests
from gateway.quorum.raft_metrics import RaftMetrics
from gateway.quorum.relaying import Relaying
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.resigned_role import ResignedRole
from gateway.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from gateway.quorum.serving import Serving
from gateway.quorum.settings import RaftSettings, Stored
from gateway.quorum.upgrading import UpgradeRefused, upgraded_voters
from gateway.quorum.voter_changes import VoterChanges
from gateway.quorum.voter_registration import VoterRegistration
from gateway.quorum.voter_set import VoterSet
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.messages.vote_request import VoteRequest


class Raft:
    """One node. It restarts from ``stored``, the state that its effects left on disk.

    ``random`` returns numbers from 0 to 1. ``now`` is in monotonic seconds; ``wall_ms`` is used for
    timestamps of records alone.
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
        node = Node(settings, stored, random=random, now=now, wall_ms=wall_ms)
        self._node = node
        self._election = Election(node, self._elected)
        self._discovery = LeaderDiscovery(node)
        self._following = Following(node, self._discovery)
        self._leader_role = LeaderRole(node, self._committed)
        self._resigned_role = ResignedRole(node)
        self._relaying = Relaying(node)
        self._serving = Serving(node, self._leader_role, self._relaying)
        self._quorum_requests = QuorumRequests(node)
        self._voter_changes = VoterChanges(node, self._leader_role)
        self._registration = VoterRegistration(node)
        self._shut_down_by = math.inf
        self._done = False
        node.left = self._left
        node.voters_changed = self._voters_changed
        self._events: dict[type[Any], Callable[[Any], None]] = {
            Requested: self._requested,
            Cancelled: self._cancelled,
            Answered: self._answered,
            Failed: self._failed,
            Tick: self._ticked,
            Durable: self._durable,
            Propose: self._leader_role.propose,
            Installed: self._following.on_installed,
            NotInstalled: self._following.on_not_installed,
            SnapshotWritten: self._snapshot_written,
            Cleaned: self._cleaned,
            Resign: self._resign,
            ImageLacks: self._image_lacks,
            ShutDown: self._shut_down,
        }
        self._requests: dict[type[Any], Callable[[Requested], None]] = {
            VoteRequest: self._election.on_vote_request,
            BeginQuorumEpochRequest: self._quorum_requests.on_begin,
            EndQuorumEpochRequest: self._quorum_requests.on_end,
            FetchRequest: self._serving.on_fetch,
            FetchSnapshotRequest: self._serving.on_fetch_snapshot,
            DescribeQuorumRequest: self._describe,
            AddRaftVoterRequest: self._voter_changes.on_add,
            RemoveRaftVoterRequest: self._voter_changes.on_remove,
            UpdateRaftVoterRequest: self._voter_changes.on_update,
        }

    # --- the machine ---

    def start(self, now: float, wall_ms: int) -> list[Effect]:
        """Take the role that the disk remembers (``QuorumState.initialize``); called once."""
        node = self._node
        node.now, node.wall_ms = now, wall_ms
        state = node.election
        # A candidate keeps its vote and begins unattached: the epoch may have a leader by now.
        # Kafka begins as Candidate again (``QuorumState.initialize``).
        node.role = Unattached(node.election_at())
        # A leader begins resigned: records that it had not made durable are lost, and no others may
        # take their offsets in the same epoch (KAFKA-10527). Seeded bugs in tests/sim:
        # ``leads_on_after_a_restart``, ``resigned_stays_resigned``.
        if node.is_self(state.leader_id):
            node.become_resigned(set(node.others()))
        elif (
            state.leader_id != NO_NODE and (address := node.address_of(state.leader_id)) is not None
        ):
            node.become_follower(state.epoch, state.leader_id, {node.settings.listener: address})
        if node.refused_epoch > state.epoch:
            node.doubt("quorum-state of this node", node.refused_epoch)
        # No role was entered, so nothing has announced the epoch that the disk remembers.
        node.announce_leader()
        # As in ``KafkaRaftClient.initialize``.
        if len(node.voters) == 1 and node.is_voter and node.may_campaign:
            # A quorum of one need not wait for other nodes. It still needs a new epoch.
            self._election.campaign()
        self._poll()
        return node.take()

    def step(self, event: Event, now: float, wall_ms: int) -> list[Effect]:
        """Handle one event at time ``now``; return the effects in the order to be performed.

        No message of a peer makes it raise.
        """
        node = self._node
        if node.stopped:
            return []
        node.now, node.wall_ms = now, wall_ms
        role = node.role
        # Before the event: a leader whose process was suspended may have been deposed long ago, and
        # must not answer one request as a leader before it notices (etcd#20418). Seeded bug in
        # tests/sim: ``a_paused_leader_answers``.
        if isinstance(role, Leader) and now >= role.silent_at:
            self._leader_role.poll(role)
        self._events[event.__class__](event)
        if not node.stopped:
            self._poll()
        if node.is_relay and not node.stopped:
            self._relaying.poll()
        return node.take()

    @property
    def deadline(self) -> float:
        """When a ``Tick`` is needed at the latest, in monotonic seconds; infinite for never."""
        if self._node.stopped or self._done:
            return math.inf
        return min(self._role_deadline(), self._relaying.deadline)

    def _role_deadline(self) -> float:
        role = self._node.role
        if isinstance(role, Follower):
            return self._following.deadline(role)
        if isinstance(role, Leader):
            return min(
                self._leader_role.deadline(role),
                role.delayed_until,
                self._voter_changes.deadline(role),
            )
        if isinstance(role, Prospective | Candidate):
            found = self._election.nominee_deadline(role)
        elif isinstance(role, Resigned):
            found = self._resigned_role.deadline(role)
        else:
            found = min(role.election_at, self._discovery.deadline())
        return min(found, self._shut_down_by)

    def _poll(self) -> None:
        """Poll the current role, and each role that the node takes on the way."""
        node = self._node
        if node.now >= self._shut_down_by:
            self._complete_shut_down()
        if self._done:
            return
        role: Role | None = None
        # A lost pre-vote leads back to Follower, which may campaign again. Its deadline then lies
        # in the future, so a chain of roles is short.
        turns = 0
        while node.role is not role and not node.stopped:
            role = node.role
            turns += 1
            # A bound on a fault of this code: without it the loop would hold the process.
            assert turns < 16, "roles that follow each other without end"
            self._poll_role(role)

    def _poll_role(self, role: Role) -> None:
        if isinstance(role, Follower):
            self._election.poll_follower(role)
            if self._node.role is role:
                self._registration.poll(role)
                self._following.poll(role)
        elif isinstance(role, Leader):
            self._leader_role.poll(role)
            if self._node.role is role:
                self._serving.poll(role)
                self._voter_changes.poll(role)
        elif isinstance(role, Unattached):
            self._election.poll_unattached(role)
            if self._node.role is role:
                self._discovery.poll()
        elif isinstance(role, Resigned):
            self._resigned_role.poll(role)
        else:
            self._election.poll_nominee(role)

    # --- events ---

    def _requested(self, event: Requested) -> None:
        self._requests[event.message.__class__](event)

    def _cancelled(self, event: Cancelled) -> None:
        self._serving.cancel(event.number)
        self._voter_changes.cancel(event.number)

    def _answered(self, event: Answered) -> None:
        self._node.peers.answered(event.number, event.message, event.version, self._node.now)

    def _failed(self, event: Failed) -> None:
        self._node.peers.failed(event.number, event.failure, self._node.now)

    def _ticked(self, event: Tick) -> None:
        pass

    def _durable(self, event: Durable) -> None:
        node, role = self._node, self._node.role
        assert event.token <= node.token, "more is durable than was given out"
        # Written and synced, but no more of the log: of ``quorum-state`` or of a truncation.
        if not node.log.synced(event.token):
            return
        if isinstance(role, Leader):
            # The high watermark first: it answers the parked Fetches with the records and with its
            # new value, and ``log_grew`` finds only those that it did not answer.
            self._leader_role.advance(role)
            self._serving.log_grew(role)
        elif isinstance(role, Follower):
            self._following.advance(role)

    def _snapshot_written(self, event: SnapshotWritten) -> None:
        assert event.id.end_offset <= self._node.high_watermark, (
            "a snapshot of what is not committed"
        )
        # A newer snapshot of the leader's may have replaced the log while this one was written. The
        # driver writes it beside this loop.
        if event.id.end_offset >= self._node.log.start_offset:
            self._node.log.add_snapshot(event.id)

    def _cleaned(self, event: Cleaned) -> None:
        assert event.start_offset <= self._node.high_watermark, "cleaned beyond what is committed"
        if event.start_offset >= self._node.log.start_offset:
            self._node.log.clean(event.start_offset, event.snapshots)

    def _resign(self, event: Resign) -> None:
        node, role = self._node, self._node.role
        # A controller that asks late must not end the next leadership of its node
        # (``KafkaRaftClient.resign``).
        if isinstance(role, Leader) and role.epoch == event.epoch:
            node.report("leader resigns", epoch=role.epoch, reason=event.reason)
            self._leader_role.resign()

    def _image_lacks(self, event: ImageLacks) -> None:
        node, role = self._node, self._node.role
        node.image_lacks = event.what
        if event.what is not None and isinstance(role, Leader):
            node.report("leader resigns", epoch=role.epoch, reason=event.what)
            self._leader_role.resign()
        elif event.what is not None and isinstance(role, Prospective | Candidate):
            self._election.wait()
        elif isinstance(role, Unattached):
            self._set_election_time(role)

    def _shut_down(self, event: ShutDown) -> None:
        """Resign as a leader, and wait for the next leader, for ``timeout_s`` at most (KIP-595)."""
        node = self._node
        node.leaving = True
        # A second request may shorten the time, but not prolong it.
        self._shut_down_by = min(self._shut_down_by, node.now + event.timeout_s)
        if isinstance(node.role, Leader):
            self._leader_role.resign()
        # A follower has nothing to hand over. Kafka's candidate continues until its election is
        # decided (``pollCandidate``); here the other voters elect without it.
        if not isinstance(node.role, Resigned) or not node.others():
            self._complete_shut_down()

    def _complete_shut_down(self) -> None:
        if not self._done:
            self._done = True
            self._node.emit(ShutDownComplete())

    def _describe(self, event: Requested) -> None:
        describe_quorum(self._node, event)

    # --- calls between the parts ---

    def _elected(self, candidate: Candidate) -> None:
        self._leader_role.become_leader(candidate)

    def _committed(self, leader: Leader) -> None:
        # The replicas before the client: they can use the high watermark at once.
        self._serving.committed(leader)
        self._voter_changes.committed(leader)

    def _left(self, role: Role) -> None:
        node = self._node
        if isinstance(role, Leader):
            self._serving.stopped_leading(role)
            # Seeded bug in tests/sim for the line above: ``parked_fetches_are_forgotten``.
            self._voter_changes.stopped_leading(role)
        # Another node leads, so that nothing is left to wait for (``maybeCompleteShutdown``).
        if isinstance(node.role, Follower) and self._shut_down_by < math.inf:
            self._complete_shut_down()

    def _voters_changed(self) -> None:
        role = self._node.role
        if isinstance(role, Leader):
            self._leader_role.voters_changed(role)
        # A node that has become a voter needs an election timeout, and one that was removed must
        # not campaign.
        elif isinstance(role, Unattached):
            self._set_election_time(role)

    def _set_election_time(self, role: Unattached) -> None:
        node = self._node
        role.election_at = (
            min(role.election_at, node.election_at()) if node.is_electable else math.inf
        )

    # --- state for metrics, status pages and the driver; -1 stands for no node and no offset ---

    @property
    def leads_until(self) -> float:
        """Until when a second leader is unlikely, in monotonic seconds; infinite for a quorum of
        one, -inf unless this node leads.

        It is a fetch timeout after the fetches of a majority. A second leader is still possible: a
        response may be lost, a follower restart, a granted pre-vote arrive late, or clocks drift. A
        caller that must be sure commits a record first, which only a leader can.
        """
        role = self._node.role
        return self._leader_role.leads_until(role) if isinstance(role, Leader) else -math.inf

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
    def measures(self) -> RaftMetrics:
        """Counts and durations since the start."""
        return self._node.measures

    @property
    def replicas(self) -> tuple[tuple[Progress, ...], tuple[Progress, ...]]:
        """The progress of the other voters, and of the observers; empty unless this node leads."""
        role = self._node.role
        if not isinstance(role, Leader):
            return (), ()
        return tuple(role.progress.values()), tuple(observers_of(role, self._node.now))
