"""A crash behind any file operation: of the process it takes no change, of the machine none that
was synced; the log goes on.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditLog, AuditRecord
from gateway.sources.audit_partition import DIRECTORY, AuditPartition
from kwire.records import decode_batches
from tests.gateway.log.crash_disk import (
    CrashDisk,
    NewStates,
    Op,
    RecordingDisk,
    State,
    write_state,
)
from tests.gateway.sources.reading import batches_from

SETTINGS = replace(
    AUDIT_SETTINGS,
    segment_bytes=400,
    segment_ms=10**6,
    retention_bytes=-1,
    retention_ms=1000,
    fsync=False,
)


class Promise(NamedTuple):
    """Records from ``start`` on were not deleted. Those below ``written`` survive a crash of the
    process, those below ``flushed`` a power failure.
    """

    start: int = 0
    written: int = 0
    flushed: int = 0


class Life:
    """The life of a log: writes of one change and of many, syncs beside them, new segments, and
    deleted ones.
    """

    def __init__(self, directory: Path) -> None:
        self.disk = RecordingDisk(directory)
        self._promise = Promise()
        self._log = AuditLog(directory / DIRECTORY, SETTINGS, self.disk)
        for step in (
            self.write,
            self.write,
            self.flush,
            self.roll,
            self.write,
            self.write,
            self.roll,
            self.write,
            self.clean,
        ) * 3:
            step()
        self._log.close()

    def write(self, count: int = 2) -> None:
        first = self._promise.written
        self._log.append(
            [AuditRecord(first * 100, b"v%d" % number) for number in range(first, first + count)]
        )
        self._say(written=first + count)

    def flush(self) -> None:
        pending_flush = self._log.pending_flush()
        assert pending_flush is not None
        self.write(1)  # while the sync runs
        self._log.on_flushed(pending_flush.flush())
        self._say(flushed=self._log.flushed)

    def roll(self) -> None:
        self._log.roll()
        self._say(flushed=self._log.flushed)

    def clean(self) -> None:
        start = max(0, self._promise.written - 10)
        self._say(start=start)  # from here on they may be gone
        self._log.clean(start * 100 + SETTINGS.retention_ms)

    def _say(self, **more: int) -> None:
        self._promise = self._promise._replace(**more)
        self.disk.ack(self._promise)


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> list[Op]:
    root = tmp_path_factory.mktemp("life")
    found = Life(root).disk.ops
    assert {"write", "sync", "create", "remove", "sync directory"} <= {op.kind for op in found}
    return found


def instants(ops: list[Op]) -> Iterator[tuple[Promise, CrashDisk, Op]]:
    """Yield the promises, the disk and the operation after each operation."""
    disk, promise = CrashDisk(), Promise()
    for op in ops:
        if op.kind == "ack":
            promise = op.value
        else:
            disk.apply(op)
            yield promise, disk, op


def check(directory: Path, state: State, start: int, end: int) -> None:
    """Opened, it has at least what lies between, each change once and in its place, and takes
    another one.

    Later changes may have survived where an earlier one, which was not synced either, did not.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    write_state(directory, state)
    partition = AuditPartition(directory, SETTINGS, cluster_id="c")
    found = shown(partition)
    offsets = [offset for offset, _ in found]
    assert found == [(offset, b"v%d" % offset) for offset in sorted(set(offsets))]
    assert (
        set(range(start, end)) <= set(offsets)
        and max(offsets, default=-1) < partition.high_watermark
    )
    next_offset = partition.high_watermark
    assert partition.high_watermark >= end and (end == 0 or partition.log_start_offset <= start)
    partition.append([AuditRecord(10**9, b"more")])
    partition.publish(partition.end_offset)
    assert shown(partition) == [*found, (next_offset, b"more")]
    partition.close()


def shown(partition: AuditPartition) -> list[tuple[int, bytes | None]]:
    data = b"".join(data for _, _, data in batches_from(partition, partition.log_start_offset))
    return [
        (record.offset, record.value) for batch in decode_batches(data) for record in batch.records
    ]


def test_the_process_is_killed_behind_every_operation(ops: list[Op], root: Path) -> None:
    new = NewStates()
    for promise, disk, op in instants(ops):
        for state in new.of(disk.killed(op), (promise.start, promise.written)):
            check(root / "state", state, promise.start, promise.written)
    assert new.came > 150


def test_the_power_is_lost_behind_every_operation(ops: list[Op], root: Path) -> None:
    rand, new = random.Random(7), NewStates()
    for promise, disk, _ in instants(ops):
        for state in new.of(disk.lost_power(rand), (promise.start, promise.flushed)):
            check(root / "state", state, promise.start, promise.flushed)
    assert new.came > 600


@pytest.mark.parametrize(
    "forgotten",
    [
        lambda op: op.kind == "sync" and op.path.suffix == ".log",
        lambda op: op.kind == "sync directory",
    ],
)
def test_a_log_that_forgot_to_sync_would_be_found_out(
    ops: list[Op], forgotten: Callable[[Op], bool], root: Path
) -> None:
    rand, new = random.Random(8), NewStates()
    with pytest.raises(AssertionError):
        for promise, disk, _ in instants([op for op in ops if not forgotten(op)]):
            for state in new.of(disk.lost_power(rand), (promise.start, promise.flushed)):
                check(root / "state", state, promise.start, promise.flushed)
