"""Readers follow a local log by its directory, as they follow Kafka's: at whatever instant they
look, they see a log. Readers in the writer's process see the same without a look at the files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.log.reading.follower import DirectoryFollower
from gateway.log.reading.log_view import LogView
from gateway.log.reading.own_log import OwnLog
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.crash_disk import QuietDisk
from tests.gateway.log.kafka_files import batch, snapshot_bytes

_SMALL = LogSettings(
    segment_bytes=600, index_interval_bytes=100, retention_bytes=1, retention_ms=-1
)


class Watched(QuietDisk):
    """Lets a follower look before every change of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.follower: DirectoryFollower | None = None
        self.committed = 0
        self.looks = 0

    def rescan(self) -> None:
        if self.follower is None:
            return
        self.follower.rescan()
        while self.follower.step():
            pass
        chain = self.follower.view
        assert chain is not None
        assert chain.broken is None
        assert self.follower.unreachable is None
        assert chain.end_offset >= self.committed, "what is committed never goes"
        self.looks += 1

    def write(self, *args: Any) -> None:
        self.rescan()
        super().write(*args)

    def truncate(self, *args: Any) -> None:
        self.rescan()
        super().truncate(*args)

    def rename(self, *args: Any) -> None:
        self.rescan()
        super().rename(*args)

    def remove(self, *args: Any) -> None:
        self.rescan()
        super().remove(*args)


class Model:
    """The log that a reader must see, and random things that happen to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rand = random.Random(seed)
        self.disk = Watched()
        self.log = LocalLog.open(root, _SMALL, disk=self.disk)
        self.follower = DirectoryFollower(str(self.log.directory), snapshot_prefix=bool(seed % 2))
        self.own = OwnLog(self.log.log, snapshot_prefix=bool(seed % 2))
        self.epoch = 1
        self.batches: list[tuple[int, int, bytes]] = []  # offset, next offset, bytes

    def happen(self) -> None:
        changes: list[Callable[[], object]] = [
            self.append,
            self.truncate,
            self.commit,
            self.snapshot,
            self.install,
            self.clean,
        ]
        self.rand.choices(changes, [8, 3, 2, 1, 0.3, 0.5])[0]()

    def append(self) -> None:
        for _ in range(self.rand.randint(1, 3)):
            # Records of the same size at the same place: only their content differs from what was
            # truncated.
            one = batch(self.log.end_offset, self.rand.randint(1, 2), self.epoch)
            self.log.append(one.data)
            self.batches.append((one.offset, one.next_offset, one.data))

    def truncate(self) -> None:
        low, high = self.log.high_watermark, self.log.end_offset
        self.log.truncate_to(
            self.rand.choice([low, *(end for _, end, _ in self.batches if end >= low), high])
        )
        self.batches = [one for one in self.batches if one[1] <= self.log.end_offset]
        self.epoch += 1

    def commit(self) -> None:
        ends = [end for _, end, _ in self.batches if end >= self.log.high_watermark]
        if ends:
            self.log.set_high_watermark(self.rand.choice(ends))
        self.disk.committed = self.log.high_watermark

    def snapshot(self, end_offset: int | None = None, epoch: int | None = None) -> SnapshotId:
        ends = [end for _, end, _ in self.batches if end <= self.log.high_watermark]
        end = end_offset or (self.rand.choice(ends) if ends else 0)
        snapshot = SnapshotId(end, epoch or self.epoch_before(end))
        latest = self.log.latest_snapshot
        if end > 0 and (latest is None or snapshot > latest):
            writer = self.log.new_snapshot(snapshot)
            writer.write(0, snapshot_bytes(snapshot.epoch, (2,)))
            writer.freeze()
        return snapshot

    def install(self) -> None:
        self.epoch += 1
        snapshot = self.snapshot(self.log.end_offset + self.rand.randint(1, 50), self.epoch)
        self.log.truncate_to_snapshot(snapshot)
        self.batches.clear()

    def clean(self) -> None:
        self.log.clean(now_ms=0)

    def epoch_before(self, offset: int) -> int:
        return next(
            (
                int.from_bytes(data[12:16], "big")
                for _, end, data in reversed(self.batches)
                if end <= offset
            ),
            self.epoch,
        )

    def rescan(self) -> None:
        """Perhaps a step or two behind, but then what is there is seen, byte for byte."""
        while self.follower.step():
            pass
        self.follower.rescan()
        while self.follower.step():
            pass
        chain = self.follower.view
        assert chain is not None
        assert chain.broken is None
        assert not chain.notices
        assert (chain.end_offset, chain.epoch) == (self.log.end_offset, self.log.last_epoch)
        start = self.log.start_offset
        expected = b"".join(data for _, end, data in self.batches if end > start)
        assert content_of(chain, start) == expected
        self.own.refresh()
        assert self.own.fault(self.log.end_offset) is None
        assert shown_by(self.own.view) == shown_by(chain)
        assert content_of(self.own.view, start) == expected
        for epoch in range(self.epoch + 1):
            found = chain.end_offset_for_epoch(epoch)
            if found[1] > start and not any(part.shift for part in chain.slices):
                assert found == self.log.end_offset_for_epoch(epoch)


def shown_by(view: LogView) -> object:
    """Everything but the indexes by which a view finds its batches."""
    slices = [
        (
            (one.file.path, one.shift, one.start_offset, one.end_offset),
            (one.first_offset, one.start, one.end, one.max_timestamp),
        )
        for one in view.slices
    ]
    return slices, view.start_offset, view.end_offset, view.epochs, view.epoch, view.notices


def content_of(chain: LogView, start: int) -> bytes:
    """The bytes of the log's own batches, as a Fetch would send them."""
    pieces = []
    for part in chain.slices:
        if part.shift == 0:
            for slot in part.slots():
                if slot.next_offset > start:
                    pieces.append(part.file.read(slot.position, slot.size))
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(12))
def test_a_follower_sees_what_the_owner_does(tmp_path: Path, seed: int) -> None:
    model = Model(tmp_path, seed)
    for _ in range(60):
        for _ in range(model.rand.randint(1, 4)):
            model.happen()
        model.rescan()
    model.log.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_may_scan_between_any_two_operations(tmp_path: Path, seed: int) -> None:
    model = Model(tmp_path, seed)
    model.disk.follower = model.follower
    for _ in range(60):
        model.happen()
        model.disk.committed = max(model.disk.committed, model.log.high_watermark)
    model.disk.follower = None
    model.rescan()
    assert model.disk.looks > 150
    model.log.close()


def test_a_truncation_and_an_append_of_the_same_size_between_two_scans(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path, LogSettings())
    follower = DirectoryFollower(str(log.directory), snapshot_prefix=False)
    for offset in range(5):
        log.append(batch(offset, 1, 1).data)
    follower.step()
    assert follower.view is not None
    assert follower.view.epoch == 1
    log.truncate_to(3)
    log.append(batch(3, 1, 2).data + batch(4, 1, 2).data)
    follower.rescan()
    follower.step()
    assert (follower.view.end_offset, follower.view.epoch) == (5, 2)
    assert follower.view.end_offset_for_epoch(1) == (1, 3)
    log.close()
