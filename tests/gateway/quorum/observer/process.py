"""The process around an observer, as a model: a log, what of it is on disk, and what the driver
does with the effects.

Every rule that an effect must keep is checked where it is performed; a breach is a
:class:`Violation`. ``start`` makes a new node from what is on disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.base.address import Address
from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    ElectionState,
    InstallSnapshot,
    LeaderChanged,
    LearnClusterId,
    Persist,
    Report,
    SnapshotChunk,
    Stop,
    Truncate,
)
from gateway.quorum.events import Installed
from gateway.quorum.raft import Raft
from gateway.quorum.settings import ObserverSettings, RaftSettings, Stored
from kwire.errors import DecodeError
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import iter_batches
from kwire.uuid import Uuid
from tests.gateway.quorum.batches import Batch
from tests.gateway.quorum.observer.model import Quorum

DIRECTORY_ID = Uuid(bytes(range(16)))


class Violation(AssertionError):
    """The observer broke a promise."""


class DiskFailed(Exception):
    """The disk does not take this effect, and may take the next."""


class Crash(Exception):
    """The process dies here."""


class Stopped(Exception):
    """The observer stopped, and was right to: its replica id is a voter's."""


def require(holds: bool, promise: str) -> None:
    if not holds:
        raise Violation(promise)


class ModelLog:
    """A log in memory that is durable up to the last ``flush``, with the fields that the core
    reads.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start = SnapshotId(0, 0)
        self.flushed = 0
        self.snapshot: SnapshotId | None = None

    @property
    def start_offset(self) -> int:
        return self.start.end_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start.epoch

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshot

    @property
    def flushed_end(self) -> int:
        return self.batches[self.flushed - 1].next if self.flushed else self.start_offset

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        first: dict[int, int] = {}
        for batch in self.batches:
            first.setdefault(batch.epoch, batch.base)
        return tuple(first.items())

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        found = (
            (self.start.epoch, self.start_offset)
            if self.start_offset and self.start.epoch <= epoch
            else (-1, -1)
        )
        for batch in self.batches:
            if batch.epoch <= epoch:
                found = (batch.epoch, batch.next)
        return found

    def append(self, records: bytes | memoryview) -> None:
        """All whole batches or none. Raises DecodeError for a wrong CRC; anything else wrong is the
        observer's fault.
        """
        data = bytes(records)
        headers = list(iter_batches(data, check_crc=True))
        require(bool(headers) and headers[-1].end == len(data), "whole batches are appended")
        for header in headers:
            require(header.base_offset == self.end_offset, "no gap and no overlap in the log")
            require(
                header.partition_leader_epoch >= self.last_epoch, "epochs in the log never fall"
            )
            batch = data[header.position : header.end]
            self.batches.append(
                Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, batch)
            )

    def truncate_to(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next <= offset]
        self.flushed = min(self.flushed, len(self.batches))

    def truncate_to_snapshot(self, id: SnapshotId) -> None:
        self.batches, self.flushed, self.start, self.snapshot = [], 0, id, id

    def flush(self) -> None:
        self.flushed = len(self.batches)

    def lose_unflushed(self, rng: random.Random) -> None:
        """A crash: of what was not flushed, any number of batches from the front are there."""
        del self.batches[rng.randint(self.flushed, len(self.batches)) :]
        self.flushed = len(self.batches)


def observer_settings(bootstrap: tuple[Address, ...], **more: Any) -> RaftSettings:
    """The settings of a node that never votes; ``replica_id``, ``history`` and ``principal`` are
    the observer's own.
    """
    own = {name: more.pop(name) for name in ("replica_id", "history", "principal") if name in more}
    return RaftSettings(
        node_id=own.get("replica_id", -1),
        directory_id=more.pop("directory_id", DIRECTORY_ID),
        cluster_id=more.pop("cluster_id", None),
        listener="",
        endpoints={},
        bootstrap=bootstrap,
        retry_backoff_max_s=1.0,
        observer=ObserverSettings(**own),
        **more,
    )


class Process:
    """One process of the observer after the other, on the same disk."""

    def __init__(self, quorum: Quorum, settings: RaftSettings, rng: random.Random) -> None:
        self.quorum = quorum
        self.settings = settings
        self.rng = rng
        self.log = ModelLog()
        self.remembered = (0, -1)
        self.shown = 0  # the durable high watermark: what clients may read
        self.cluster_id = settings.cluster_id
        self.before_effect: Callable[[Effect], None] = lambda effect: None
        self.part: tuple[SnapshotId, bytearray, int] | None = None
        self.installed: Installed | None = None
        self.raft: Raft

    def start(self, now: float) -> list[Effect]:
        """A new node from what is on disk; the part of a snapshot is not."""
        self.part = self.installed = None
        self.shown = max(
            self.shown, self.log.start_offset
        )  # killed between a snapshot and the number that goes with it
        stored = Stored(
            election=ElectionState(*self.remembered),
            start_offset=self.log.start_offset,
            start_epoch=self.log.start.epoch,
            end_offset=self.log.end_offset,
            epochs=self.log.epochs,
            snapshots=(self.log.snapshot,) if self.log.snapshot else (),
            high_watermark=self.shown,
        )
        settings = replace(self.settings, cluster_id=self.cluster_id)
        self.raft = Raft(settings, stored, random=self.rng.random, now=now, wall_ms=0)
        return self.raft.start(now, 0)

    def perform(self, effect: Effect) -> None:
        """One effect but Send. Raises Crash, DiskFailed, Stopped, Violation."""
        self.before_effect(effect)
        match effect:
            case Append(_, base_offset, data):
                require(base_offset == self.log.end_offset, "a batch is appended at the log's end")
                try:
                    self.log.append(data)
                except DecodeError as error:
                    raise Violation(f"bytes that the log refuses: {error}") from None
                require(
                    self.log.last_epoch <= self.remembered[0],
                    "an epoch is remembered before its batches",
                )
            case Truncate(_, offset):
                require(
                    self.shown <= offset < self.log.end_offset,
                    f"truncation to {offset} never below {self.shown}",
                )
                self.log.truncate_to(offset)
                require(self.log.end_offset == offset, "a truncation ends where a batch begins")
            case BeginSnapshot(id):
                self.part = (id, bytearray(), 0)
            case SnapshotChunk(position, data, size):
                self._chunk(position, bytes(data), size)
            case InstallSnapshot(_, id):
                self._install(id)
            case AbandonSnapshot():
                self.part = None
            case Advance(high_watermark):
                self._show(high_watermark)
            case Persist(_, state, _):
                require(state.epoch >= self.log.last_epoch, "the epoch is not below the log's")
                require(
                    state.leader_id in (-1, self.quorum.leaders.get(state.epoch)),
                    "the leader remembered is the epoch's",
                )
                require(state.voted_id == -1, "an observer votes for nobody")
                self.remembered = (state.epoch, state.leader_id)
            case LeaderChanged(epoch, leader_id):
                require(
                    leader_id in (-1, self.quorum.leaders.get(epoch)),
                    "the leader named is the epoch's",
                )
            case LearnClusterId(_, cluster_id):
                require(self.cluster_id is None, "a cluster id is learned once")
                self.cluster_id = cluster_id
            case Stop(reason):
                if self.settings.node_id in self.quorum.voters and "replica.id" in reason:
                    raise Stopped
                raise Violation(f"stopped without need: {reason}")
            case _:
                require(isinstance(effect, Report), f"an observer never wants {effect}")

    def check(self) -> None:
        """After all effects of an event."""
        require(
            self.remembered[0] >= self.raft.epoch or not self.raft._node.is_answered,
            "an epoch is remembered when a leader has answered in it",
        )
        require(
            self.shown == self.raft.high_watermark,
            "what the observer calls committed is what is shown",
        )
        require(self.raft.role in ("follower", "unattached"), "an observer stands for no election")

    def _chunk(self, position: int, data: bytes, size: int) -> None:
        require(self.part is not None, "a snapshot is begun before its bytes come")
        assert self.part is not None
        id, content, _ = self.part
        require(
            position == len(content) and bool(data),
            "chunks of a snapshot come in order, without gaps, and not empty",
        )
        content += data
        self.part = (id, content, size)

    def _install(self, id: SnapshotId) -> None:
        require(
            self.part is not None and self.part[0] == id,
            "a snapshot is begun before it is installed",
        )
        assert self.part is not None
        _, content, size = self.part
        require(len(content) == size, "only a whole snapshot is installed")
        text = bytes(content).decode()
        require(
            text.startswith("<") and text.endswith(">") and text.count("<") == 1,
            "a snapshot is of one voter",
        )
        require(text.split("|")[1] == str(id), "a snapshot is what its name says")
        require(
            self.quorum.committed_epoch_before(id.end_offset) == id.epoch,
            "a snapshot stands for committed records",
        )
        require(id.end_offset >= self.shown, "a snapshot never ends below what is shown")
        self.log.truncate_to_snapshot(id)
        self.part = None
        self.installed = Installed(id, None, 0)

    def _show(self, high_watermark: int) -> None:
        require(
            high_watermark > self.shown,
            f"the high watermark only grows: {self.shown} to {high_watermark}",
        )
        require(high_watermark <= self.log.flushed_end, "nothing is shown that is not on disk")
        require(
            high_watermark <= self.quorum.committed_end, "nothing is shown that is not committed"
        )
        self.shown = high_watermark
        self.check_shown()

    def check_shown(self) -> None:
        """Require that the served batches are those of the committed log from the log start on."""
        start = self.log.start_offset
        local = [batch for batch in self.log.batches if batch.base < self.shown]
        truth = [batch for batch in self.quorum.committed if start <= batch.base < self.shown]
        require(local == truth, "what is shown is what was committed")
        require(self.shown <= self.log.end_offset, "what was shown stays")
