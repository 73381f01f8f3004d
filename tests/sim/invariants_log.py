"""Invariants of appends and truncations (3, 4, 5, 9, 11, 13, 19 of ``docs/simulation.md``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.quorum.effects import Truncate
from kwire.records import decode_batch
from tests.sim.batches import Batch
from tests.sim.history import History, require

if TYPE_CHECKING:
    from tests.sim.node import Node


class LogInvariants(History):
    """Checks before and after a node changes its log."""

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
        """After an append, 3, 4, 5, 13: an offset and an epoch name the same batch on every node,
        and so is everything before it.
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
                require(
                    leads, "5: node {} appends at {} a batch that no leader appended", node.id, key
                )
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
        """A leader's own batch, 4, 11: it holds proposed records, none twice and none refused."""
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
                number is not None,
                "11: node {} appends {}, which no client proposed",
                node.id,
                value,
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
        """A leader puts the static voters into the log, 19: these and no others, with the
        directories and endpoints that they have.
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
        require(
            named == real,
            "19: node {} makes voters of {}, the static ones are {}",
            node.id,
            named,
            real,
        )
        there = self._committed_in.get(batch.epoch, 0) > node.own_epoch_offset
        require(
            there,
            "19: node {} upgrades in epoch {}, of which no record is committed",
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
