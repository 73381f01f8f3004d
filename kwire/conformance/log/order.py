"""Checks the order of batches: offsets, epochs, and the control records that open an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kwire.conformance.log import rules
from kwire.conformance.log.batches import ReadBatch, control_records
from kwire.conformance.log.findings import Findings

#: Control records of segments; those of snapshots have a frame of their own.
_IN_SEGMENTS = ("LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS")


class Order:
    """The order of the batches that were seen. ``epochs`` has (epoch, first offset) pairs,
    ``leaders`` the leader of each epoch whose LEADER_CHANGE was read.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.next_offset: int | None = None
        self.epochs: list[tuple[int, int]] = []
        self.leaders: dict[int, int] = {}
        #: The last batch: (its first offset, its last offset).
        self.last_batch: tuple[int, int] | None = None

    def begin_segment(self, file: Path, base_offset: int, first: int | None) -> None:
        """A segment begins, whose first batch has offset ``first``."""
        if first is not None and first != base_offset:
            self._findings.wrong(
                rules.SEGMENT_NAME, file, 0, f"the first batch has base offset {first}"
            )
        if self.next_offset is not None and base_offset != self.next_offset:
            self._findings.wrong(
                rules.OFFSETS, file, 0,
                f"the segment begins at {base_offset}, the one before ends at {self.next_offset}",
            )  # fmt: skip
            self.next_offset = None

    def take(self, batch: ReadBatch) -> None:
        """Check the next batch."""
        header = batch.header
        if self.next_offset is not None and header.base_offset != self.next_offset:
            self._wrong(
                rules.OFFSETS, batch, f"offset {header.base_offset} follows {self.next_offset - 1}"
            )
        self.next_offset = header.next_offset
        self.last_batch = header.base_offset, header.last_offset
        self._take_epoch(batch)
        if header.is_control and batch.records is not None:
            self._take_control(batch)

    def _take_epoch(self, batch: ReadBatch) -> None:
        epoch, offset = batch.header.partition_leader_epoch, batch.header.base_offset
        last = self.epochs[-1][0] if self.epochs else None
        if epoch < 0 or (last is not None and epoch < last):
            before = "nothing" if last is None else f"epoch {last}"
            self._wrong(rules.EPOCHS, batch, f"epoch {epoch} at offset {offset} follows {before}")
            return
        if epoch == last:
            return
        is_known_beginning = last is not None or offset == 0
        self.epochs.append((epoch, offset))
        # Epoch 0 has no leader: formatting writes into it.
        if is_known_beginning and epoch > 0 and batch.records is not None:
            found = control_records(self._findings, batch) if batch.header.is_control else []
            if not found or found[0].name != "LEADER_CHANGE":
                self._wrong(
                    rules.LEADER_CHANGE, batch,
                    f"epoch {epoch} begins at offset {offset} without LEADER_CHANGE",
                )  # fmt: skip

    def _take_control(self, batch: ReadBatch) -> None:
        for record in control_records(self._findings, batch):
            if record.name not in _IN_SEGMENTS:
                self._wrong(
                    rules.CONTROL_RECORDS, batch, f"a segment has control record {record.name}"
                )
            elif record.name == "LEADER_CHANGE":
                self._check_leader(batch, record.message)

    def _check_leader(self, batch: ReadBatch, message: Any) -> None:
        self.leaders[batch.header.partition_leader_epoch] = message.leader_id
        voters = [voter.voter_id for voter in message.voters]
        if message.leader_id not in voters:
            self._wrong(
                rules.LEADER_IS_VOTER, batch, f"leader {message.leader_id} is none of {voters}"
            )

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the record at ``offset``, None if it is not known."""
        known = [epoch for epoch, start in self.epochs if start <= offset]
        is_read = self.next_offset is not None and offset < self.next_offset
        return known[-1] if known and is_read else None

    def _wrong(self, rule_id: str, batch: ReadBatch, sentence: str) -> None:
        self._findings.wrong(rule_id, batch.file, batch.position, sentence)
