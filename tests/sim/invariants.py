"""What must hold after every event, checked in constant time. It knows everything of every node,
disks included.

Numbers are those of the list in ``docs/simulation.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.quorum.effects import Advance, Leading, Persist, Truncate
from gateway.quorum.voter_set import VoterSet
from kwire.records import decode_batch
from kwire.uuid import ZERO_UUID, Uuid
from tests.sim.batches import Batch, Log
from tests.sim.disk import Disk

if TYPE_CHECKING:
    from tests.sim.node import Node

#: What a leader may spend without a majority: Kafka's ``CHECK_QUORUM_TIMEOUT_FACTOR`` times the
#: fetch timeout.
CHECK_QUORUM: Final = 1.5


class Violation(Exception):
    """An invariant does not hold; the text says which."""


def require(holds: bool, invariant: str, *values: object) -> None:
    if not holds:
        raise Violation(invariant.format(*values))


class Proposal(NamedTuple):
    """Records that somebody asked a node to append: to which, in which epoch, how many acknowledged
    records there were.
    """

    number: int
    node: int
    epoch: int
    values: frozenset[bytes]
    floor: int
    kraft_version: int | None = None


class Checker:
    """The state of the world that no node has: who led when, who voted for whom, what is committed."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._names: dict[tuple[int, bytes], int] = {}
        self._first: dict[
            tuple[int, int], int
        ] = {}  # (base offset, epoch) -> name of the log up to the batch
        self._leaders: dict[int, tuple[int, Uuid]] = {}
        self._led: set[int] = set()
        self._voted: dict[
            tuple[int, Uuid, int], int
        ] = {}  # (node, directory, epoch) -> candidate, on disk
        self._granted: dict[
            tuple[int, Uuid, int], Uuid
        ] = {}  # the same -> candidate's directory, on the wire
        self._voters_of_epoch: dict[int, list[VoterSet]] = {}
        self.committed = Log()  #: what is committed, of the whole cluster
        self._committed_in: dict[int, int] = {}  # epoch -> up to where records were committed in it
        self.committed_voters: list[VoterSet] = []
        self.proposals: dict[int, Proposal] = {}
        self._of_value: dict[bytes, int] = {}  # record value -> number of the proposal
        self._seen: dict[
            bytes, tuple[int, int]
        ] = {}  # record value -> (offset, epoch) it was appended at
        self._refused: set[int] = set()
        self._lost_disks: list[tuple[int, Disk]] = []
        self.upgraded = False  #: voters of the configuration are in somebody's log
        self.acked_end = 0
        self.acked = 0

    def loses_disk(self, node: Node) -> None:
        """What was on it was acknowledged truly, and may be committed by that: it is one copy less,
        as any failure.
        """
        self._lost_disks.append((node.id, node.disk))

    # --- the log

    def name(self, before: int, batch: Batch) -> int:
        """The name of a log that consists of the one named ``before`` and ``batch``."""
        key = (before, batch.data)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = len(self._names) + 1
        return found

    def appends(self, node: Node, base_offset: int) -> None:
        """Before an append, 4: it is made at the log's end (KAFKA-12331)."""
        end = node.disk.view.end_offset
        require(
            base_offset == end,
            "4: node {} appends at {}, its log ends at {}",
            node.id,
            base_offset,
            end,
        )

    def appended(self, node: Node, batches: Iterable[Batch]) -> None:
        """After an append, 3, 4, 5, 13: whatever has an offset and an epoch is the same everywhere,
        and so is all before it.
        """
        view = node.disk.view
        n = len(view.batches) - sum(1 for _ in batches)
        before = view.batches[n - 1] if n else None
        offset, epoch = (
            (before.next, before.epoch) if before else (view.start_offset, view.start_epoch)
        )
        for batch in batches:
            require(
                batch.base == offset,
                "4: node {} leaves a gap: {} after {}",
                node.id,
                batch.base,
                offset,
            )
            require(
                batch.epoch >= epoch >= 0,
                "3: node {} appends epoch {} after {}",
                node.id,
                batch.epoch,
                epoch,
            )
            require(
                batch.epoch <= node.raft.epoch,
                "3: node {} appends epoch {} in {}",
                node.id,
                batch.epoch,
                node.raft.epoch,
            )
            key = (batch.base, batch.epoch)
            known = self._first.get(key)
            if known is None:
                leads = node.raft.role == "leader" and batch.epoch == node.raft.epoch
                leads = leads or self._led_by(node, batch.epoch)
                require(leads, "5: node {} appends at {} what no leader appended", node.id, key)
                self._first[key] = view.prefixes[n]
                self._new(node, batch)
            else:
                require(
                    known == view.prefixes[n],
                    "5: node {}: logs differ below {} (offset, epoch)",
                    node.id,
                    key,
                )
            offset, epoch, n = batch.next, batch.epoch, n + 1

    def _new(self, node: Node, batch: Batch) -> None:
        """A leader's own batch, 4, 11: of its epoch, with what was proposed, never twice, never
        what was refused.
        """
        for _, voters in batch.voters:
            self._voters_of_epoch.setdefault(batch.epoch, []).append(voters)
        if batch.kraft_versions and node.settings.static_voters:
            self._upgrades(node, batch)
        if batch.control:
            return
        for record in decode_batch(batch.data).records:
            value = bytes(record.value or b"")
            number = self._of_value.get(value)
            require(
                number is not None, "11: node {} appends {} that nobody proposed", node.id, value
            )
            require(
                number not in self._refused,
                "11: node {} appends proposal {}, which was refused",
                node.id,
                number,
            )
            require(value not in self._seen, "11: node {} appends {} again", node.id, value)
            self._seen[value] = (record.offset, batch.epoch)

    def _upgrades(self, node: Node, batch: Batch) -> None:
        """A leader puts the voters of the configuration into the log, 19: they and nobody else, as
        what they are.
        """
        self.upgraded = True
        statics = [one for one in self._nodes if one.id in node.settings.static_voters]
        real = [
            (one.id, one.disk.directory_id, dict(one.settings.endpoints), (0, 1)) for one in statics
        ]
        named = [
            (one.id, one.directory_id, dict(one.endpoints), one.kraft_versions)
            for _, voters in batch.voters
            for one in voters
        ]
        require(named == real, "19: node {} makes voters of {}, they are {}", node.id, named, real)
        there = self._committed_in.get(batch.epoch, 0) > node.own_epoch_offset
        require(
            there,
            "19: node {} upgrades in epoch {}, of which nothing is committed",
            node.id,
            batch.epoch,
        )

    def truncates(self, node: Node, effect: Truncate) -> None:
        """Before a truncation, 4, 9: never by a leader, never below what is committed."""
        offset, view = effect.offset, node.disk.view
        require(node.raft.role != "leader", "4: leader {} truncates to {}", node.id, offset)
        require(
            offset <= view.end_offset,
            "9: node {} truncates to {} behind its end {}",
            node.id,
            offset,
            view.end_offset,
        )
        require(
            view.prefix_at(offset) is not None,
            "9: node {} truncates to {}, where no batch begins",
            node.id,
            offset,
        )
        require(
            offset >= node.floor,
            "9: node {} truncates to {}, below its high watermark {}",
            node.id,
            offset,
            node.floor,
        )
        end = min(self.committed.end_offset, view.end_offset)
        held = next(
            (
                at
                for at in reversed(view.ends)
                if at <= end and view.prefix_at(at) == self.committed.prefix_at(at)
            ),
            0,
        )
        require(
            offset >= held,
            "9: node {} truncates to {} what is committed up to {}",
            node.id,
            offset,
            held,
        )

    @property
    def leaders(self) -> int:
        """How many epochs had a leader."""
        return len(self._leaders)

    # --- elections

    def leading(self, node: Node, effect: Leading) -> None:
        """A node was elected, 1, 6: the only one of the epoch ever, and it has all that leaders of
        older epochs committed.

        Its last vote may have come late: a newer epoch may have a leader, who commits, by now.
        """
        require(
            effect.epoch not in self._led,
            "1: node {} is elected in epoch {}, which had a leader",
            node.id,
            effect.epoch,
        )
        self._led.add(effect.epoch)
        self.leads(node)
        committed, view = self.committed, node.disk.view
        end = max(
            (end for epoch, end in self._committed_in.items() if epoch < effect.epoch),
            default=committed.start_offset,
        )
        has = view.prefix_at(end) == committed.prefix_at(end) or view.start_offset > end
        require(
            has,
            "6: leader {} of epoch {} lacks what is committed up to {}",
            node.id,
            effect.epoch,
            end,
        )
        node.own_epoch_offset = effect.start_offset
        self._voters_of_epoch.setdefault(effect.epoch, []).append(node.raft.voters)

    def _led_by(self, node: Node, epoch: int) -> bool:
        return self._leaders.get(epoch) == (node.id, node.disk.directory_id)

    def leads(self, node: Node) -> None:
        """1: one leader per epoch, over all time."""
        key = (node.id, node.disk.directory_id)
        leader = self._leaders.setdefault(node.raft.epoch, key)
        require(
            leader == key, "1: nodes {} and {} lead epoch {}", leader[0], node.id, node.raft.epoch
        )

    def died(self, node: Node) -> None:
        """A process ended. If it led and the disk knows nothing of that, nobody ever heard of it.

        Only a lone voter can: it needs nobody's vote, and what it did by itself leaves it when it
        is on disk.
        """
        state, epoch = node.disk.election, node.raft.epoch
        led = node.raft.role == "leader" or self._led_by(node, epoch)
        if led and epoch > max(state.epoch if state else 0, node.disk.log.last_epoch):
            self._leaders.pop(epoch, None)
            self._led.discard(epoch)
            self._first = {key: name for key, name in self._first.items() if key[1] != epoch}
            self._seen = {value: at for value, at in self._seen.items() if at[1] != epoch}

    def persisted(self, node: Node) -> None:
        """quorum-state was replaced, 2, 3: epochs grow, one vote and one leader in each, over all
        restarts.
        """
        states = node.disk.elections
        for n in range(max(1, node.disk.elections_checked), len(states)):
            before, after = states[n - 1], states[n]
            require(
                after.epoch >= before.epoch >= 0,
                "3: node {}: epoch {} on disk after {}",
                node.id,
                after.epoch,
                before.epoch,
            )
            if after.epoch == before.epoch and before.leader_id >= 0:
                require(
                    after.leader_id == before.leader_id,
                    "2: node {}: {} on disk after {}",
                    node.id,
                    after,
                    before,
                )
        for state in states[node.disk.elections_checked :]:
            if state.voted_id >= 0:
                key = (node.id, node.disk.directory_id, state.epoch)
                voted = self._voted.setdefault(key, state.voted_id)
                require(
                    voted == state.voted_id,
                    "2: node {} votes for {} and {} in epoch {}",
                    node.id,
                    voted,
                    state.voted_id,
                    state.epoch,
                )
        node.disk.elections_checked = len(states)

    def persists(self, node: Node, effect: Persist) -> None:
        """3: what is to be on disk is the epoch there is, or an older one of the same step; never
        negative.
        """
        require(
            0 <= effect.state.epoch <= node.raft.epoch,
            "3: node {} persists epoch {}",
            node.id,
            effect.state.epoch,
        )

    def votes(self, node: Node, epoch: int, candidate: int, directory_id: Uuid) -> None:
        """A vote leaves the node, its own to itself too, 2: it is on disk, and the only one of that
        epoch.
        """
        key = (node.id, node.disk.directory_id, epoch)
        voted = self._voted.get(key, -1)
        require(
            voted == candidate,
            "2: node {} votes for {} in epoch {}, on its disk is {}",
            node.id,
            candidate,
            epoch,
            voted,
        )
        before = self._granted.setdefault(key, directory_id)
        same = before == directory_id or ZERO_UUID in (before, directory_id)
        require(
            same,
            "2: node {} votes for two directories of {} in epoch {}",
            node.id,
            candidate,
            epoch,
        )

    def leaves(self, node: Node, epoch: int) -> None:
        """A message leaves the node, 3: the epoch that it names as the node's own is on disk."""
        disk = node.disk
        known = max(disk.election.epoch if disk.election else 0, disk.log.last_epoch)
        require(
            epoch <= known,
            "3: node {} speaks in epoch {}, its disk says {}",
            node.id,
            epoch,
            disk.election,
        )

    def fetches(self, node: Node, offset: int, epoch: int) -> None:
        """A Fetch leaves the node, 8, 10: it acknowledges only what is on disk."""
        log = node.disk.log
        durable = log.epoch_before(offset)
        require(
            offset <= log.end_offset,
            "10: node {} fetches from {}, on disk is {}",
            node.id,
            offset,
            log.end_offset,
        )
        known = offset < log.start_offset or durable == epoch or (offset == 0 and epoch == 0)
        require(
            known,
            "5: node {} fetches from {} after epoch {}, on disk it is {}",
            node.id,
            offset,
            epoch,
            durable,
        )

    def voters_in_force(self, node: Node) -> None:
        """1, 19: who votes is who the log says, else the configuration, after a birth, a record, a
        truncation, a snapshot.
        """
        found, version = node.disk.voters_of_view()
        theirs = [(one.id, one.directory_id) for one in found or ()]
        if found is None:
            theirs = [(id, ZERO_UUID) for id in sorted(node.settings.static_voters)]
        ours = [(one.id, one.directory_id) for one in node.raft.voters]
        require(
            ours == theirs,
            "1: node {} counts the voters {}, its log says {}",
            node.id,
            ours,
            theirs,
        )
        told = node.raft.kraft_version
        require(
            told == version,
            "19: node {} is at kraft.version {}, its log says {}",
            node.id,
            told,
            version,
        )

    # --- what is committed

    def high_watermark(self, node: Node, before: int, after: int) -> None:
        """A node's high watermark moved, 7, 8: never back; a leader's only with what a majority has
        on disk.
        """
        require(after >= before, "8: node {}: high watermark {} after {}", node.id, after, before)
        view = node.disk.view
        require(
            after <= view.end_offset,
            "8: node {}: high watermark {} beyond its end {}",
            node.id,
            after,
            view.end_offset,
        )
        if node.raft.role == "leader":
            own = node.own_epoch_offset
            require(
                after > own,
                "8: leader {}: high watermark {} not past its own epoch's record {}",
                node.id,
                after,
                own,
            )
        if after > self.committed.end_offset:
            self._commit(node, after)
        elif after > view.start_offset:
            agrees = view.prefix_at(after) == self._committed_prefix(after)
            require(agrees, "7: node {} takes for committed up to {} what is not", node.id, after)

    def tells(self, node: Node, to: int) -> None:
        """A Fetch answer is made, 8: a leader may say that something is committed before it has
        that on its own disk.
        """
        if to <= self.committed.end_offset:
            return
        if node.raft.role == "leader":
            own = node.own_epoch_offset
            require(
                to > own,
                "8: leader {} tells high watermark {}, not past its own epoch's record {}",
                node.id,
                to,
                own,
            )
        self._commit(node, to)

    def advances(self, node: Node, effect: Advance) -> None:
        """What is committed is shown, 7, 8: it is on this disk, and committed."""
        to, log = effect.high_watermark, node.disk.log
        require(to > node.shown, "8: node {} shows {} after {}", node.id, to, node.shown)
        require(
            to <= log.end_offset, "8: node {} shows {}, on disk is {}", node.id, to, log.end_offset
        )
        if to > self.committed.end_offset:
            self._commit(node, to)
        if to > log.start_offset:
            agrees = log.prefix_at(to) == self._committed_prefix(to)
            require(agrees, "7: node {} shows up to {} what is not committed", node.id, to)
        node.shown = node.floor = to

    def _committed_prefix(self, offset: int) -> int | None:
        return self.committed.prefix_at(offset)

    def _commit(self, node: Node, end: int) -> None:
        """The committed prefix grows, 7, 8, 10: by what a majority of voters has on disk."""
        view, committed = node.disk.view, self.committed
        name = view.prefix_at(end)
        require(
            name is not None, "8: node {}: high watermark {} is no end of a batch", node.id, end
        )
        continues = view.prefix_at(committed.end_offset) == committed.last_prefix
        require(
            continues,
            "7: node {} commits up to {}, without what is committed at {}",
            node.id,
            end,
            committed.end_offset,
        )
        self._require_majority(node, end, name)
        self._committed_in[node.raft.epoch] = end
        for n in range(bisect_right(view.ends, committed.end_offset), bisect_right(view.ends, end)):
            committed.append(view.batches[n], view.prefixes[n])
            self.committed_voters += [voters for _, voters in view.batches[n].voters]

    def _require_majority(self, node: Node, end: int, name: int | None) -> None:
        disks = [*((one.id, one.disk) for one in self._nodes), *self._lost_disks]
        has = [(id, disk.directory_id) for id, disk in disks if disk.log.prefix_at(end) == name]
        sets = [node.raft.voters, *self._voters_of_epoch.get(node.raft.epoch, ())]
        for voters in sets:
            count = len({id for id, directory_id in has if voters.has(id, directory_id)})
            if len(voters) and count >= voters.majority:
                return
        raise Violation(
            f"8: node {node.id} ({node.raft.role}, epoch {node.raft.epoch}) commits up to {end}, which only "
            f"{[id for id, _ in has]} of {sorted(node.raft.voters.nodes)} have on disk"
        )

    # --- clients

    def proposed(
        self,
        number: int,
        node: Node,
        epoch: int,
        values: Iterable[bytes],
        kraft_version: int | None = None,
    ) -> None:
        """Somebody asks ``node`` to append ``values``, and to raise kraft.version before."""
        self.proposals[number] = Proposal(
            number, node.id, epoch, frozenset(values), self.acked_end, kraft_version
        )
        for value in self.proposals[number].values:
            self._of_value[value] = number

    def accepted(self, node: Node, number: int, base: int, end: int) -> None:
        """11: what was accepted is in the log where the answer says."""
        proposal = self.proposals[number]
        require(
            self._led_by(node, proposal.epoch),
            "11: node {} accepts a proposal for epoch {}",
            node.id,
            proposal.epoch,
        )
        at = sorted(self._seen.get(value, (-1, -1))[0] for value in proposal.values)
        there = at == list(range(base, end))
        require(there, "11: proposal {} is at {}, the answer says {} to {}", number, at, base, end)

    def refused(self, number: int) -> None:
        """11: what was refused never appears."""
        self._refused.add(number)
        there = [value for value in self.proposals[number].values if value in self._seen]
        require(not there, "11: proposal {} is refused and was appended", number)

    def acknowledged(self, number: int, base: int, end: int) -> None:
        """A client is told that its records are committed, 10, 12: they are, and behind all
        acknowledged before it asked.
        """
        proposal, log = self.proposals[number], self.committed
        require(
            end <= log.end_offset,
            "10: proposal {} is acknowledged up to {}, committed is {}",
            number,
            end,
            log.end_offset,
        )
        found = [batch.epoch for batch in log.batches[-64:] if base <= batch.base < end]
        in_epoch = all(epoch == proposal.epoch for epoch in found)
        require(
            in_epoch, "10: proposal {} is acknowledged, in its place are epochs {}", number, found
        )
        if proposal.kraft_version is not None:
            there = any(batch.kraft_versions for batch in log.batches if batch.next <= base)
            require(
                there,
                "10: upgrade {} is acknowledged, and is not in what is committed below {}",
                number,
                base,
            )
        require(
            base >= proposal.floor,
            "12: proposal {} is at {}, below {} acknowledged before",
            number,
            base,
            proposal.floor,
        )
        self.acked_end = max(self.acked_end, end)
        self.acked += 1

    # --- time

    def still_leads(self, node: Node, why: str) -> None:
        """14, 12: a leader that a majority did not fetch from for that long has stepped down, and
        answers nothing as leader.
        """
        voters = node.raft.voters
        others = [voter.id for voter in voters if voter.id != node.id]
        needed = voters.majority - (1 if node.id in voters else 0)
        if needed <= 0:
            return
        ages = sorted(
            node.local_now - max(node.led_since, node.fetched_at.get(id, 0.0)) for id in others
        )
        allowed = CHECK_QUORUM * node.settings.fetch_timeout_s * (1 if needed == 1 else 2) + 0.1
        age = ages[needed - 1] if needed <= len(ages) else 0.0
        require(
            age <= allowed, "14: leader {} {} after {:.2f} s without a majority", node.id, why, age
        )
