"""Keeps the facts of one partition over a whole schedule, as no single broker knows them: the
committed log, its leaders, the answers to clients.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from tests.sim.brokers.messages import Key
from tests.sim.brokers.partition_log import Entry


class PartitionFacts:
    """``is_clean`` is false once committed records may be gone: after the election of a replica
    that was not in sync, or when every replica in sync has lost its power.
    """

    def __init__(self, key: Key) -> None:
        self.key = key
        self.is_clean = True
        self.before: Any = None  #: the record of the partition before the newest change
        #: The committed log is known from this leader epoch on.
        self.from_epoch = 0
        self.leaders: dict[int, int] = {}  # leader epoch -> broker
        self.high_watermarks: dict[int, int] = {}  # leader epoch -> of its leader
        #: Where what is known of the committed log begins, and the name of what is before it.
        self.start: tuple[int, int] = (0, 0)
        self.ends: list[int] = []
        self.names: list[int] = []
        self.epochs: list[int] = []  # of the leaders that have committed them
        self.entries: list[Entry] = []
        self.sequences: dict[tuple[int, int], int] = {}  # (producer, epoch) -> next sequence
        self.values: set[str] = set()  # committed while it is clean
        self.batches: dict[tuple[str, ...], int] = {}  # committed at any time, and at which offset
        self.confused: set[int] = set()  # producers one of whose old batches was taken for new
        self.repeated: set[Any] = set()  # names of such batches, where they were appended again
        self.written: dict[tuple[int, int], tuple[str, ...]] = {}  # (epoch, offset) -> values
        self.seen: dict[int, tuple[str, ...]] = {}  # offset -> values that a consumer got
        self.acked: dict[tuple[str, ...], int] = {}
        self.pending: set[tuple[str, ...]] = set()  # sent, and sent again until acknowledged

    @property
    def committed_end(self) -> int:
        """Up to where records are committed."""
        return self.ends[-1] if self.ends else self.start[0]

    def name_at(self, offset: int) -> int | None:
        """The name of the committed log up to ``offset``; None if no batch ends there."""
        if offset == self.start[0]:
            return self.start[1]
        at = bisect_left(self.ends, offset)
        return self.names[at] if at < len(self.ends) and self.ends[at] == offset else None

    def next_end(self, offset: int) -> int | None:
        """The end of the committed batch that has ``offset``; None behind the last one."""
        at = bisect_right(self.ends, offset)
        return self.ends[at] if at < len(self.ends) else None

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that has committed the batch at ``offset``."""
        return self.epochs[bisect_right(self.ends, offset)]

    def entry_at(self, offset: int) -> Entry | None:
        """The committed batch that has ``offset``."""
        at = bisect_right(self.ends, offset)
        return self.entries[at] if at < len(self.ends) else None

    def commit(self, entry: Entry, name: int, epoch: int) -> None:
        """One more batch is committed, by the leader of that epoch."""
        self.entries.append(entry)
        self.batches[entry.values] = entry.header.base_offset
        self.ends.append(entry.header.next_offset)
        self.names.append(name)
        self.epochs.append(epoch)

    def forget(self, epoch: int) -> None:
        """Committed records may be gone: leaders from ``epoch`` on say what is committed."""
        self.is_clean = False
        self.from_epoch = max(self.from_epoch, epoch)
        self.start, self.ends, self.names, self.entries = (0, 0), [], [], []
        self.epochs = []
        self.acked.clear()
        self.seen.clear()
