"""Leading: what is appended, what of it is committed, and whether enough voters still follow
(KIP-595).

Kafka's ``LeaderState``, ``pollLeader``, ``pollResigned`` and ``handleEndQuorumEpochRequest``. Knows
no Fetch: that is served next door.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.quorum import batches, checks, requests, transitions
from gateway.quorum.effects import Accepted, Advance, ElectionState, Leading, Refused
from gateway.quorum.errors import error_name
from gateway.quorum.events import Propose
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.roles import Candidate, Leader, Progress, Resigned
from gateway.quorum.upgrading import UpgradeRefused, upgraded_voters
from gateway.quorum.voter_set import VoterSet
from kwire.errors import EncodeError
from kwire.message import Message
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.uuid import ZERO_UUID, Uuid

#: A leader without fetches from a majority for so many fetch timeouts resigns
#: (``LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR``).
CHECK_QUORUM_FACTOR = 1.5


class LeaderRole:
    """The part of a node that leads."""

    def __init__(self, node: Node, committed: Callable[[Leader], None]) -> None:
        self._node = node
        self._committed = committed  #: told when the high watermark rose

    # --- taking office ---

    def take(self, candidate: Candidate) -> None:
        """A majority voted for this node: its epoch begins with a LEADER_CHANGE record."""
        node, me = self._node, self._node.settings.node_id
        assert node.may_campaign or node.is_voter, "an observer was elected"
        granting = [id for id, granted in candidate.votes.items() if granted and id in node.voters]
        assert len(granting) >= node.voters.majority, "elected without a majority"
        if node.election_began < math.inf:
            node.measures.election.add(node.now - node.election_began)
            node.election_began = math.inf
        start_offset = node.log.end_offset
        leader = Leader(node.epoch, start_offset, node.now, {}, node.now, math.inf)
        self._fill(leader, node.voters)
        node.enter(leader, ElectionState(node.epoch, me))
        messages = [batches.leader_change(me, node.voters, granting)]
        if node.history.kraft_version >= 1 and node.history.offset < 0:
            # The voters of formatting are in no log yet: the first leader writes them down
            # (KIP-853).
            messages += [
                batches.kraft_version(node.history.kraft_version),
                batches.kraft_voters(node.voters),
            ]
        self._append(leader, messages, [], start_offset + len(messages))
        node.emit(Leading(node.epoch, start_offset))

    def _fill(self, leader: Leader, voters: VoterSet) -> None:
        """Progress of the voters, of those that were observers until now too; and the other way
        round.
        """
        me = self._node.settings
        known = leader.progress
        leader.progress = {}
        for voter in voters:
            if voter.id == me.node_id and voters.has(me.node_id, me.directory_id):
                continue
            progress = known.pop(voter.id, None)
            if progress is None or not voter.is_key(progress.id, progress.directory_id):
                progress = leader.observers.pop((voter.id, voter.directory_id), None) or Progress(
                    voter.id
                )
            progress.directory_id = (
                voter.directory_id if voter.directory_id != ZERO_UUID else progress.directory_id
            )
            leader.progress[voter.id] = progress
        leader.observers.update({(was.id, was.directory_id): was for was in known.values()})
        leader.silent_at = self._silent_at(leader)

    def voters_changed(self, leader: Leader) -> None:
        """Other voters count from now on (KIP-853)."""
        self._fill(leader, self._node.voters)
        leader.begin_at = self._node.now
        self.advance(leader)

    # --- the log ---

    def propose(self, event: Propose) -> None:
        """Append the controller's records: each batch whole, all of them or none (KAFKA-12376,
        13148).
        """
        node, role = self._node, self._node.role
        if not isinstance(role, Leader) or role.epoch != event.epoch:
            leads = (
                f"node {node.leader_id} leads epoch {node.epoch}"
                if node.leader_id >= 0
                else "nobody is known to lead"
            )
            node.emit(
                Refused(event.number, True, f"this node does not lead epoch {event.epoch}: {leads}")
            )
            return
        try:
            upgrade = self._upgrade(event.kraft_version)
            base_offset = node.log.end_offset + len(upgrade)
            made, end_offset = self._make(event, base_offset)
        except (EncodeError, ValueError, UpgradeRefused) as error:
            node.emit(Refused(event.number, False, str(error)))
            return
        self._append(role, upgrade, made, end_offset)
        node.measures.appended_records += end_offset - base_offset
        node.emit(Accepted(event.number, base_offset, end_offset))

    def _upgrade(self, version: int | None) -> list[tuple[str, Message]]:
        """The records that make kraft.version ``version``; none where it is that, or nobody asks.
        Raises UpgradeRefused.
        """
        voters = None if version is None else upgraded_voters(self._node, version)
        return (
            []
            if version is None or voters is None
            else [batches.kraft_version(version), batches.kraft_voters(voters)]
        )

    def _make(self, event: Propose, offset: int) -> tuple[list[tuple[int, bytes]], int]:
        """(base offset, bytes) of each batch, the first at ``offset``, and where they end. Raises
        ValueError, EncodeError.
        """
        made: list[tuple[int, bytes]] = []
        most = self._node.settings.batch_max_bytes
        for values in event.batches:
            if not values:
                raise ValueError("a batch without records")
            data = batches.data_batch(values, offset, event.epoch, self._node.wall_ms)
            if len(data) > most:
                raise ValueError(f"a batch of {len(data)} bytes, {most} are the most")
            made.append((offset, data))
            offset += len(values)
        if not made:
            raise ValueError("no records at all")
        return made, offset

    def append_voters(self, leader: Leader, voters: VoterSet) -> int:
        """Append a KRAFT_VOTERS record, which counts from now on: its offset."""
        assert self._node.role is leader, "only the leader changes the voters"
        offset = self._node.log.end_offset
        self._append(leader, [batches.kraft_voters(voters)], [], offset + 1)
        return offset

    def _append(
        self,
        leader: Leader,
        control: list[tuple[str, Message]],
        more: list[tuple[int, bytes]],
        end_offset: int,
    ) -> None:
        """Append a batch of the control records, if there are any, and (base offset, bytes) of the
        batches behind it, at once.

        What the records say of who votes counts from now on.
        """
        node, base_offset, before = self._node, self._node.log.end_offset, self._node.voters
        made = (
            [
                (
                    base_offset,
                    batches.control_batch(control, base_offset, leader.epoch, node.wall_ms),
                ),
                *more,
            ]
            if control
            else more
        )
        node.append(
            b"".join(data for _, data in made),
            end_offset,
            [(leader.epoch, base) for base, _ in made],
        )
        leader.uncommitted.append((end_offset, node.now))
        for offset, (_, message) in enumerate(control, base_offset):
            if isinstance(message, KRaftVersionRecord):
                node.history.add_version(offset, message.k_raft_version)
            elif isinstance(message, VotersRecord):
                node.history.add_voters(offset, VoterSet.of_record(message))
        if node.voters != before:
            node.voters_changed()

    def advance(self, leader: Leader) -> None:
        """The high watermark is the largest offset that a majority has, never less than it was.

        It must lie strictly past the LEADER_CHANGE record: what earlier epochs left is not
        committed before something of this one is (Raft's figure 8; past and not at: KAFKA-12619).
        This node counts by what is durable here.
        """
        node = self._node
        flushed, voters = node.log.flushed, node.voters
        offsets = [progress.offset for progress in leader.progress.values()]
        if len(offsets) < len(voters):
            offsets.append(flushed)
        offsets.sort(reverse=True)
        reached = min(offsets[voters.majority - 1], flushed)
        if reached <= leader.start_offset or reached <= leader.high_watermark:
            return
        leader.high_watermark = reached
        uncommitted = leader.uncommitted
        while uncommitted and uncommitted[0][0] <= reached:
            node.measures.commit.add(node.now - uncommitted.popleft()[1])
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))
        self._committed(leader)

    # --- the other voters ---

    def voter_fetched(self, leader: Leader, voter: Progress) -> None:
        """A voter fetched: it follows."""
        voter.fetched_at = self._node.now
        voter.begun = True
        leader.silent_at = self._silent_at(leader)

    def _silent_at(self, leader: Leader) -> float:
        """When a majority will not have been heard for too long (KAFKA-15489). Never where this
        node is a majority (16144).
        """
        heard = self._majority_fetched_at(leader, leader.began_at)
        return heard + CHECK_QUORUM_FACTOR * self._node.settings.fetch_timeout_s

    def leads_until(self, leader: Leader) -> float:
        """Up to when others probably still follow: their patience with a leader, after a majority's
        last Fetches.
        """
        return self._majority_fetched_at(leader, -math.inf) + self._node.settings.fetch_timeout_s

    def _majority_fetched_at(self, leader: Leader, at_least: float) -> float:
        """Since when a majority of the voters has been heard, this node included; infinite where it
        is one by itself.
        """
        voters = self._node.voters
        needed = voters.majority - (len(leader.progress) < len(voters))
        if needed <= 0:
            return math.inf
        heard = sorted(
            (max(voter.fetched_at, at_least) for voter in leader.progress.values()), reverse=True
        )
        return heard[needed - 1]

    def poll(self, leader: Leader) -> None:
        """Resign when nobody follows, remind those that do not."""
        node = self._node
        if leader.removed or node.now >= leader.silent_at:
            reason = (
                "it is no voter any more"
                if leader.removed
                else "no majority of the voters fetched in time"
            )
            node.report("leader resigns", epoch=leader.epoch, reason=reason)
            self.resign()
            return
        if node.now >= leader.begin_at:
            leader.begin_at = node.now + self._begin_interval_s
            for voter in leader.progress.values():
                if node.now - voter.fetched_at >= self._begin_interval_s:
                    voter.begun = False
        for voter in leader.progress.values():
            if not voter.begun:
                self._begin(leader, voter)

    def deadline(self, leader: Leader) -> float:
        """When :meth:`poll` has something to do next."""
        node, deadline = self._node, min(leader.silent_at, leader.begin_at)
        for voter in leader.progress.values():
            if not voter.begun:
                address = node.address_of(voter.id)
                if address is not None:
                    deadline = min(deadline, node.peers.ready_at(address))
        return deadline

    @property
    def _begin_interval_s(self) -> float:
        return self._node.settings.fetch_timeout_s / 2

    def _begin(self, leader: Leader, voter: Progress) -> None:
        node = self._node
        address = node.address_of(voter.id)
        if address is None or node.now < node.peers.ready_at(address):
            return
        request = partial(
            requests.begin_quorum_epoch,
            cluster_id=node.cluster_id,
            epoch=leader.epoch,
            leader_id=node.settings.node_id,
            voter=node.voters.nodes[voter.id],
            endpoints=node.settings.endpoints,
        )
        on_answer = partial(self._on_begin_answer, leader, voter)
        key, versions = BeginQuorumEpochRequest.API_KEY, requests.BEGIN_VERSIONS
        node.ask(address, voter.id, key, versions, request, on_answer, after=node.state_token)

    def _on_begin_answer(
        self, leader: Leader, voter: Progress, message: Any, version: int
    ) -> bool | None:
        late = self._node.role is not leader
        acknowledged = self._acknowledged(f"voter {voter.id}", message)
        voter.begun = voter.begun or acknowledged
        return None if late else acknowledged

    def _acknowledged(self, sender: str, message: Any) -> bool:
        """Is it the answer, without error, of one who knows of no newer epoch?"""
        partition = checks.only_partition(message.topics)
        if message.error_code or partition is None:
            self._node.protocol_violation(
                sender,
                f"an answer with {error_name(message.error_code)} and {len(message.topics)} topics",
            )
            return False
        return transitions.handle_common_response(
            self._node,
            sender,
            partition.error_code,
            partition.leader_epoch,
            partition.leader_id,
            message.node_endpoints,
        )

    # --- leaving office ---

    def resign(self) -> None:
        """Lead no more, and tell the voters who should be next: those first who have most of the
        log (KIP-595).
        """
        node, leader = self._node, self._node.role
        assert isinstance(leader, Leader), "only a leader resigns"
        best_first = sorted(leader.progress.values(), key=lambda voter: (-voter.offset, voter.id))
        successors: tuple[tuple[int, Uuid], ...] = tuple(
            (voter.id, voter.directory_id) for voter in best_first
        )
        node.become_resigned(set(leader.progress), successors)

    def poll_resigned(self, role: Resigned) -> None:
        """Tell the voters; after a while a new epoch is needed, as this one cannot have another
        leader.
        """
        node = self._node
        if node.now >= role.election_at:
            node.become_unattached(node.epoch + 1, NO_NODE, afresh=True)
            return
        for id in sorted(role.unaware):
            self._end(role, id)

    def resigned_deadline(self, role: Resigned) -> float:
        """When :meth:`poll_resigned` has something to do next."""
        node, deadline = self._node, role.election_at
        for id in role.unaware:
            address = node.address_of(id)
            if address is not None:
                deadline = min(deadline, node.peers.ready_at(address))
        return deadline

    def _end(self, role: Resigned, id: int) -> None:
        node = self._node
        address = node.address_of(id)
        if address is None or node.now < node.peers.ready_at(address):
            return
        request = partial(
            requests.end_quorum_epoch,
            cluster_id=node.cluster_id,
            epoch=node.epoch,
            leader_id=node.settings.node_id,
            successors=role.successors,
            endpoints=node.settings.endpoints,
        )
        on_answer = partial(self._on_end_answer, role, id)
        key, versions = EndQuorumEpochRequest.API_KEY, requests.END_VERSIONS
        node.ask(address, id, key, versions, request, on_answer, after=node.state_token)

    def _on_end_answer(self, role: Resigned, id: int, message: Any, version: int) -> bool | None:
        late = self._node.role is not role
        acknowledged = self._acknowledged(f"voter {id}", message)
        if acknowledged:
            role.unaware.discard(id)
        return None if late else acknowledged
