"""Checks a whole log directory, and reports by rule, file and position."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kwire.cluster.image import Image
from kwire.conformance.log import rules
from kwire.conformance.log.batches import read_batches
from kwire.conformance.log.findings import Finding, Findings
from kwire.conformance.log.layout import Layout, Segment, Snapshot, layout
from kwire.conformance.log.metadata import Replay, decode
from kwire.conformance.log.order import Order
from kwire.conformance.log.small_files import (
    check_index,
    check_leader_epochs,
    check_meta_properties,
    check_partition_metadata,
    check_quorum_state,
)
from kwire.conformance.log.snapshots import compare, read_snapshot
from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import Level
from kwire.metadata_log.open_file import read_regular

#: Called with (bytes read, bytes in all) after each file.
Progress = Callable[[int, int], None]


def check_log(path: Path, progress: Progress | None = None) -> Report:
    """Check the log at ``path``, a ``__cluster_metadata-0`` directory or the one above it.

    Raises NoLog, and OSError for files that cannot be read.
    """
    began = time.monotonic()
    check = _Check(layout(path), Findings(), progress)
    check.run()
    results = _results(check.findings)
    return Report(
        str(check.files.directory), frozenset(), {}, results, time.monotonic() - began,
        remarks=check.findings.left_out(), command=f"kwire conform --log {path}",
    )  # fmt: skip


@dataclass
class _Check:
    files: Layout
    findings: Findings
    progress: Progress | None
    _read: int = 0
    _waiting: list[tuple[Snapshot, Image | None]] = field(default_factory=list)

    def run(self) -> None:
        order = Order(self.findings)
        self._waiting = [(snapshot, self._snapshot(snapshot)) for snapshot in self.files.snapshots]
        replay = self._start()
        for segment in self.files.segments:
            replay = self._segment(segment, order, replay)
        self._after_log(order, replay)

    def _snapshot(self, snapshot: Snapshot) -> Image | None:
        image = read_snapshot(self.findings, snapshot)
        self._tell(snapshot.path)
        return image

    def _start(self) -> Replay | None:
        """Return an empty replay if the log starts at offset 0, else None: a snapshot begins it."""
        if not self.files.segments or self.files.segments[0].base_offset == 0:
            return Replay(self.findings)
        first = self.files.segments[0]
        if not any(one.end_offset >= first.base_offset for one in self.files.snapshots):
            self.findings.wrong(
                rules.STARTS_AT, first.path, -1,
                f"the log begins at {first.base_offset}, and no snapshot reaches it",
            )  # fmt: skip
        return None

    def _segment(self, segment: Segment, order: Order, replay: Replay | None) -> Replay | None:
        data = read_regular(segment.path)
        is_last = segment == self.files.segments[-1]
        batches: list[tuple[int, int, int]] = []
        for batch in read_batches(self.findings, segment.path, data, may_be_torn=is_last):
            header = batch.header
            if not batches:
                order.begin_segment(segment.path, segment.base_offset, header.base_offset)
            batches.append((batch.position, header.base_offset, header.last_offset))
            replay = self._reach(header.base_offset, order, replay)
            order.take(batch)
            if replay is not None:
                (replay.skip if header.is_control else replay.take)(batch)
            elif not header.is_control:
                for record in batch.records or ():
                    decode(self.findings, batch, record)
        if not batches:
            order.begin_segment(segment.path, segment.base_offset, None)
            order.next_offset = segment.base_offset if order.next_offset is None else (
                order.next_offset
            )  # fmt: skip
        if segment.index.is_file():
            check_index(self.findings, segment, batches)
        self._tell(segment.path)
        return replay

    def _reach(self, offset: int, order: Order, replay: Replay | None) -> Replay | None:
        """Compare the snapshots that end at or before ``offset``; begin with one, if none was."""
        while self._waiting and self._waiting[0][0].end_offset <= offset:
            snapshot, image = self._waiting.pop(0)
            self._check_epoch(snapshot, order)
            self._check_end(snapshot, order)
            if snapshot.end_offset == 0 or image is None:
                continue
            if replay is None:
                if snapshot.end_offset == offset:
                    replay = Replay(self.findings, image)
            elif replay.is_whole and not replay.in_transaction and snapshot.end_offset == offset:
                compare(self.findings, snapshot, image, replay.image)
        return replay

    def _check_epoch(self, snapshot: Snapshot, order: Order) -> None:
        epoch = order.epoch_at(snapshot.end_offset - 1)
        if epoch is not None and epoch != snapshot.epoch:
            self.findings.wrong(
                rules.SNAPSHOT_EPOCH, snapshot.path, -1,
                f"the record at {snapshot.end_offset - 1} has epoch {epoch}",
            )  # fmt: skip

    def _check_end(self, snapshot: Snapshot, order: Order) -> None:
        first, last = order.last_batch or (-1, -1)
        if first < snapshot.end_offset <= last:
            self.findings.wrong(
                rules.SNAPSHOT_END, snapshot.path, -1,
                f"it ends within the batch of offsets {first} to {last}",
            )  # fmt: skip

    def _after_log(self, order: Order, replay: Replay | None) -> None:
        if order.next_offset is not None:
            self._reach(order.next_offset, order, replay)
            for snapshot, _ in self._waiting:
                self.findings.wrong(
                    rules.SNAPSHOT_IN_LOG, snapshot.path, -1,
                    f"the log ends at {order.next_offset}",
                )  # fmt: skip
        epochs, end = order.epochs, order.next_offset or 0
        if (file := self.files.small_file("leader-epoch-checkpoint")) is not None:
            check_leader_epochs(self.findings, file, epochs, end)
        if (file := self.files.small_file("quorum-state")) is not None:
            last = epochs[-1][0] if epochs else None
            check_quorum_state(
                self.findings, file, last, None if last is None else order.leaders.get(last)
            )
        if (file := self.files.small_file("partition.metadata")) is not None:
            check_partition_metadata(self.findings, file)
        if (file := self.files.meta_properties) is not None:
            check_meta_properties(self.findings, file)

    def _tell(self, file: Path) -> None:
        if self.progress is not None:
            paths = [one.path for one in self.files.segments]
            paths += [one.path for one in self.files.snapshots]
            self._read += file.stat().st_size
            self.progress(self._read, sum(path.stat().st_size for path in paths))


def _results(findings: Findings) -> list[Result]:
    """Return a result for each finding, and one that passes for each rule without any."""
    results = []
    for rule in rules.FAMILY:
        found = [one for one in findings.kept if one.rule_id == rule.id]
        results += [Result(rule, _outcome(rule.level, one), one.text()) for one in found]
        if not found:
            results.append(Result(rule, Outcome.PASS))
    return results


def _outcome(level: Level, finding: Finding) -> Outcome:
    if finding.is_damage:
        return Outcome.DAMAGED
    return Outcome.ADVICE if level is Level.SHOULD else Outcome.FAIL
