"""Invariants of elections, votes and epochs (1, 2, 3, 5, 6, 10, 19 of ``docs/simulation.md``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.quorum.effects import Leading, Persist
from kwire.uuid import ZERO_UUID, Uuid
from tests.sim.history import History, require

if TYPE_CHECKING:
    from tests.sim.node import Node


class ElectionInvariants(History):
    """Checks of leaders, of ``quorum-state`` and of the promises in messages."""

    def leading(self, node: Node, effect: Leading) -> None:
        """A node was elected, 1, 6: the only leader of its epoch ever, with all that leaders of
        older epochs committed.

        Its last vote may have arrived late, when a newer epoch already had a leader that commits.
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

    def leads(self, node: Node) -> None:
        """1: one leader per epoch, over all time."""
        key = (node.id, node.disk.directory_id)
        leader = self._leaders.setdefault(node.raft.epoch, key)
        require(
            leader == key, "1: nodes {} and {} lead epoch {}", leader[0], node.id, node.raft.epoch
        )

    def halted(self, node: Node) -> None:
        """A process ended. If it led an epoch that is not on its disk, forget that epoch.

        Only a lone voter can lead so: it needs no other vote, and no message leaves it before the
        epoch is on disk.
        """
        state, epoch = node.disk.election, node.raft.epoch
        led = node.raft.role == "leader" or self._led_by(node, epoch)
        if led and epoch > max(state.epoch if state else 0, node.disk.log.last_epoch):
            self._leaders.pop(epoch, None)
            self._led.discard(epoch)
            self._first = {key: name for key, name in self._first.items() if key[1] != epoch}
            self._seen = {value: at for value, at in self._seen.items() if at[1] != epoch}

    def persisted(self, node: Node) -> None:
        """``quorum-state`` was replaced, 2, 3: epochs never fall, with one vote and one leader in
        each, over all restarts.
        """
        if node.settings.observer is not None:
            return  # it gives no vote, and may go back to the epoch of its log
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
        """3: a state to be stored has the node's epoch, or an older one of the same step; never a
        negative one.
        """
        require(
            0 <= effect.state.epoch <= node.raft.epoch,
            "3: node {} persists epoch {}",
            node.id,
            effect.state.epoch,
        )

    def votes(self, node: Node, epoch: int, candidate: int, directory_id: Uuid) -> None:
        """A vote leaves the node (also one for itself), 2: it is on disk, and the only one of that
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

    def message_leaves(self, node: Node, epoch: int) -> None:
        """A message leaves the node, 3: the sender's epoch in it is on disk."""
        if node.settings.observer is not None:
            return  # it stores an epoch once a leader has answered in it
        disk = node.disk
        known = max(disk.election.epoch if disk.election else 0, disk.log.last_epoch)
        require(
            epoch <= known,
            "3: node {} sends epoch {}, on its disk is {}",
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
        """1, 19: the voters are those of the log, else those of the configuration; checked after a
        start, a record, a truncation and a snapshot.
        """
        found, version = node.disk.voters_of_view()
        in_log = [(one.id, one.directory_id) for one in found or ()]
        if found is None:
            in_log = [(id, ZERO_UUID) for id in sorted(node.settings.static_voters)]
        counted = [(one.id, one.directory_id) for one in node.raft.voters]
        require(
            counted == in_log,
            "1: node {} counts the voters {}, its log says {}",
            node.id,
            counted,
            in_log,
        )
        current = node.raft.kraft_version
        require(
            current == version,
            "19: node {} is at kraft.version {}, its log says {}",
            node.id,
            current,
            version,
        )
