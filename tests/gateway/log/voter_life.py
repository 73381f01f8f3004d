"""A voter's life as a crash may interrupt it: everything that can be done to its files, in any
order, and what was promised.

``Promise`` states the content that a start after the crash must find: every synced record, only
records that were written, in that order, and the last election state or the one being written.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from gateway.log.files.disk import Disk
from gateway.log.metadata.formatting import format_directory
from gateway.log.metadata.stored_facts import Election
from gateway.log.partition.log_settings import LogSettings
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voting import control_batch, formatting, open_store, voters
from tests.gateway.log.workload import DIRECTORY_ID


class World(NamedTuple):
    """One way the log may be: it begins at one of ``starts``, ends at ``least`` or later, and is a
    prefix of ``batches``.
    """

    starts: frozenset[int]
    least: int
    batches: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class Promise:
    """The conditions that hold after a crash at this instant."""

    formatted: bool = False
    elections: tuple[Election, ...] = (Election(0),)  #: one of them
    worlds: tuple[World, ...] = (World(frozenset({0}), 0),)  #: one of them
    high_watermark: int = 0  #: at most
    noted: int = 0  #: the high watermark at least, where only the process was killed
    settled: int = 0  #: the same where the machine stopped


class Life:
    """Does things to a voter's directory and tells ``ack`` the promise: before what changes it, and
    after.
    """

    def __init__(
        self, root: Path, settings: LogSettings, disk: Disk, ack: Callable[[Promise], None]
    ) -> None:
        self.root = root
        self.settings = settings
        self.disk = disk
        self.promise = Promise()
        self._ack = ack
        self._log: list[tuple[int, bytes]] = []  # what the log holds, as far as this process knows
        self._epoch = 0
        self._elected = Election(0)
        self._starts = frozenset({0})
        self._synced = 0
        ack(self.promise)
        format_directory(root, formatting(), disk=disk)
        self._promise(formatted=True)
        self.store = open_store(root, settings, disk=disk)

    def run(self, rand: random.Random, steps: int) -> None:
        """Perform random operations of a voter, then close it."""
        self.elect(rand)
        for _ in range(steps):
            match rand.choice("aaaaaassshhettocrdi"):
                case "a":
                    self.append(rand)
                case "s":
                    self.sync()
                case "h":
                    self.commit(rand)
                case "e":
                    self.elect(rand)
                case "t":
                    self.truncate(rand)
                case "o":
                    self.own_snapshot(rand)
                case "c":
                    self.clean()
                case "r":
                    self.reopen()
                case "d" if rand.random() < 0.3:
                    self.reopen()
                    self.download(rand)
                case "i":
                    self.elect(rand)
                    self.download(rand)
                case _:
                    self.append(rand)
                    self.sync()
        self.reopen()
        self.store.close()

    # --- elections
    # ---------------------------------------------------------------------------------------------

    def elect(self, rand: random.Random) -> None:
        """A vote, or a leader; now and then more about the same epoch."""
        known = self._elected
        if known.leader_id < 0 and known.epoch and rand.random() < 0.5:
            new = known._replace(leader_id=rand.randint(1, 3))
        else:
            fields: list[tuple[Any, ...]] = [(-1, 2, DIRECTORY_ID), (1, 1, DIRECTORY_ID), (3,)]
            new = Election(self._epoch + 1, *rand.choice(fields))
        self._promise(elections=(known, new))
        self.store.persist(*new, kraft_version=1)
        self._elected, self._epoch = new, new.epoch
        self._promise(elections=(new,))

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def append(self, rand: random.Random) -> None:
        """One to three calls, of one to three batches each."""
        for _ in range(rand.randint(1, 3)):
            base = self.store.end_offset
            data = b""
            new: list[tuple[int, bytes]] = []
            for _ in range(rand.randint(1, 3)):
                one = self._batch(base + sum(_count(each) for _, each in new), rand)
                new.append((int.from_bytes(one[:8], "big"), one))
                data += one
            self._log += new
            self._promise_log()
            self.store.append(base, data)

    def _batch(self, offset: int, rand: random.Random) -> bytes:
        if rand.random() < 0.15:
            said = (
                ("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1)),
                ("KRAFT_VOTERS", voters(1, offset + 2)),
            )
            return control_batch(offset, self._epoch, *said)
        return batch(
            offset, rand.randint(1, 3), self._epoch, size=rand.choice([1, 20, 60, 600])
        ).data

    def sync(self) -> None:
        """Flush the log: every appended record is durable from now on."""
        self._synced = self.store.flush()
        self._promise_log()

    def commit(self, rand: random.Random) -> None:
        """The high watermark goes on, not beyond what is synced."""
        new = rand.randint(
            self.promise.high_watermark, max(self.promise.high_watermark, self._synced)
        )
        self._promise(high_watermark=new)
        self.store.set_high_watermark(new)
        self._promise(noted=new)

    def truncate(self, rand: random.Random) -> None:
        """Drop an end that is not committed, at a batch's beginning."""
        ends = [offset for offset, _ in self._log if offset >= self.promise.high_watermark]
        if not ends:
            return
        offset = rand.choice(ends)
        self._synced = min(self._synced, offset)
        self._promise_log()
        self.store.truncate_to(offset)
        self._log = [one for one in self._log if one[0] < offset]
        self._synced = offset
        self._promise_log(settled=self.promise.high_watermark)

    # --- snapshots
    # ---------------------------------------------------------------------------------------------

    def own_snapshot(self, rand: random.Random) -> None:
        """Of what is committed, written while the log goes on."""
        ends = [offset + _count(data) for offset, data in self._log]
        newest = max((one.end_offset for one in self.store.snapshots), default=0)
        ends = [end for end in ends if newest < end <= self.promise.high_watermark]
        if not ends:
            return
        end = rand.choice(ends)
        epochs = [int.from_bytes(data[12:16], "big") for offset, data in self._log if offset < end]
        snapshot = SnapshotId(end, epochs[-1])
        writer = self.store.new_snapshot(snapshot)
        for position, piece in _pieces(snapshot_of_voters(snapshot.epoch)):
            writer.write(position, piece)
            self.append(rand)
        writer.freeze()

    def download(self, rand: random.Random) -> None:
        """A leader's snapshot takes the log's place; it may be shorter, where the log's end was
        never committed.
        """
        least = self.promise.high_watermark + 1
        most = (
            self._synced
            if self._synced >= least and rand.random() < 0.6
            else max(self.store.end_offset, least) + 30
        )
        snapshot = SnapshotId(rand.randint(least, most), self._epoch)
        last = int.from_bytes(self._log[-1][1][12:16], "big") if self._log else 0
        if (snapshot.epoch, snapshot.end_offset) <= (last, self.store.end_offset):
            return
        writer = self.store.new_snapshot(snapshot)
        for position, piece in _pieces(snapshot_of_voters(snapshot.epoch)):
            writer.write(position, piece)
        high_watermark = self.promise.high_watermark
        new = World(frozenset({snapshot.end_offset}), snapshot.end_offset)
        # Synced records that are not committed may be lost from here on.
        old = World(self._starts, high_watermark, tuple(self._log))
        self._promise(worlds=(old, new), high_watermark=snapshot.end_offset)
        writer.freeze()
        self.store.truncate_to_snapshot(snapshot)
        self._log, self._starts, self._synced = [], new.starts, snapshot.end_offset
        self._promise(worlds=(new,), noted=snapshot.end_offset, settled=snapshot.end_offset)

    def clean(self) -> None:
        """Everything but the newest snapshot, and what is behind it, may go."""
        self._starts |= {one.end_offset for one in self.store.snapshots}
        self._promise_log()
        self.store.clean(now_ms=0)
        start = self.store.start_offset
        self._starts = frozenset({start})
        self._promise_log(settled=self.promise.noted)

    def reopen(self) -> None:
        """A clean end of the process, and its start."""
        self.store.close()
        self._synced = self._log[-1][0] + _count(self._log[-1][1]) if self._log else self._synced
        self._promise_log(settled=self.promise.noted)
        self.store = open_store(self.root, self.settings, disk=self.disk)
        assert self.store.problems == []

    def _promise_log(self, **more: Any) -> None:
        self._promise(worlds=(World(self._starts, self._synced, tuple(self._log)),), **more)

    def _promise(self, **changed: Any) -> None:
        self.promise = replace(self.promise, **changed)
        self._ack(self.promise)


def snapshot_of_voters(epoch: int) -> bytes:
    """A snapshot that says who votes."""
    head = control_batch(
        0,
        epoch,
        ("SNAPSHOT_HEADER", SnapshotHeaderRecord()),
        ("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1)),
        ("KRAFT_VOTERS", voters(1, 2)),
    )
    return (
        head
        + batch(3, 2, epoch).data
        + control_batch(5, epoch, ("SNAPSHOT_FOOTER", SnapshotFooterRecord()))
    )


def _pieces(data: bytes) -> list[tuple[int, bytes]]:
    return [(start, data[start : start + 150]) for start in range(0, len(data), 150)]


def _count(data: bytes) -> int:
    """Offsets that a batch takes."""
    return int.from_bytes(data[23:27], "big") + 1
