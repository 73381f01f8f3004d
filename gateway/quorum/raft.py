"""A node of a KRaft quorum (KIP-595) as a pure machine: ``step(event, now, wall_ms)`` gives the
effects to be performed.

Kafka's ``KafkaRaftClient``. The parts next door know the rules; this one knows which of them an
event concerns, and what has to be done next in which role. No clock, no dice of its own, no files,
no sockets: two runs with the same events are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gateway.address import Address
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
from gateway.quorum.measures import Measures
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.quorum_requests import QuorumRequests
from gateway.quorum.replicated_log import ReplicatedLog
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
    """One node. What must outlive it is in its effects; it is born again from what they left on its
    disk.

    ``random`` gives numbers from 0 to 1. ``now``: monotonic seconds; ``wall_ms``: for timestamps of
    records and nothing else.
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
        node = self._node = Node(settings, stored, random=random, now=now, wall_ms=wall_ms)
        self._election = Election(node, self._elected)
        self._discovery = LeaderDiscovery(node)
        self._following = Following(node, self._discovery)
        self._leader_role = LeaderRole(node, self._committed)
        self._serving = Serving(node, self._leader_role)
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
        """Once, before the first event: come back as what the disk remembers
        (``QuorumState.initialize``).

        A leader comes back as one that resigned: what it had not made durable is lost, and nothing
        may stand in its place under the same epoch (KAFKA-10527). A candidate keeps its vote and
        waits for another election.
        """
        node = self._node
        node.now, node.wall_ms = now, wall_ms
        state = node.election
        node.role = Unattached(node.election_at())
        if node.is_self(state.leader_id):
            node.become_resigned(set(node.others()))
        elif (
            state.leader_id != NO_NODE and (address := node.address_of(state.leader_id)) is not None
        ):
            node.become_follower(state.epoch, state.leader_id, {node.settings.listener: address})
        node.announce_leader()
        if len(node.voters) == 1 and node.is_voter and node.may_campaign:
            # at once: whoever led this epoch is remembered until the next one begins
            self._election.campaign()
        self._poll()
        return node.take()

    def step(self, event: Event, now: float, wall_ms: int) -> list[Effect]:
        """What happened at ``now``, and what is to be done about it, in this order. Never raises
        for what peers send.
        """
        node = self._node
        if node.stopped:
            return []
        node.now, node.wall_ms = now, wall_ms
        role = node.role
        if isinstance(role, Leader) and now >= role.silent_at:
            self._leader_role.poll(
                role
            )  # whoever was stopped for so long answers nothing as a leader any more (etcd#20418)
        self._events[event.__class__](event)
        if not node.stopped:
            self._poll()
        return node.take()

    @property
    def deadline(self) -> float:
        """When a ``Tick`` is needed at the latest, in monotonic seconds; infinite while there is
        nothing to wait for.
        """
        if self._node.stopped or self._done:
            return math.inf
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
            found = self._leader_role.resigned_deadline(role)
        else:
            found = min(role.election_at, self._discovery.deadline())
        return min(found, self._shut_down_by)

    def _poll(self) -> None:
        """What the role has to do now; whoever becomes something else on the way has its turn at
        once.
        """
        node = self._node
        if node.now >= self._shut_down_by:
            self._complete_shut_down()
        if self._done:
            return
        role: Role | None = None
        turns = 0
        while node.role is not role and not node.stopped:
            role = node.role
            turns += 1
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
            self._leader_role.poll_resigned(role)
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
        if not node.log.synced(event.token):
            return
        if isinstance(role, Leader):
            self._leader_role.advance(role)
            self._serving.log_grew(role)
        elif isinstance(role, Follower):
            self._following.advance(role)

    def _snapshot_written(self, event: SnapshotWritten) -> None:
        assert event.id.end_offset <= self._node.high_watermark, (
            "a snapshot of what is not committed"
        )
        if (
            event.id.end_offset >= self._node.log.start_offset
        ):  # a newer one of the leader's may be in its place by now
            self._node.log.add_snapshot(event.id)

    def _cleaned(self, event: Cleaned) -> None:
        assert event.start_offset <= self._node.high_watermark, "cleaned beyond what is committed"
        if event.start_offset >= self._node.log.start_offset:
            self._node.log.clean(event.start_offset, event.snapshots)

    def _resign(self, event: Resign) -> None:
        node, role = self._node, self._node.role
        if isinstance(role, Leader) and role.epoch == event.epoch:
            node.report("leader resigns", epoch=role.epoch, reason=event.reason)
            self._leader_role.resign()

    def _shut_down(self, event: ShutDown) -> None:
        """A leader hands over: it waits until it has heard of the next one, for ``timeout_s`` at
        most (KIP-595).
        """
        node = self._node
        node.leaving = True
        self._shut_down_by = min(self._shut_down_by, node.now + event.timeout_s)
        if isinstance(node.role, Leader):
            self._leader_role.resign()
        if not isinstance(node.role, Resigned) or not node.others():
            self._complete_shut_down()

    def _complete_shut_down(self) -> None:
        if not self._done:
            self._done = True
            self._node.emit(ShutDownComplete())

    def _describe(self, event: Requested) -> None:
        describe_quorum(self._node, event)

    # --- what the parts tell each other ---

    def _elected(self, candidate: Candidate) -> None:
        self._leader_role.take(candidate)

    def _committed(self, leader: Leader) -> None:
        self._serving.committed(leader)
        self._voter_changes.committed(leader)

    def _left(self, role: Role) -> None:
        node = self._node
        if isinstance(role, Leader):
            self._serving.stopped_leading(role)
            self._voter_changes.stopped_leading(role)
        if isinstance(node.role, Follower) and self._shut_down_by < math.inf:
            self._complete_shut_down()

    def _voters_changed(self) -> None:
        node, role = self._node, self._node.role
        if isinstance(role, Leader):
            self._leader_role.voters_changed(role)
        elif isinstance(role, Unattached):
            role.election_at = (
                min(role.election_at, node.election_at()) if node.is_electable else math.inf
            )

    # --- facts, for metrics and status ---

    @property
    def node_id(self) -> int:
        """Who this is."""
        return self._node.settings.node_id

    @property
    def epoch(self) -> int:
        """The newest epoch known."""
        return self._node.epoch

    @property
    def leader_id(self) -> int:
        """Who leads it, -1 while unknown."""
        return self._node.leader_id

    @property
    def voted_id(self) -> int:
        """Who got this node's vote in it, -1 for nobody."""
        return self._node.election.voted_id

    @property
    def role(self) -> str:
        """leader, candidate, prospective, follower, resigned or unattached."""
        return type(self._node.role).__name__.lower()

    @property
    def is_voter(self) -> bool:
        """Is it a voter, or an observer?"""
        return self._node.is_voter

    @property
    def high_watermark(self) -> int:
        """Everything below is committed and durable here; 0 before that is known of anything."""
        return self._node.high_watermark

    @property
    def leader_high_watermark(self) -> int:
        """The high watermark as a leader last told it, in whatever epoch; -1 before."""
        return self._node.leader_high_watermark

    @property
    def leader_answered_at(self) -> float | None:
        """When a leader last answered a Fetch or FetchSnapshot without an error, in monotonic
        seconds; None: never yet.
        """
        return self._node.leader_answered_at

    @property
    def leader_address(self) -> Address | None:
        """Where the leader listens for this node, if both are known."""
        return (
            self._node.address_of(self._node.leader_id) if self._node.leader_id != NO_NODE else None
        )

    @property
    def cluster_id(self) -> str | None:
        """None while an observer has not learned it."""
        return self._node.cluster_id

    @property
    def reported_voters(self) -> frozenset[int]:
        """Ids of the voters as an observer heard of them; empty before."""
        return self._node.reported_voters

    @property
    def log(self) -> ReplicatedLog:
        """Where the log begins and ends, which epochs and snapshots there are. To be read only."""
        return self._node.log

    @property
    def voters(self) -> VoterSet:
        """Who votes."""
        return self._node.voters

    @property
    def kraft_version(self) -> int:
        """0: voters by configuration. 1: by the log (KIP-853)."""
        return self._node.history.kraft_version

    def upgrade_refusal(self, version: int) -> str | None:
        """Why this leader would not make kraft.version ``version`` now (``Propose.kraft_version``);
        None if it would.
        """
        try:
            upgraded_voters(self._node, version)
        except UpgradeRefused as refused:
            return str(refused)
        return None

    @property
    def election_started_at(self) -> float:
        """When this node first stood for the election that goes on, infinite when none does.
        Monotonic seconds.
        """
        return self._node.election_began

    @property
    def leads_until(self) -> float:
        """Up to when this leader's word is worth something without asking (monotonic seconds);
        infinite alone, -inf elsewhere.

        A majority fetched less than a fetch timeout before. That makes a second leader unlikely,
        not impossible: an answer may have been lost, a follower restarted, a pre-vote granted
        earlier arrive late, clocks run apart. Who must be sure commits a record first: only a
        leader can.
        """
        role = self._node.role
        return self._leader_role.leads_until(role) if isinstance(role, Leader) else -math.inf

    @property
    def measures(self) -> Measures:
        """Counts and times since its birth."""
        return self._node.measures

    @property
    def replicas(self) -> tuple[tuple[Progress, ...], tuple[Progress, ...]]:
        """How far the other voters and the observers have this leader's log; nothing where this
        node does not lead.
        """
        role = self._node.role
        if not isinstance(role, Leader):
            return (), ()
        return tuple(role.progress.values()), tuple(observers_of(role, self._node.now))
