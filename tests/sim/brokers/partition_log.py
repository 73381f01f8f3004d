"""A log of a partition as a simulated broker has it: batches, leader epochs, producers, and what
power loss leaves of them.

A killed process loses nothing that is in the page cache. After power loss a log is a prefix that
has everything synced. Truncations are on disk at once, as are checkpoints: both are replaced files.
Every prefix of a log has a name: two logs agree up to an offset where the names are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gateway.base.leader_epochs import LeaderEpochs
from gateway.broker.produce.marker import Marker
from gateway.broker.produce.producer_snapshot import decode_snapshot, encode_snapshot
from gateway.broker.produce.producer_state import CompletedTxn, ProducerStates
from kwire.records.header import BatchHeader

#: Batches of a segment. A snapshot of the producers is written when one begins.
SEGMENT: Final = 6
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class Entry(NamedTuple):
    """A batch: its header, its values, and the marker of a control batch. ``name`` is the same for
    the same batch on every broker.
    """

    header: BatchHeader
    values: tuple[str, ...]
    marker: Marker | None = None

    @property
    def name(self) -> tuple[int, int, tuple[str, ...]]:
        """The content of the batch, where it is, and the epoch in which it was written there."""
        return self.header.base_offset, self.header.partition_leader_epoch, self.values

    def at(self, offset: int, epoch: int) -> Entry:
        """The batch as a leader writes it."""
        header = self.header._replace(base_offset=offset, partition_leader_epoch=epoch)
        return self._replace(header=header)


def batch(
    values: Sequence[str],
    now_ms: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    transactional: bool = False,
    marker: Marker | None = None,
) -> Entry:
    """A batch before it has offsets. ``producer``: id, epoch, first sequence."""
    attributes = (_TRANSACTIONAL if transactional else 0) | (_CONTROL if marker else 0)
    header = BatchHeader(
        0, 100, -1, 2, 0, attributes, len(values) - 1, now_ms, now_ms, *producer, len(values), 0
    )
    return Entry(header, tuple(values), marker)


class Names:
    """Names of log prefixes, for all logs of a schedule."""

    def __init__(self) -> None:
        self._names: dict[object, int] = {}

    def of(self, before: int, entry: Entry) -> int:
        """The name of the log ``before`` with ``entry`` behind it."""
        return self._names.setdefault((before, entry.name), len(self._names) + 1)


class PartitionLog:
    """The log of one replica. ``epochs`` and ``states`` are those of the entries."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.start_offset = 0
        self.entries: list[Entry] = []
        self.prefixes: list[int] = []
        self.deleted: list[Entry] = []  #: below the log start, and in its segment for a start
        self.name_before = 0  #: the name of what was deleted before the first entry
        self._names_deleted: dict[int, int] = {}  # where deleted entries end
        self.epochs = LeaderEpochs()
        self.states = ProducerStates()
        self.snapshots: dict[int, bytes] = {}
        self.aborted: list[CompletedTxn] = []
        self.synced = 0  #: everything below survives power loss
        self.lost_below = (
            0  #: power loss took entries below this offset, and they did not come back
        )
        self.high_watermark_checkpoint = 0
        self.known_from = 0  #: of batches below, only the newest of each producer is known
        self.began_at = 0  #: nothing is known of the producers of batches below

    # --- reading

    @property
    def end_offset(self) -> int:
        return self.entries[-1].header.next_offset if self.entries else self.start_offset

    @property
    def last_epoch(self) -> int:
        latest = self.epochs.latest
        return -1 if latest is None else latest

    def index_of(self, offset: int) -> int:
        """The first entry that ends behind ``offset``."""
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].header.next_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, offset: int, end: int, most: int) -> tuple[Entry, ...]:
        """At most ``most`` whole entries from ``offset`` to ``end``."""
        at = self.index_of(offset)
        found = self.entries[at : at + most]
        return tuple(one for one in found if one.header.next_offset <= end)

    def prefix_at(self, offset: int) -> int | None:
        """The name of the log up to ``offset``; None if no entry ends there."""
        at = self.index_of(offset)
        ends = self.entries[at - 1].header.next_offset if at else self.start_offset
        if at and ends == offset:
            return self.prefixes[at - 1]
        return self.name_before if not at and offset <= self.start_offset else None

    def name_at(self, offset: int) -> int | None:
        """As :meth:`prefix_at`, also where the first entry begins, and where deleted ones end."""
        if self.entries and self.entries[0].header.base_offset == offset:
            return self.name_before
        return self._names_deleted.get(offset) or self.prefix_at(offset)

    def stable_end(self, high_watermark: int) -> int:
        """The last stable offset."""
        unstable = self.states.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # --- appending

    def append(self, entry: Entry) -> None:
        """Append an entry that has its offset and epoch, and note it in epochs and producers."""
        assert entry.header.base_offset == self.end_offset, "an entry that is not at the end"
        if self.entries and len(self.entries) % SEGMENT == 0:
            self.snapshots[self.end_offset] = encode_snapshot(self.states.all())
            self.synced = max(self.synced, self.end_offset)
        before = self.prefixes[-1] if self.prefixes else self.name_before
        self.entries.append(entry)
        self.prefixes.append(self._names.of(before, entry))
        self.epochs.assign(entry.header.partition_leader_epoch, entry.header.base_offset)
        self._fold(entry)
        if self.end_offset >= self.lost_below:
            self.lost_below = 0

    def _fold(self, entry: Entry) -> None:
        completed = self.states.append(entry.header, entry.marker)
        if completed is not None and completed.is_aborted:
            self.aborted.append(completed)

    def truncate_to(self, offset: int) -> None:
        """Drop what is at ``offset`` or behind it, and rebuild the producers from a snapshot."""
        at = self.index_of(offset)
        del self.entries[at:], self.prefixes[at:]
        self.epochs.truncate_from_end(self.end_offset)
        self.synced = min(self.synced, self.end_offset)
        self.snapshots = {one: data for one, data in self.snapshots.items() if one <= offset}
        self.aborted = [one for one in self.aborted if one.last_offset < offset]
        self.deleted = [one for one in self.deleted if one.header.base_offset < offset]
        self.load_producers()

    def load_producers(self) -> None:
        """Read the producers from the newest snapshot and what is behind it, as a start does: also
        from batches below the log start, which are there for as long as their segment is.
        """
        stored = [*self.deleted, *self.entries]
        self.states = ProducerStates()
        self.known_from = stored[0].header.base_offset if stored else self.start_offset
        known = max(self.snapshots, default=None)
        if known is not None:
            self.states = ProducerStates(decode_snapshot(self.snapshots[known]))
            self.known_from = known
        self.aborted = [one for one in self.aborted if one.last_offset < self.known_from]
        for entry in stored:
            if entry.header.base_offset >= self.known_from:
                self._fold(entry)

    def start_at(self, offset: int, name: int) -> None:
        """Drop everything and begin at ``offset``, behind what the log of that ``name`` has."""
        self.entries, self.prefixes, self.snapshots, self.aborted = [], [], {}, []
        self.deleted = []
        self.name_before = name
        self._names_deleted = {}
        self.start_offset = self.synced = self.began_at = offset
        self.epochs.clear()
        self.states = ProducerStates()

    def delete_below(self, offset: int) -> None:
        """Delete the entries that end at ``offset`` or before it."""
        offset = min(offset, self.end_offset)
        at = self.index_of(offset)
        if at:
            self.name_before = self.prefixes[at - 1]
            for entry, name in zip(self.entries[:at], self.prefixes, strict=False):
                self._names_deleted[entry.header.next_offset] = name
            self.deleted += self.entries[:at]
            del self.entries[:at], self.prefixes[:at]
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_from_start(offset)

    def name_start(self, name: int) -> None:
        """Begin the names with that of another log up to the first entry."""
        self.name_before = name
        for at, entry in enumerate(self.entries):
            name = self.prefixes[at] = self._names.of(name, entry)

    # --- power

    def sync(self) -> None:
        """Everything that was written is on disk."""
        self.synced = self.end_offset

    def lose_power(self, share: float) -> Iterable[Entry]:
        """Keep what is synced and ``share`` of the rest; return what is lost."""
        kept = self.index_of(self.synced)
        kept += int((len(self.entries) - kept) * share)
        lost = self.entries[kept:]
        if lost:
            self.lost_below = max(self.lost_below, self.end_offset)
            self.truncate_to(lost[0].header.base_offset)
        return lost
