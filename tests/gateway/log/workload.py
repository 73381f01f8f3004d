"""Everything that can be done to a local log, in an order that an observer could live through, and
what it was promised.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.log.files.disk import Disk
from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid
from tests.gateway.log.kafka_files import batch, snapshot_bytes

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150, retention_bytes=1, retention_ms=-1)
CLUSTER_ID = "QKPByyaYQyWJjkXGE6EEwA"
DIRECTORY_ID = Uuid.parse("jejmYUtCT5uVMljQHNQ3AQ")


@dataclass(frozen=True)
class Promise:
    """The conditions for the directory after a crash: ``log`` has the bytes of each batch by base
    offset.
    """

    end_offset: int = 0  #: at least
    high_watermark: int = 0  #: at least
    starts: tuple[int, ...] = (0,)  #: one of them
    log: tuple[tuple[int, bytes], ...] = ()  #: what must be there below ``end_offset``
    leader_epochs: tuple[int | None, ...] = (None,)  #: quorum-state: one of them
    has_meta: bool = False


class Workload:
    """Does things to the log in ``root`` and tells ``ack`` what is promised: before and after
    whatever takes back or adds.
    """

    def __init__(self, root: Path, disk: Disk, ack: Callable[[Any], None]) -> None:
        self.root = root
        self.disk = disk
        self.ack = ack
        self.promise = Promise()
        self.written: dict[
            tuple[int, int], bytes
        ] = {}  # (base offset, epoch) -> bytes, for all time
        self.log = LocalLog.open(root, SMALL, disk=disk)
        self.ack(self.promise)

    def run(self) -> None:
        """All of it; some 400 file operations."""
        self.meta()
        self.epoch(1)
        self.fill(1, 6)
        self.commit()
        self.fill(1, 5, flush=False)
        self.truncate(self.log.end_offset - 3)
        self.epoch(2)
        self.fill(2, 4)
        self.fill(3, 9)
        self.truncate(self.log.high_watermark)
        self.epoch(4)
        self.fill(4, 9)
        self.commit()
        self.snapshot(SnapshotId(self.log.end_offset - 3, 4))
        self.fill(5, 7)
        self.commit()
        self.snapshot(SnapshotId(self.log.end_offset - 6, 5))
        self.clean()
        assert self.log.start_offset == self.log.end_offset - 6
        self.fill(6, 3, flush=False)
        self.reopen()
        self.fill(6, 3)
        self.install(SnapshotId(self.log.end_offset + 100, 7))
        self.epoch(8)
        self.fill(8, 6)
        self.commit()
        self.reopen()
        self.fill(9, 2)

    def run_at_random(self, rand: random.Random, steps: int) -> None:
        """Perform random operations of an observer's log."""
        self.meta()
        self.epoch(1)
        for _ in range(steps):
            epoch = self.promise.leader_epochs[-1] or 1
            match rand.choice("ffffftttccssdaa"):
                case "f":
                    self.fill(epoch, rand.randint(1, 5), flush=rand.random() < 0.6)
                case "t":
                    self.truncate(
                        rand.choice([end for end in self._ends() if end >= self.log.high_watermark])
                    )
                    self.epoch(epoch + 1)
                case "c":
                    self.commit()
                case "s":
                    self._snapshot_at(rand.choice(self._ends()))
                case "d":
                    self.clean()
                case "a" if rand.random() < 0.7:
                    self.reopen()
                case "a":
                    self.install(SnapshotId(self.log.end_offset + rand.randint(1, 40), epoch + 1))
                    self.epoch(epoch + 1)

    def _ends(self) -> list[int]:
        """Where batches begin or end."""
        return sorted({offset for offset, _ in self.content()} | {self.log.end_offset})

    def _snapshot_at(self, end: int) -> None:
        """A snapshot of our own, if there can be one."""
        epochs = [
            int.from_bytes(data[12:16], "big") for offset, data in self.content() if offset < end
        ]
        latest = self.log.latest_snapshot
        if (
            epochs
            and self.log.start_offset < end <= self.log.high_watermark
            and (latest is None or latest.end_offset < end)
        ):
            self.snapshot(SnapshotId(end, epochs[-1]))

    def meta(self) -> None:
        self.log.write_meta_properties(CLUSTER_ID, -1, DIRECTORY_ID)
        self._promise(has_meta=True)

    def epoch(self, epoch: int) -> None:
        before = self.promise.leader_epochs[-1]
        self._promise(leader_epochs=(before, epoch))
        self.log.write_quorum_state(QuorumStateData(leader_id=1, leader_epoch=epoch), 1)
        self._promise(leader_epochs=(epoch,))

    def fill(self, epoch: int, count: int, *, flush: bool = True) -> None:
        """Append answers of two batches."""
        for _ in range(count):
            one = batch(self.log.end_offset, 2, epoch, size=20 + self.log.end_offset % 40)
            two = batch(one.next_offset, 1, epoch)
            for each in (one, two):
                self.written[each.offset, epoch] = each.data
            self.log.append(one.data + two.data)
        if flush:
            self.log.flush()
            self._promise(end_offset=self.log.end_offset, log=self.content())

    def commit(self) -> None:
        self.log.set_high_watermark(self.log.end_offset)
        self._promise(
            high_watermark=self.log.end_offset, end_offset=self.log.end_offset, log=self.content()
        )

    def truncate(self, offset: int) -> None:
        self._promise(end_offset=min(offset, self.promise.end_offset))
        self.log.truncate_to(offset)
        self._promise(end_offset=min(self.log.end_offset, self.promise.end_offset))

    def snapshot(self, snapshot: SnapshotId) -> None:
        writer = self.log.new_snapshot(snapshot)
        data = snapshot_bytes(snapshot.epoch, (3, 2))
        for start in range(0, len(data), 200):
            writer.write(start, data[start : start + 200])
        writer.freeze()

    def clean(self) -> None:
        before = self.log.start_offset
        self._promise(
            starts=(before, *(one.end_offset for one in snapshots_in(self.log.directory)))
        )
        self.log.clean(now_ms=0)
        self.log.checkpoint()
        self._promise(starts=(self.log.start_offset,))

    def install(self, snapshot: SnapshotId) -> None:
        """Download a snapshot that is beyond the log, and begin anew there; once it is complete,
        opening does that too.
        """
        self._promise(
            starts=(*self.promise.starts, snapshot.end_offset),
            end_offset=self.promise.high_watermark,
            log=self.content(),
        )
        self.snapshot(snapshot)
        self.log.truncate_to_snapshot(snapshot)
        end = snapshot.end_offset
        self._promise(starts=(end,), end_offset=end, high_watermark=end, log=())

    def reopen(self) -> None:
        self.log.close()
        self._promise(end_offset=self.log.end_offset, log=self.content())
        self.log = LocalLog.open(self.root, SMALL, disk=self.disk)

    def content(self) -> tuple[tuple[int, bytes], ...]:
        """Every batch that the log holds now, as its files have it."""
        return content_of(self.log)

    def _promise(self, **changed: Any) -> None:
        self.promise = replace(self.promise, **changed)
        self.ack(self.promise)


def content_of(log: LocalLog) -> tuple[tuple[int, bytes], ...]:
    """Base offset and bytes of every batch in the segments, read from the files."""
    found = []
    for path in sorted(log.directory.glob("*.log")):
        data = path.read_bytes()
        for header, _ in read_log_file(path):
            found.append((header.base_offset, data[header.position : header.end]))
    return tuple(found)


def snapshots_in(directory: Path) -> list[SnapshotId]:
    """Complete snapshots, oldest first."""
    return [
        SnapshotId(int(path.name[:20]), int(path.name[21:31]))
        for path in sorted(directory.glob("*.checkpoint"))
    ]
