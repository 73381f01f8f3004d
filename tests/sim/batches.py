"""Logs of batches as the simulated disks hold them, with a number that names each prefix.

A name stands for a batch and everything before it, so that two logs agree up to an offset exactly
where two numbers are equal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from gateway.quorum.voter_set import VoterSet
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import decode_batch, decode_control_record, iter_batches


class Batch(NamedTuple):
    """A batch: base offset, one past its last offset, leader epoch, bytes.

    ``voters`` and ``kraft_versions``: (offset, value) of each control record that sets one.
    """

    base: int
    next: int
    epoch: int
    data: bytes
    control: bool
    voters: tuple[tuple[int, VoterSet], ...] = ()
    kraft_versions: tuple[tuple[int, int], ...] = ()


class Parser:
    """Decodes appended bytes into batches, each once: the same bytes go to every node."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[Batch, ...]] = {}

    def batches(self, data: bytes | memoryview) -> tuple[Batch, ...]:
        """The batches in ``data``, which must be whole."""
        key = bytes(data)
        found = self._seen.get(key)
        if found is None:
            found = tuple(self._read(key))
            assert sum(len(batch.data) for batch in found) == len(key), (
                "bytes behind the last whole batch"
            )
            self._seen[key] = found
        return found

    def _read(self, data: bytes) -> list[Batch]:
        found = []
        for header in iter_batches(data, check_crc=True):
            voters: list[tuple[int, VoterSet]] = []
            kraft_versions: list[tuple[int, int]] = []
            if header.is_control:
                for record in decode_batch(data, header.position).records:
                    message = decode_control_record(record).message
                    if isinstance(message, VotersRecord):
                        voters.append((record.offset, VoterSet.of_record(message)))
                    elif isinstance(message, KRaftVersionRecord):
                        kraft_versions.append((record.offset, message.k_raft_version))
            found.append(
                Batch(
                    header.base_offset,
                    header.next_offset,
                    header.partition_leader_epoch,
                    data[header.position : header.end],
                    header.is_control,
                    tuple(voters),
                    tuple(kraft_versions),
                )
            )
        return found


class Snapshot(NamedTuple):
    """A snapshot file: its id, its bytes, the name of the log prefix that it replaces, and the
    voters and kraft.version at its end.
    """

    id: SnapshotId
    data: bytes
    prefix: int
    voters: VoterSet | None
    kraft_version: int


class Log:
    """Batches from ``start_offset`` on, with the name of the log up to the end of each."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.start_epoch = 0
        self.start_prefix = 0
        self.batches: list[Batch] = []
        self.ends: list[int] = []
        self.prefixes: list[int] = []

    @property
    def end_offset(self) -> int:
        return self.ends[-1] if self.ends else self.start_offset

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    @property
    def last_prefix(self) -> int:
        return self.prefixes[-1] if self.prefixes else self.start_prefix

    def copy(self) -> Log:
        """Return an independent copy."""
        made = Log()
        made.start_offset, made.start_epoch, made.start_prefix = (
            self.start_offset,
            self.start_epoch,
            self.start_prefix,
        )
        made.batches, made.ends, made.prefixes = self.batches[:], self.ends[:], self.prefixes[:]
        return made

    def append(self, batch: Batch, prefix: int) -> None:
        self.batches.append(batch)
        self.ends.append(batch.next)
        self.prefixes.append(prefix)

    def truncate(self, offset: int) -> None:
        n = bisect_right(self.ends, offset)
        del self.batches[n:], self.ends[n:], self.prefixes[n:]

    def install(self, snapshot: Snapshot) -> None:
        """Drop all batches; the log begins at the end of ``snapshot``."""
        self.start_offset, self.start_epoch = snapshot.id
        self.start_prefix = snapshot.prefix
        self.batches, self.ends, self.prefixes = [], [], []

    def clean(self, offset: int) -> None:
        """Drop the batches below ``offset``, the end of a batch."""
        n = bisect_right(self.ends, offset)
        if n:
            self.start_offset, self.start_epoch, self.start_prefix = (
                self.ends[n - 1],
                self.batches[n - 1].epoch,
                self.prefixes[n - 1],
            )
            del self.batches[:n], self.ends[:n], self.prefixes[:n]

    def prefix_at(self, offset: int) -> int | None:
        """The name of the log up to ``offset``; None where no batch ends there, or where the log
        now starts later.
        """
        if offset == self.start_offset:
            return self.start_prefix
        n = bisect_left(self.ends, offset)
        return self.prefixes[n] if n < len(self.ends) and self.ends[n] == offset else None

    def epoch_before(self, offset: int) -> int | None:
        """Epoch of the record before ``offset``, the end of a batch."""
        if offset == self.start_offset:
            return self.start_epoch
        n = bisect_left(self.ends, offset)
        return self.batches[n].epoch if n < len(self.ends) and self.ends[n] == offset else None

    def read(self, offset: int, end: int, max_bytes: int) -> bytes | None:
        """Whole batches from the one that holds ``offset``, at least one; None when the log does
        not hold them.
        """
        if offset < self.start_offset or end > self.end_offset:
            return None
        found: list[bytes] = []
        size = 0
        for n in range(bisect_right(self.ends, offset), len(self.ends)):
            batch = self.batches[n]
            if batch.next > end or (found and size + len(batch.data) > max_bytes):
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of the batches, ascending."""
        found: list[tuple[int, int]] = []
        for batch in self.batches:
            if not found or found[-1][0] != batch.epoch:
                found.append((batch.epoch, batch.base))
        return tuple(found)
