"""A node's disk in memory: log, snapshots and election state, durable at the time that a test
chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.base.address import Address
from gateway.quorum import effects as fx
from gateway.quorum.settings import Stored
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import decode_batches, decode_control_record, iter_batches
from kwire.uuid import Uuid

CLUSTER = "cluster-of-the-tests00"


LISTENER = "CONTROLLER"


WALL_MS = 1_700_000_000_000


def address(id: int) -> Address:
    return Address(f"node{id}", 9090 + id)


def directory(id: int) -> Uuid:
    return Uuid(id.to_bytes(16, "big"))


def voter_node(id: int) -> VoterNode:
    return VoterNode(id, directory(id), {LISTENER: address(id)}, (0, 1))


@dataclass
class Batch:
    """A batch on a disk."""

    base: int
    end: int
    epoch: int
    data: bytes


@dataclass
class Disk:
    """The durable state, and the pending changes as (token, function)."""

    state: fx.ElectionState | None = None
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    start_epoch: int = 0
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    formatted: VoterSet | None = None
    high_watermark: int = 0
    pending: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    part: bytes = b""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def sync(self) -> int:
        """Everything on its way is done: the last token, 0 if there was none."""
        pending, self.pending = self.pending, []
        for _, do in pending:
            do()
        return max((token for token, _ in pending), default=0)

    def append(self, base_offset: int, data: bytes) -> None:
        assert base_offset == self.end, f"append at {base_offset}, the log ends at {self.end}"
        for header in iter_batches(data, check_crc=True):
            self.batches.append(
                Batch(
                    header.base_offset,
                    header.next_offset,
                    header.partition_leader_epoch,
                    data[header.position : header.end],
                )
            )

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        assert self.end == offset, "truncated inside of a batch"

    def install(self, id: SnapshotId, data: bytes) -> None:
        self.snapshots = {id: data}
        self.batches, self.start, self.start_epoch = [], id.end_offset, id.epoch

    def read(self, offset: int, end: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.batches:
            if (
                batch.end > offset
                and batch.end <= end
                and (not found or len(found) + len(batch.data) <= max_bytes)
            ):
                found += batch.data
        return found

    def stored(self) -> Stored:
        epochs: list[tuple[int, int]] = []
        voters: list[tuple[int, VoterSet]] = [(-1, self.formatted)] if self.formatted else []
        versions: list[tuple[int, int]] = [(-1, 1)] if self.formatted else []
        for id, data in self.snapshots.items():
            _heads(data, id.end_offset - 1, voters, versions)
        for batch in self.batches:
            if not epochs or batch.epoch > epochs[-1][0]:
                epochs.append((batch.epoch, batch.base))
            _heads(batch.data, None, voters, versions)
        return Stored(
            election=self.state,
            start_offset=self.start,
            start_epoch=self.start_epoch,
            end_offset=self.end,
            epochs=tuple(epochs),
            snapshots=tuple(sorted(self.snapshots)),
            high_watermark=self.high_watermark,
            voters=tuple(voters),
            kraft_versions=tuple(versions),
        )


def _heads(
    data: bytes, at: int | None, voters: list[tuple[int, VoterSet]], versions: list[tuple[int, int]]
) -> None:
    for batch in decode_batches(data):
        for record in batch.records if batch.header.is_control else ():
            message = decode_control_record(record).message
            offset = record.offset if at is None else at
            if isinstance(message, VotersRecord):
                voters.append((offset, VoterSet.of_record(message)))
            elif isinstance(message, KRaftVersionRecord):
                versions.append((offset, message.k_raft_version))
