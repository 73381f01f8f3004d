"""Holds the state of one node of the quorum and changes it: effects, log, votes and roles.

The parts of the core (election, leader role, following, ...) share this one object, and it tells
them who is who. It knows no message, and no rule of the parts: it asserts what must hold after any
of them. Follows ``QuorumState``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.base.address import Address
from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum import error_messages, voters
from gateway.quorum.effects import (
    AbandonSnapshot,
    Append,
    Effect,
    ElectionState,
    LeaderChanged,
    LearnClusterId,
    NotLeading,
    Persist,
    Report,
    Send,
    Stop,
    Truncate,
)
from gateway.quorum.leader_distance import LEADER
from gateway.quorum.peers import OnAnswer, OnFailed, Peers
from gateway.quorum.raft_metrics import RaftMetrics
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.retry_policy import RetryPolicy
from gateway.quorum.role_table import can_follow
from gateway.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from gateway.quorum.settings import RaftSettings, Stored
from gateway.quorum.voter_history import VoterHistory
from gateway.quorum.voter_set import VoterSet
from kwire.message import Message
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
#: Different events that are kept from being repeated.
_REPORTED_MAX: Final = 64


class Node:
    """The one mutable object of the core. Every change of role, vote and log goes through it.
    ``now`` (monotonic seconds) and ``wall_ms`` are those of the current event.
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
        self.measures = RaftMetrics()
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
        return self.is_voter or self._is_being_removed

    @property
    def _is_being_removed(self) -> bool:
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

    # --- effects ---

    def emit(self, effect: Effect) -> None:
        """Add an effect. One on the disk must carry ``next_token``."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return the effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def next_token(self) -> int:
        """Return the token of the next effect on the disk."""
        self.token += 1
        return self.token

    def ask(
        self,
        address: Address,
        node_id: int,
        api_key: int,
        versions: range,
        request: Callable[[int], Message],
        on_answer: OnAnswer,
        *,
        after: int,
        on_failed: OnFailed | None = None,
    ) -> None:
        """Send a request once everything up to the token ``after`` is durable."""
        timeout_s = self.settings.request_timeout_s
        # After a fetch timeout of silence the node campaigns, so it need not wait longer for one
        # response.
        if node_id != NO_NODE:
            timeout_s = min(timeout_s, self.settings.fetch_timeout_s)
        # One request in flight to each address, as in Kafka's ``RequestManager``: a second Fetch
        # before the first is answered would name the same offset.
        number = self.peers.begin(address, timeout_s, self.now, on_answer, on_failed)
        self.emit(Send(number, node_id, address, api_key, versions, timeout_s, request, after))

    def report(self, event: str, **fields: Any) -> None:
        """Report an event to the server's log."""
        self.emit(Report(event, fields))

    def report_once(self, event: str, **fields: Any) -> None:
        """As :meth:`report`, but once until :meth:`progressed`: a failing request is repeated every
        second.
        """
        line = (event, *map(str, fields.values()))
        if line not in self._reported:
            if len(self._reported) >= _REPORTED_MAX:
                self._reported.clear()
            self._reported.add(line)
            self.report(event, **fields)

    def progressed(self) -> None:
        """Note progress of the log or of the high watermark, or that the leader answered only after
        its wait: pauses are short again, and each fault is reported once more.
        """
        self._reported.clear()
        self.retry.progress()

    def back_off(self) -> None:
        """Lengthen an observer's pause before the next request to any address."""
        if self.settings.observer is not None:
            self.retry.back_off(self.now)

    def protocol_violation(self, sender: str, reason: str) -> None:
        """Count and report a message that the protocol does not allow; the caller discards it."""
        self.measures.protocol_violations += 1
        self.report_once("protocol violation", sender=sender, reason=reason)

    def doubt(self, sender: str, epoch: int) -> None:
        """Count and report an epoch that this node does not believe; the caller keeps its own."""
        self.measures.protocol_violations += 1
        proven = self.log.last_epoch
        self.report_once("epoch not believed", sender=sender, named=epoch, proven=proven)

    def stop(self, reason: str) -> None:
        """Stop for good: only an operator can decide how to continue."""
        self.stopped = True
        self.emit(Stop(reason))

    # --- the log ---

    def append(
        self, data: bytes | memoryview, end_offset: int, batches: Iterable[tuple[int, int]]
    ) -> None:
        """Append whole batches; ``batches``: (epoch, base offset) of each."""
        # The core's view of the log changes now and the disk later. Only ``log.flushed`` says what
        # is durable, and only that is acknowledged and committed (KAFKA-10533).
        self.answered()
        token = self.next_token()
        base_offset = self.log.end_offset
        self.log.append(token, end_offset, batches)
        self.emit(Append(token, base_offset, data))

    def learn_cluster_id(self, cluster_id: str) -> None:
        """Take the cluster id that a controller named; stop if the local log is of another one."""
        if not cluster_id or cluster_id == self.cluster_id:
            return
        if self.cluster_id is not None:
            # Records of two clusters in one log could not be told apart again.
            self.stop(error_messages.other_cluster(self.cluster_id, cluster_id))
            return
        # On disk before the log grows: after a restart the node must refuse the records of another
        # cluster.
        self.cluster_id = cluster_id
        self.emit(LearnClusterId(self.next_token(), cluster_id))

    def learn_voters(self, ids: frozenset[int]) -> None:
        """Take the voters that were reported to an observer; stop if its replica id is a
        voter's.
        """
        self.reported_voters = ids
        refusal = voters.refusal(self.settings.node_id, ids)
        if refusal is not None:
            self.stop(refusal)

    def truncate_to(self, offset: int) -> None:
        """Drop the records from ``offset`` on, and the voters that they named."""
        # Callers refuse a response that asks for it (KAFKA-12460). Seeded bug in tests/sim:
        # ``truncates_what_is_committed``.
        assert offset >= self.high_watermark, "a committed record is never truncated"
        token = self.next_token()
        self.log.truncate_to(offset)
        self.emit(Truncate(token, offset))
        before = self.history.voters
        # The previous voters are in force again (KIP-853). Seeded bugs in tests/sim:
        # ``cut_off_voters_still_vote``, ``a_truncated_upgrade_stays``.
        self.history.truncate_to(offset)
        if self.history.voters != before:
            self.voters_changed()

    # --- roles ---

    def become_unattached(
        self, epoch: int, leader_id: int = NO_NODE, *, afresh: bool = False
    ) -> None:
        """Move to ``epoch`` without a leader to follow. ``leader_id`` may be known without an
        address.

        ``afresh``: begin a new election timeout.
        """
        assert self.epoch <= epoch <= EPOCH_MAX, "epochs never decrease"
        role = self.role
        election_at = self.election_at()
        # The election timeout continues, as in Kafka's transitionToUnattached. Otherwise a node
        # that raises the epoch again and again would keep this one from campaigning for ever.
        if not afresh:
            left = _time_left(role)
            election_at = min(election_at, left) if election_at < math.inf else election_at
        retries = role.retries if isinstance(role, Unattached | Prospective | Candidate) else 0
        # In the same epoch the vote stays stored: the node may be asked for it again.
        same = epoch == self.epoch
        state = (
            replace(self.election, leader_id=leader_id) if same else ElectionState(epoch, leader_id)
        )
        self._enter(Unattached(election_at, retries), state)

    def answered(self) -> None:
        """Note that a leader has answered this node in its epoch.

        An epoch that no election can have reached needs a record in the log, too.
        """
        if not self.is_answered and self.epoch <= self.log.last_epoch + OUT_OF_REACH:
            self.answered_epoch = self.epoch
            self._persist(self.election)

    def step_back(self, epoch: int) -> None:
        """Give up the epoch of this observer, in which no leader has answered, for ``epoch``."""
        assert not self.is_answered and epoch >= self.proven_epoch, "a leader was in that epoch"
        self._enter(Unattached(math.inf), ElectionState(epoch))

    def become_follower(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Mapping[str, Address],
        within_s: float | None = None,
    ) -> None:
        """Follow ``leader_id`` of ``epoch``, another node, which must answer ``within_s`` seconds
        if that is given, else within the fetch timeout.
        """
        assert self.epoch <= epoch <= EPOCH_MAX, "epochs never decrease"
        assert leader_id != NO_NODE and not self.is_self(leader_id), "a node follows another node"
        # A vote of this epoch stays stored beside the leader's id, in case the leader is lost from
        # sight and another candidate of the epoch asks.
        same = epoch == self.epoch
        assert not same or self.leader_id in (NO_NODE, leader_id), "two leaders of one epoch"
        if self.election_began < math.inf:
            self.measures.election.add(self.now - self.election_began)
            self.election_began = math.inf
        state = (
            replace(self.election, leader_id=leader_id) if same else ElectionState(epoch, leader_id)
        )
        self.leader_endpoints = endpoints
        timeout_s = self.random_fetch_timeout()
        first_s = timeout_s if within_s is None else within_s
        self._enter(Follower(leader_id, endpoints, self.now + first_s, timeout_s), state)

    def become_resigned(
        self, unaware: set[int], successors: tuple[tuple[int, Uuid], ...] = ()
    ) -> None:
        """Stop leading, or restart as the former leader: the epoch stays, without a leader."""
        assert self.is_self(self.leader_id), "only a leader resigns"
        # quorum-state still names this node as the leader of the epoch, so that a restart does not
        # grant a vote in it (``ResignedState``). During a shutdown the node waits for another
        # leader and does not campaign.
        stays = self.leaving or self.epoch >= EPOCH_MAX
        election_at = math.inf if stays else self.now + self.random_election_timeout()
        self._enter(Resigned(election_at, unaware, successors), self.election)

    def enter(self, role: Role, state: ElectionState) -> None:
        """Become a nominee or the leader. ``state`` is what quorum-state must hold."""
        assert state.epoch >= self.epoch, "epochs never decrease"
        self._enter(role, state)

    def vote(self, candidate_id: int, directory_id: Uuid) -> None:
        """Grant this epoch's vote. It is on disk before the response leaves."""
        state = self.election
        # Raft 5.2: at most one candidate gets the vote of a node in an epoch. Two votes could elect
        # two leaders.
        assert state.voted_id in (NO_NODE, candidate_id), "one vote an epoch"
        assert state.leader_id == NO_NODE or self.role.__class__ is Resigned, (
            "no vote where there is a leader"
        )
        self._persist(replace(state, voted_id=candidate_id, voted_directory_id=directory_id))

    def random_election_timeout(self) -> float:
        """Return a random election timeout, one to two times ``election_timeout_s`` (Raft 5.2)."""
        return self.settings.election_timeout_s * (1.0 + self.random())

    def random_fetch_timeout(self) -> float:
        """Return the seconds that a leader may be silent, at least ``fetch_timeout_s``.

        Drawn anew for each leader, so that not all its followers campaign at the same moment.
        """
        return (
            self.settings.fetch_timeout_s + 0.25 * self.settings.election_timeout_s * self.random()
        )

    def election_at(self) -> float:
        """Return when a node that becomes unattached now campaigns."""
        return self.now + self.random_election_timeout() if self.is_electable else math.inf

    def _enter(self, role: Role, state: ElectionState) -> None:
        left, self.role = self.role, role
        assert can_follow(left, role), f"{type(role).__name__} after {type(left).__name__}"
        # ``become_follower`` has set those of the new leader. Without this, ``address_of`` would
        # give the next leader the address of the last one.
        if state.leader_id != self.election.leader_id and role.__class__ is not Follower:
            self.leader_endpoints = {}
        # Before all that can be seen from outside, as in ``QuorumState.durableTransitionTo``:
        # effects are performed in order, and no peer learns of an epoch that a crash could undo.
        self._persist(state)
        # The next leader may have other snapshots, and the bytes of two files must not be mixed.
        if left.__class__ is Follower and left.download is not None:
            self.emit(AbandonSnapshot(left.download.id))
        self.announce_leader()
        # The controller has to revert what it has not committed (KAFKA-13104, 14124). Seeded bug in
        # tests/sim: ``the_controller_is_not_deposed``.
        if left.__class__ is Leader:
            self.emit(NotLeading(left.epoch))
        # At the end: the parked Fetches are answered now, with the new epoch and leader.
        self.left(left)

    def announce_leader(self) -> None:
        """Emit the epoch and its leader if they have changed."""
        told = self.election.epoch, self.election.leader_id
        if told != self._announced:
            self._announced = told
            self.emit(LeaderChanged(*told))

    def _persist(self, state: ElectionState) -> None:
        """Set ``election``, and store it unless the disk has it already."""
        assert 0 <= state.epoch <= EPOCH_MAX, "an epoch is a positive int32"
        if state.epoch != self.election.epoch:
            self.epoch_since = self.now
        self.election = state
        # A false epoch on disk would outlive the peer that named it.
        if not self.is_answered:
            return
        # One sync less for each repetition. Messages name ``state_token``, so none leaves before
        # the state that it speaks of is durable.
        if state != self._stored:
            self._stored = state
            self.state_token = self.next_token()
            self.emit(Persist(self.state_token, state, self.history.kraft_version))


def _time_left(role: Role) -> float:
    """Return when a node in ``role`` would campaign next."""
    if isinstance(role, Prospective | Candidate):
        return role.give_up_at
    if isinstance(role, Follower):
        return role.fetch_until
    return role.election_at if isinstance(role, Unattached) else math.inf


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
