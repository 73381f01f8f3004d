"""Leads an epoch: appends, commits, and resigns when no majority of the voters follows (KIP-595).

``serving`` answers Fetch, and ``resigned_role`` continues after the resignation. Follows
``LeaderState`` and ``pollLeader``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.quorum import batches, quorum_acknowledgement, requests
from gateway.quorum.effects import Accepted, Advance, ElectionState, Leading, Refused
from gateway.quorum.events import Propose
from gateway.quorum.node import Node
from gateway.quorum.roles import Candidate, Leader, Progress
from gateway.quorum.upgrading import UpgradeRefused, upgraded_voters
from gateway.quorum.voter_set import VoterSet
from kwire.errors import EncodeError
from kwire.message import Message
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.uuid import ZERO_UUID, Uuid

#: Fetch timeouts without fetches from a majority after which a leader resigns
#: (``LeaderState.CHECK_QUORUM_TIMEOUT_FACTOR``).
CHECK_QUORUM_FACTOR = 1.5


class LeaderRole:
    """Appends and commits while this node leads, and resigns without a majority."""

    def __init__(self, node: Node, committed: Callable[[Leader], None]) -> None:
        self._node = node
        self._committed = committed  #: called when the high watermark has risen

    # --- becoming leader ---

    def become_leader(self, candidate: Candidate) -> None:
        """Become the leader of the candidate's epoch, which begins with a LEADER_CHANGE record."""
        node, me = self._node, self._node.settings.node_id
        assert node.may_campaign or node.is_voter, "an observer was elected"
        granting = [id for id, granted in candidate.votes.items() if granted and id in node.voters]
        assert len(granting) >= node.voters.majority, "elected without a majority"
        if node.election_began < math.inf:
            node.measures.election.add(node.now - node.election_began)
            node.election_began = math.inf
        # Not 0, whatever the log holds (KAFKA-12331). Seeded bug in tests/sim:
        # ``an_epoch_begins_at_offset_zero``.
        start_offset = node.log.end_offset
        # ``begin_at`` is now: the other voters learn of the leader from BeginQuorumEpoch, and would
        # campaign when their election timeouts end (KIP-595).
        leader = Leader(node.epoch, start_offset, node.now, {}, node.now, math.inf)
        self._fill(leader, node.voters)
        # The vote for itself is dropped from the disk: as the leader stored for this epoch it
        # restarts as Resigned, which grants no vote in it.
        node.enter(leader, ElectionState(node.epoch, me))
        # Without a proposal to wait for: records of older epochs cannot be committed before one of
        # this epoch is, and an idle controller would leave them uncommitted
        # (``KafkaRaftClient.onBecomeLeader``).
        messages = [batches.leader_change(me, node.voters, granting)]
        if node.history.kraft_version >= 1 and node.history.offset < 0:
            # The voters of formatting are in the snapshot 0-0, which is never replicated: the first
            # leader writes them to the log (KIP-853).
            messages += [
                batches.kraft_version(node.history.kraft_version),
                batches.kraft_voters(node.voters),
            ]
        self._append(leader, messages, [], start_offset + len(messages))
        # Behind the Append: the controller waits until this offset is committed (KAFKA-15345,
        # 16286).
        node.emit(Leading(node.epoch, start_offset))

    def _fill(self, leader: Leader, voters: VoterSet) -> None:
        """Assign the known progress to voters and observers; each may have been the other
        before.
        """
        me = self._node.settings
        known = leader.progress
        leader.progress = {}
        for voter in voters:
            if voter.id == me.node_id and voters.has(me.node_id, me.directory_id):
                continue
            progress = known.pop(voter.id, None)
            # An observer that becomes a voter keeps the offset that it had
            # (``updateVoterAndObserverStates``), so that the high watermark need not wait for its
            # next Fetch. A voter of a static quorum that has not fetched yet has no directory id
            # here; when kraft.version is upgraded it is still the same voter.
            if progress is None or not (
                progress.directory_id == ZERO_UUID
                or voter.is_key(progress.id, progress.directory_id)
            ):
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
        """Count the new voter set from now on (KIP-853)."""
        self._fill(leader, self._node.voters)
        # A new voter learns the leader at once.
        leader.begin_at = self._node.now
        # A removal may complete a majority.
        self.advance(leader)

    # --- the log ---

    def propose(self, event: Propose) -> None:
        """Append the controller's records, all batches or none (KAFKA-12376, 13148).

        Emits Accepted or Refused.
        """
        node, role = self._node, self._node.role
        # Seeded bug in tests/sim: ``proposals_of_older_epochs_are_taken``.
        if not isinstance(role, Leader) or role.epoch != event.epoch:
            leads = (
                f"node {node.leader_id} leads epoch {node.epoch}"
                if node.leader_id >= 0
                else "nobody is known to lead"
            )
            # The epoch too must be the proposal's: a controller that was deposed and elected again
            # decided on state that the epoch between may have changed.
            node.emit(
                Refused(event.number, True, f"this node does not lead epoch {event.epoch}: {leads}")
            )
            return
        try:
            # Everything is encoded before the first byte is appended: a batch that is too large
            # refuses the proposal and leaves the log and the leader as they are (KAFKA-14996).
            # Seeded bugs in tests/sim: ``refused_and_appended``,
            # ``only_the_first_batch_is_appended``.
            upgrade = self._upgrade(event.kraft_version)
            base_offset = node.log.end_offset + len(upgrade)
            made, end_offset = self._make(event, base_offset)
        except (EncodeError, ValueError, UpgradeRefused) as error:
            node.emit(Refused(event.number, False, str(error)))
            return
        self._append(role, upgrade, made, end_offset)
        node.measures.appended_records += end_offset - base_offset
        # Accepted is not committed: only ``Advance`` is. Seeded bug in tests/sim:
        # ``acknowledges_when_appended``.
        node.emit(Accepted(event.number, base_offset, end_offset))

    def _upgrade(self, version: int | None) -> list[tuple[str, Message]]:
        """Return the records that raise kraft.version to ``version``; none if it is that already,
        or ``version`` is None. Raises UpgradeRefused.
        """
        voters = None if version is None else upgraded_voters(self._node, version)
        return (
            []
            if version is None or voters is None
            else [batches.kraft_version(version), batches.kraft_voters(voters)]
        )

    def _make(self, event: Propose, offset: int) -> tuple[list[tuple[int, bytes]], int]:
        """Return (base offset, bytes) of each batch, the first at ``offset``, and their end offset.

        Raises ValueError, EncodeError.
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
        """Append a KRAFT_VOTERS record, which is in force from now on; return its offset."""
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
        """Append a batch of the control records, if any, and the encoded batches ``more`` behind
        it.

        The voters that the records name are in force from now on, before they are committed
        (KIP-853).
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
        # One effect for all batches: the disk takes all of them or, after a crash, a prefix of
        # whole batches.
        node.append(
            b"".join(data for _, data in made),
            end_offset,
            [(leader.epoch, base) for base, _ in made],
        )
        # Read for the metric commit-latency alone.
        leader.uncommitted.append((end_offset, node.now))
        for offset, (_, message) in enumerate(control, base_offset):
            if isinstance(message, KRaftVersionRecord):
                node.history.add_version(offset, message.k_raft_version)
            elif isinstance(message, VotersRecord):
                node.history.add_voters(offset, VoterSet.of_record(message), node.high_watermark)
        # Behind the append: the majority of the new set decides on the record that names it
        # (KIP-853).
        if node.voters != before:
            node.voters_changed()

    def advance(self, leader: Leader) -> None:
        """Raise the high watermark to the largest offset that a majority of the voters has
        (``LeaderState.maybeUpdateHighWatermark``).
        """
        node = self._node
        flushed, voters = node.log.flushed, node.voters
        offsets = [progress.offset for progress in leader.progress.values()]
        # This node counts by what is durable on it (KAFKA-10533), and only while it is a voter: a
        # leader that was removed does not count itself (KIP-853). Seeded bugs in tests/sim:
        # ``counts_what_it_has_not_synced``, ``a_removed_leader_counts_itself``.
        if len(offsets) < len(voters):
            offsets.append(flushed)
        offsets.sort(reverse=True)
        # The majority-th largest offset: so many voters have reached it. ``flushed`` bounds it for
        # a leader that is no voter any more: it shows no record that is not on its own disk. Seeded
        # bug in tests/sim: ``commits_with_a_minority``.
        reached = min(offsets[voters.majority - 1], flushed)
        # It must lie strictly past the LEADER_CHANGE record: records of earlier epochs are not
        # committed before one of this epoch is (Raft's figure 8; past and not at: KAFKA-12619). A
        # follower that lost its disk does not lower it. Seeded bugs in tests/sim:
        # ``commits_what_older_epochs_left``, ``commits_at_its_epochs_start``.
        if reached <= leader.start_offset or reached <= leader.high_watermark:
            return
        leader.high_watermark = reached
        uncommitted = leader.uncommitted
        while uncommitted and uncommitted[0][0] <= reached:
            node.measures.commit.add(node.now - uncommitted.popleft()[1])
        # As a follower it may have known a higher one than this epoch has reached so far; what was
        # shown as committed stays so.
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))
        self._committed(leader)

    # --- the other voters ---

    def voter_fetched(self, leader: Leader, voter: Progress) -> None:
        """Note that a voter fetched, so that it knows this leader."""
        voter.fetched_at = self._node.now
        voter.begun = True
        leader.silent_at = self._silent_at(leader)

    def _silent_at(self, leader: Leader) -> float:
        """Return when the leader resigns without further fetches (KAFKA-15489); never if this node
        is a majority alone (KAFKA-16144).
        """
        # A new leader has the whole time, although no voter has fetched from it yet.
        heard = self._majority_fetched_at(leader, leader.began_at)
        return heard + CHECK_QUORUM_FACTOR * self._node.settings.fetch_timeout_s

    def leads_until(self, leader: Leader) -> float:
        """Return until when a majority probably still follows: a fetch timeout after its
        Fetches.
        """
        return self._majority_fetched_at(leader, -math.inf) + self._node.settings.fetch_timeout_s

    def _majority_fetched_at(self, leader: Leader, at_least: float) -> float:
        """Return the time since which a majority of the voters has fetched, this node included;
        infinite if it is a majority alone.
        """
        voters = self._node.voters
        # Itself counts as heard while it is a voter, which it is when ``progress`` lacks one voter
        # (``updateCheckQuorumForFollowingVoter``). Seeded bugs in tests/sim:
        # ``a_lone_voter_resigns``, ``leads_without_followers``.
        needed = voters.majority - (len(leader.progress) < len(voters))
        if needed <= 0:
            return math.inf
        heard = sorted(
            (max(voter.fetched_at, at_least) for voter in leader.progress.values()), reverse=True
        )
        return heard[needed - 1]

    def poll(self, leader: Leader) -> None:
        """Resign if no majority follows; send BeginQuorumEpoch to voters that do not fetch."""
        node = self._node
        # Kafka before 3.7 never looked: a leader that was cut off led on, and its clients waited
        # for commits that could not come (KAFKA-15489).
        if leader.removed or node.now >= leader.silent_at:
            reason = (
                "it is no voter any more"
                if leader.removed
                else "no majority of the voters fetched in time"
            )
            node.report("leader resigns", epoch=leader.epoch, reason=reason)
            self.resign()
            return
        # A voter that stopped fetching may have restarted and not know the leader. Only the voters
        # that do not fetch are reminded, and only every half fetch timeout (KAFKA-17751).
        if node.now >= leader.begin_at:
            # Set from now and not from the last time: after a pause of the process there is one
            # reminder and not one for each interval missed. Seeded bug in tests/sim:
            # ``a_timer_is_never_set_again``.
            leader.begin_at = node.now + self._begin_interval_s
            for voter in leader.progress.values():
                if node.now - voter.fetched_at >= self._begin_interval_s:
                    voter.begun = False
        for voter in leader.progress.values():
            if not voter.begun:
                self._begin(leader, voter)

    def deadline(self, leader: Leader) -> float:
        """Return the time at which :meth:`poll` has to be called next."""
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
        # Not before quorum-state names this node as the leader: after a crash it would refuse
        # messages that do (``is_consistent_leader``).
        node.ask(address, voter.id, key, versions, request, on_answer, after=node.state_token)

    def _on_begin_answer(
        self, leader: Leader, voter: Progress, message: Any, version: int
    ) -> bool | None:
        late = self._node.role is not leader
        acknowledged = quorum_acknowledgement.is_acknowledged(
            self._node, f"voter {voter.id}", message
        )
        voter.begun = voter.begun or acknowledged
        # A late response says nothing about the next request to this voter, so it causes no pause.
        return None if late else acknowledged

    # --- resigning ---

    def resign(self) -> None:
        """Stop leading, and name successors to the voters, those with the longest log first
        (KIP-595).
        """
        node, leader = self._node, self._node.role
        assert isinstance(leader, Leader), "only a leader resigns"
        # The longest log first, because it wins against all others
        # (``nonLeaderVotersByDescendingFetchOffset``).
        best_first = sorted(leader.progress.values(), key=lambda voter: (-voter.offset, voter.id))
        successors: tuple[tuple[int, Uuid], ...] = tuple(
            (voter.id, voter.directory_id) for voter in best_first
        )
        # The epoch stays: the next leader begins a new one, and its Vote ends this role.
        node.become_resigned(set(leader.progress), successors)
