"""Folds the batches of a coordinator's partition into the newest record of each key
(``CoordinatorLoaderImpl``, ``SnapshottableCoordinator.replay``).

Records of a transaction count when its marker does: until then they are pending. It does not read
keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kwire.records.header import BatchHeader
    from kwire.records.record import Header, Record

#: ``ControlRecordType``: the second int16 of the key of a marker.
_ABORT: Final = 0
_COMMIT: Final = 1
_MARKER_KEY_SIZE: Final = 4


class ReplayedRecord(NamedTuple):
    """The newest record of a key; a value of None, which deletes the key, is only pending."""

    offset: int
    value: bytes | None
    timestamp: int  #: ms
    headers: Sequence[Header]


@dataclass(slots=True)
class PendingTransaction:
    """The records of a producer whose transaction has no marker yet, the newest of each key."""

    epoch: int
    records: dict[bytes, ReplayedRecord] = field(default_factory=dict)


class Replay:
    """``records`` by their key, in the order of their offsets, and ``pending`` ones by producer
    id, after the batches that were applied.
    """

    def __init__(self) -> None:
        self.records: dict[bytes, ReplayedRecord] = {}
        self.pending: dict[int, PendingTransaction] = {}

    def apply(self, header: BatchHeader, records: Iterable[Record]) -> None:
        """Apply the next batch of the log. Raises DecodeError for a marker that is none."""
        if header.is_control:
            for record in records:
                self._complete(header.producer_id, record.key or b"")
            return
        # A batch without records is left by compaction: its transaction may be over.
        if not header.record_count:
            return
        target = self.records
        if header.is_transactional:
            transaction = self.pending.get(header.producer_id)
            if transaction is None:
                transaction = self.pending[header.producer_id] = PendingTransaction(
                    header.producer_epoch
                )
            transaction.epoch = header.producer_epoch
            target = transaction.records
        for record in records:
            # A record without a key says nothing: none could replace it.
            if record.key is None:
                continue
            target.pop(record.key, None)
            if record.value is not None or header.is_transactional:
                target[record.key] = ReplayedRecord(
                    record.offset, record.value, record.timestamp, record.headers
                )
            else:
                # A transaction that wrote the key before does not bring it back.
                for transaction in self.pending.values():
                    transaction.records.pop(record.key, None)

    def is_superseded(self, key: bytes, pending: ReplayedRecord) -> bool:
        """Whether a record that is pending is older than the one of its key that counts."""
        known = self.records.get(key)
        return known is not None and known.offset > pending.offset

    def _complete(self, producer_id: int, key: bytes) -> None:
        if len(key) < _MARKER_KEY_SIZE:
            raise DecodeError("a control record without its type", rule="truncated")
        kind = int.from_bytes(key[2:4], "big", signed=True)
        if kind not in (_ABORT, _COMMIT):
            return
        transaction = self.pending.pop(producer_id, None)
        if transaction is None or kind == _ABORT:
            return
        for name, record in transaction.records.items():
            # The newest counts, in a transaction or not.
            if self.is_superseded(name, record):
                continue
            self.records.pop(name, None)
            if record.value is not None:
                self.records[name] = record
