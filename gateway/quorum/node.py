"""One node of the quorum: its state, the effects it gives out, and how one role follows another
(``QuorumState``).

The parts of the core (elections, leading, following, ...) share this one object. Knows no message
and no rule of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.address import Address
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
from gateway.quorum.measures import Measures
from gateway.quorum.peers import OnAnswer, OnFailed, Peers
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
from gateway.snapshot_id import SnapshotId
from kwire.message import Message
from kwire.uuid import ZERO_UUID, Uuid

NO_NODE: Final = -1
#: An epoch is an int32, and nothing follows the last one: whoever is in it stays as it is (Kafka
#: would go on below zero).
EPOCH_MAX: Final = (1 << 31) - 1
_ADDRESSES_MAX: Final = 64
#: Different log lines kept from being repeated.
_REPORTED_MAX: Final = 64


class Node:
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
        self.cluster_id = (
            settings.cluster_id or None
        )  #: None until an observer has learned it; an empty one would be refused
        self.reported_voters: frozenset[int] = (
            frozenset()
        )  #: ids that an observer heard of, empty while it heard of none
        self.leader_high_watermark = -1  #: as a leader last told, in whatever epoch
        self.leader_answered_at: float | None = None  #: when a leader last answered as one
        self.retry = RetryPolicy(
            settings.retry_backoff_s, settings.retry_backoff_max_s, random
        )  #: of an observer alone
        self.measures = Measures()
        self.leader_endpoints: Mapping[str, Address] = {}  #: of the leader last followed
        self.addresses: dict[
            int, Address
        ] = {}  #: where nodes were said to listen, besides what the voter set says
        self.election = _first_state(stored, self.log.last_epoch)
        snapshot = self.log.latest_snapshot
        floor = max(stored.high_watermark, self.log.start_offset, snapshot[0] if snapshot else 0)
        self.high_watermark = min(
            floor, self.log.end_offset
        )  #: committed and durable here; never falls
        self.installing: SnapshotId | None = (
            None  #: the disk is about to put a snapshot in the log's place
        )
        self.stopped = False
        self.leaving = False  #: the process is about to end: it leads no more, and votes on
        self.token = 0  #: of the last effect on the disk
        self.state_token = 0  #: of the last Persist
        self.left: Callable[[Role], None] = (
            _nothing  #: told which role was left, when the new one is in place
        )
        self.voters_changed: Callable[[], None] = (
            _nothing_changed  #: told after the voters became others
        )
        self.role: Role = Unattached(math.inf)
        self.election_began = math.inf  #: when this node first stood for the election that goes on
        self._stored = stored.election or ElectionState(0)  # which is what no file means
        self._announced: tuple[int, int] | None = None
        self._effects: list[Effect] = []
        self._reported: set[tuple[str, ...]] = (
            set()
        )  # events that are not repeated before there is progress

    # --- who is who ---

    @property
    def epoch(self) -> int:
        """The newest epoch known."""
        return self.election.epoch

    @property
    def leader_id(self) -> int:
        """Who leads it, -1 while unknown."""
        return self.election.leader_id

    @property
    def voters(self) -> VoterSet:
        """Who votes now."""
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Is this node one of the voters?"""
        return self.settings.observer is None and self.history.is_voter

    def is_self(self, id: int) -> bool:
        """Is that this node? An observer may be without an id: -1 then stands for no node at
        all.
        """
        return id >= 0 and id == self.settings.node_id

    @property
    def replica(self) -> tuple[int, Uuid]:
        """Replica id and directory id, as Fetch and FetchSnapshot carry them.

        An observer keeps its id back until it knows the voters: the leader would count the fetches
        of a voter's id towards the high watermark (a voter without a directory id is matched by its
        id alone). Without an id the directory id would only add rows to DescribeQuorum.
        """
        settings = self.settings
        if settings.observer is not None and (settings.node_id < 0 or not self.reported_voters):
            return NO_NODE, ZERO_UUID
        return settings.node_id, settings.directory_id

    @property
    def is_electable(self) -> bool:
        """Does it stand for election when nobody leads? Not as an observer, not as a witness, not
        after the last epoch.
        """
        if (
            self.leaving
            or not self.settings.campaigns
            or self.settings.observer is not None
            or self.election.epoch >= EPOCH_MAX
        ):
            return False
        return self.is_voter or self._is_on_its_way_out

    @property
    def _is_on_its_way_out(self) -> bool:
        """Removed by a record that may not be committed yet: nobody else may have it, and then only
        this node can be elected (Ongaro's thesis, 4.2.2). Its own vote does not count.
        """
        history, me = self.history, self.settings
        return history.offset >= self.high_watermark and history.previous.has(
            me.node_id, me.directory_id
        )

    @property
    def may_campaign(self) -> bool:
        """May it stand for election now? Not while its log is about to be replaced by a
        snapshot.
        """
        return self.installing is None and self.is_electable

    def others(self) -> list[int]:
        """The ids of the other voters."""
        me = self.settings.node_id
        return [id for id in self.history.voters.nodes if id != me]

    def address_of(self, id: int) -> Address | None:
        """Where node ``id`` listens for us, None while unknown."""
        listener = self.settings.listener
        if id == self.election.leader_id and listener in self.leader_endpoints:
            return self.leader_endpoints[listener]
        voter = self.history.voters.nodes.get(id)
        if voter is not None and listener in voter.endpoints:
            return voter.endpoints[listener]
        return self.addresses.get(id)

    def leader_endpoint(self, listener: str) -> Address | None:
        """Where the leader listens for those who came by ``listener``."""
        leader_id = self.election.leader_id
        if self.is_self(leader_id):
            return self.settings.endpoints.get(listener)
        if leader_id == NO_NODE:
            return None
        if listener in self.leader_endpoints:
            return self.leader_endpoints[listener]
        voter = self.history.voters.nodes.get(leader_id)
        return voter.endpoints.get(listener) if voter is not None else None

    def learn_address(self, id: int, host: str, port: int) -> None:
        """Somebody said where node ``id`` listens; what cannot be an address is passed over."""
        if id < 0 or not 0 < port < 65536 or not 0 < len(host) < 256:
            return
        if len(self.addresses) >= _ADDRESSES_MAX and id not in self.addresses:
            self.addresses.clear()
        self.addresses[id] = Address(host, port)

    # --- effects ---

    def emit(self, effect: Effect) -> None:
        """Give out an effect that is not one on the disk."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """The effects given out since the last time."""
        effects, self._effects = self._effects, []
        return effects

    def next_token(self) -> int:
        """For the next effect on the disk."""
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
        """Send a request, once everything up to the token ``after`` is durable."""
        timeout_s = self.settings.request_timeout_s
        if (
            node_id != NO_NODE
        ):  # a known leader has the fetch timeout at most: its silence is enough sooner
            timeout_s = min(timeout_s, self.settings.fetch_timeout_s)
        number = self.peers.begin(address, timeout_s, self.now, on_answer, on_failed)
        self.emit(Send(number, node_id, address, api_key, versions, timeout_s, request, after))

    def report(self, event: str, **fields: Any) -> None:
        """A line for the log of the server."""
        self.emit(Report(event, fields))

    def report_once(self, event: str, **fields: Any) -> None:
        """As :meth:`report`, but not again before :meth:`progressed`: what fails does so every
        second.
        """
        line = (event, *map(str, fields.values()))
        if line not in self._reported:
            if len(self._reported) >= _REPORTED_MAX:
                self._reported.clear()
            self._reported.add(line)
            self.report(event, **fields)

    def progressed(self) -> None:
        """The log, the high watermark or a leader's answer moved on: what is wrong from here on is
        news.
        """
        self._reported.clear()
        self.retry.progress()

    def back_off(self) -> None:
        """A request brought nothing: an observer pauses before the next one to any address."""
        if self.settings.observer is not None:
            self.retry.back_off(self.now)

    def protocol_violation(self, sender: str, reason: str) -> None:
        """A peer sent what the protocol does not allow: it is counted and logged, not used."""
        self.measures.protocol_violations += 1
        self.report_once("protocol violation", sender=sender, reason=reason)

    def stop(self, reason: str) -> None:
        """Going on would be wrong: a person has to look."""
        self.stopped = True
        self.emit(Stop(reason))

    # --- the log ---

    def append(
        self, data: bytes | memoryview, end_offset: int, batches: Iterable[tuple[int, int]]
    ) -> None:
        """Append whole batches; ``batches``: (epoch, base offset) of each."""
        token = self.next_token()
        base_offset = self.log.end_offset
        self.log.append(token, end_offset, batches)
        self.emit(Append(token, base_offset, data))

    def learn_cluster_id(self, cluster_id: str) -> None:
        """A controller named its cluster. Stops where the local log belongs to another one."""
        if not cluster_id or cluster_id == self.cluster_id:
            return
        if self.cluster_id is not None:
            self.stop(error_messages.other_cluster(self.cluster_id, cluster_id))
            return
        self.cluster_id = cluster_id
        self.emit(LearnClusterId(self.next_token(), cluster_id))

    def learn_voters(self, ids: frozenset[int]) -> None:
        """The voters, as an observer heard of them. Stops where its replica id is a voter's."""
        self.reported_voters = ids
        refusal = voters.refusal(self.settings.node_id, ids)
        if refusal is not None:
            self.stop(refusal)

    def truncate_to(self, offset: int) -> None:
        """Drop what was never committed, and the voters it named."""
        assert offset >= self.high_watermark, "what is committed is never cut"
        token = self.next_token()
        self.log.truncate_to(offset)
        self.emit(Truncate(token, offset))
        before = self.history.voters
        self.history.truncate_to(offset)
        if self.history.voters != before:
            self.voters_changed()

    # --- from role to role ---

    def become_unattached(
        self, epoch: int, leader_id: int = NO_NODE, *, afresh: bool = False
    ) -> None:
        """Nobody can be followed in ``epoch``; ``leader_id`` may be known all the same, without an
        address.

        The time left until this node stands for election goes on, so that epochs made up by others
        do not put it off for ever; ``afresh`` begins it anew.
        """
        assert self.epoch <= epoch <= EPOCH_MAX, "epochs never fall"
        role = self.role
        election_at = self.election_at()
        if not afresh:
            left = _time_left(role)
            election_at = min(election_at, left) if election_at < math.inf else election_at
        retries = role.retries if isinstance(role, Unattached | Prospective | Candidate) else 0
        same = epoch == self.epoch
        state = (
            replace(self.election, leader_id=leader_id) if same else ElectionState(epoch, leader_id)
        )
        self._enter(Unattached(election_at, retries), state)

    def become_follower(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Mapping[str, Address],
        within_s: float | None = None,
    ) -> None:
        """Follow ``leader_id`` of ``epoch``, who is not this node; it must be heard ``within_s``,
        if that is given.
        """
        assert self.epoch <= epoch <= EPOCH_MAX, "epochs never fall"
        assert leader_id != NO_NODE and not self.is_self(leader_id), "a node follows another node"
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
        """Give up leading, or come back as one who led: the epoch stays, its leader is gone."""
        assert self.is_self(self.leader_id), "only a leader resigns"
        stays = self.leaving or self.epoch >= EPOCH_MAX
        election_at = math.inf if stays else self.now + self.random_election_timeout()
        self._enter(Resigned(election_at, unaware, successors), self.election)

    def enter(self, role: Role, state: ElectionState) -> None:
        """Become a nominee or the leader, with what is to be on disk of it."""
        assert state.epoch >= self.epoch, "epochs never fall"
        self._enter(role, state)

    def vote(self, candidate_id: int, directory_id: Uuid) -> None:
        """Grant this epoch's vote: it is on disk before the answer leaves."""
        state = self.election
        assert state.voted_id in (NO_NODE, candidate_id), "one vote an epoch"
        assert state.leader_id == NO_NODE or self.role.__class__ is Resigned, (
            "no vote where there is a leader"
        )
        self._persist(replace(state, voted_id=candidate_id, voted_directory_id=directory_id))

    def random_election_timeout(self) -> float:
        """Seconds until an election, once and up to twice ``election_timeout_s``: nodes must not
        stand in step.
        """
        return self.settings.election_timeout_s * (1.0 + self.random())

    def random_fetch_timeout(self) -> float:
        """Seconds that a leader may be silent: at least ``fetch_timeout_s``, drawn anew for each,
        so that not all followers of a dead one ask for votes at the same moment.
        """
        return (
            self.settings.fetch_timeout_s + 0.25 * self.settings.election_timeout_s * self.random()
        )

    def election_at(self) -> float:
        """When an unattached node with all its time before it stands for election."""
        return self.now + self.random_election_timeout() if self.is_electable else math.inf

    def _enter(self, role: Role, state: ElectionState) -> None:
        left, self.role = self.role, role
        assert can_follow(left, role), f"{type(role).__name__} after {type(left).__name__}"
        if state.leader_id != self.election.leader_id and role.__class__ is not Follower:
            self.leader_endpoints = {}
        self._persist(state)
        if left.__class__ is Follower and left.download is not None:
            self.emit(AbandonSnapshot(left.download.id))
        self.announce_leader()
        if left.__class__ is Leader:
            self.emit(NotLeading(left.epoch))
        self.left(left)

    def announce_leader(self) -> None:
        """Say who leads which epoch, unless that was said."""
        told = self.election.epoch, self.election.leader_id
        if told != self._announced:
            self._announced = told
            self.emit(LeaderChanged(*told))

    def _persist(self, state: ElectionState) -> None:
        """Remember ``state``, on disk too unless it is there already."""
        assert 0 <= state.epoch <= EPOCH_MAX, "an epoch that is none"
        self.election = state
        if state != self._stored:
            self._stored = state
            self.state_token = self.next_token()
            self.emit(Persist(self.state_token, state, self.history.kraft_version))


def _first_state(stored: Stored, last_epoch: int) -> ElectionState:
    """What was on disk; a log may know a newer epoch than ``quorum-state`` does, and then nobody
    was voted for in it.
    """
    state = stored.election
    if state is None or state.epoch < last_epoch:
        return ElectionState(last_epoch)
    return state


def _time_left(role: Role) -> float:
    """When a node that may campaign would have done so next."""
    if isinstance(role, Prospective | Candidate):
        return role.give_up_at
    if isinstance(role, Follower):
        return role.fetch_until
    return role.election_at if isinstance(role, Unattached) else math.inf


def _nothing(role: Role) -> None:
    pass


def _nothing_changed() -> None:
    pass
