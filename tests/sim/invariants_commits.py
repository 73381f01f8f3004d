"""Invariants of commits and proposals (7, 8, 10, 11, 12, 14 of ``docs/simulation.md``)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.quorum.effects import Advance
from tests.sim.history import History, Proposal, Violation, require

if TYPE_CHECKING:
    from tests.sim.node import Node

#: The most time that a leader may spend without a majority: Kafka's
#: ``CHECK_QUORUM_TIMEOUT_FACTOR`` times the fetch timeout.
CHECK_QUORUM: Final = 1.5


class CommitInvariants(History):
    """Checks of high watermarks, of acknowledgements, and of leaders without a majority."""

    def high_watermark(self, node: Node, before: int, after: int) -> None:
        """A node's high watermark moved, 7, 8: never back, and a leader's only to what a majority
        has on disk.
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
            require(agrees, "7: node {}: its log below {} is not the committed one", node.id, after)

    def fetch_response(self, node: Node, to: int) -> None:
        """A Fetch response is made, 8: its high watermark is committed, perhaps before the leader
        has the record on its own disk.
        """
        if to <= self.committed.end_offset:
            return
        if node.raft.role == "leader":
            own = node.own_epoch_offset
            require(
                to > own,
                "8: leader {} reports high watermark {}, not past its own epoch's record {}",
                node.id,
                to,
                own,
            )
        self._commit(node, to)

    def advances(self, node: Node, effect: Advance) -> None:
        """A node shows records to its readers, 7, 8: they are on its disk, and committed."""
        to, log = effect.high_watermark, node.disk.log
        require(to > node.shown, "8: node {} shows {} after {}", node.id, to, node.shown)
        require(
            to <= log.end_offset, "8: node {} shows {}, on disk is {}", node.id, to, log.end_offset
        )
        if to > self.committed.end_offset:
            self._commit(node, to)
        if to > log.start_offset:
            agrees = log.prefix_at(to) == self._committed_prefix(to)
            require(agrees, "7: node {} shows up to {} records that are not committed", node.id, to)
        node.shown = node.floor = to

    def _committed_prefix(self, offset: int) -> int | None:
        return self.committed.prefix_at(offset)

    def _commit(self, node: Node, end: int) -> None:
        """The committed log grows, 7, 8, 10: by what a majority of voters has on disk."""
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
            f"8: node {node.id} ({node.raft.role}, epoch {node.raft.epoch}) commits up to {end}, "
            f"which only {[id for id, _ in has]} of {sorted(node.raft.voters.nodes)} have on disk"
        )

    # --- proposals

    def proposed(
        self,
        number: int,
        node: Node,
        epoch: int,
        values: Iterable[bytes],
        kraft_version: int | None = None,
    ) -> None:
        """A client proposes ``values`` to ``node``, after an upgrade of kraft.version if given."""
        self.proposals[number] = Proposal(
            number, node.id, epoch, frozenset(values), self.acked_end, kraft_version
        )
        for value in self.proposals[number].values:
            self._of_value[value] = number

    def accepted(self, node: Node, number: int, base: int, end: int) -> None:
        """11: accepted records are in the log at the offsets of the reply."""
        proposal = self.proposals[number]
        require(
            self._led_by(node, proposal.epoch),
            "11: node {} accepts a proposal for epoch {}",
            node.id,
            proposal.epoch,
        )
        at = sorted(self._seen.get(value, (-1, -1))[0] for value in proposal.values)
        there = at == list(range(base, end))
        require(there, "11: proposal {} is at {}, the reply says {} to {}", number, at, base, end)

    def refused(self, number: int) -> None:
        """11: refused records never appear."""
        self._refused.add(number)
        there = [value for value in self.proposals[number].values if value in self._seen]
        require(not there, "11: proposal {} is refused and was appended", number)

    def acknowledged(self, number: int, base: int, end: int) -> None:
        """A client gets an acknowledgement, 10, 12: its records are committed, behind everything
        that was acknowledged before the request.
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
                "10: upgrade {} is acknowledged and not committed below {}",
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

    def still_leads(self, node: Node, why: str) -> None:
        """14, 12: a leader from which no majority fetches has resigned in time, and no longer
        responds as leader.
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
