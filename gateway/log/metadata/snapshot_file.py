"""Encodes a snapshot in Kafka's form, batch by batch, into a sink. Knows neither files nor the
image.

A control batch with SNAPSHOT_HEADER, and with KRAFT_VERSION and KRAFT_VOTERS in a dynamic quorum
(KIP-853); data batches; a control batch with SNAPSHOT_FOOTER. Offsets count from 0, the epoch is
that of the snapshot's id. Source: KIP-630, ``RecordsSnapshotWriter``.
"""

from __future__ import annotations

from typing import Final, Protocol

from gateway.base.sizes import KIB
from kwire.message import Message
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch, encode_control_record

#: Maximum records of a batch (``RaftSnapshotWriter``), and bytes of values after which it ends.
#: Kafka's readers accept 8 MiB.
BATCH_RECORDS_MAX: Final = 1024
BATCH_BYTES: Final = 512 * KIB


class Sink(Protocol):
    """The destination of the bytes: ``gateway.log.metadata.snapshot_writer.SnapshotWriter``."""

    @property
    def size(self) -> int: ...
    def write(self, position: int, data: bytes) -> None: ...
    def freeze(self) -> None: ...


class MemorySink:
    """A sink of a small snapshot, which is written as a whole afterwards."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def size(self) -> int:
        return len(self.data)

    def write(self, position: int, data: bytes) -> None:
        """Append ``data``: the position is always the end."""
        self.data += data

    def freeze(self) -> None: ...


class SnapshotFile:
    """One snapshot, written from its header to its footer. The creator of the sink abandons it if
    anything here raises.

    Every batch has the time of the header, when the last record below the snapshot's end was
    appended (ms), so equal images give equal bytes whenever they are written. Kafka's batches have
    the time of writing.
    """

    def __init__(
        self,
        sink: Sink,
        snapshot_id: SnapshotId,
        *,
        last_contained_log_timestamp: int,
        kraft_version: int = 0,
        voters: VotersRecord | None = None,
    ) -> None:
        """Write the header. ``voters`` are written only with a ``kraft_version`` of 1 or more."""
        self._sink = sink
        self._epoch = snapshot_id.epoch
        self._timestamp = last_contained_log_timestamp
        self._next_offset = 0
        self._values: list[bytes] = []
        self._bytes = 0
        first: list[tuple[str, Message]] = [
            (
                "SNAPSHOT_HEADER",
                SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp),
            )
        ]
        # In the same batch as the header, as Kafka's ``RecordsSnapshotWriter`` writes them. A
        # snapshot of a static quorum names no voters: they are in the configuration of each node
        # (KIP-853).
        if kraft_version > 0:
            first.append(("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=kraft_version)))
            if voters is not None:
                first.append(("KRAFT_VOTERS", voters))
        self._control(first)

    def append(self, value: bytes) -> None:
        """Add a metadata record by its value, frame included."""
        self._values.append(value)
        self._bytes += len(value)
        # After the record and not before it: a batch holds at least one, however large it is.
        if len(self._values) >= BATCH_RECORDS_MAX or self._bytes >= BATCH_BYTES:
            self._flush()

    def finish(self) -> None:
        """Write the remaining records and the footer, and freeze the sink."""
        self._flush()
        # In a batch of its own: a batch has control records only, or none.
        self._control([("SNAPSHOT_FOOTER", SnapshotFooterRecord())])
        # Last: a snapshot without its footer never gets its name (KIP-630).
        self._sink.freeze()

    def _flush(self) -> None:
        values, self._values, self._bytes = self._values, [], 0
        if values:
            offsets = range(self._next_offset, self._next_offset + len(values))
            self._write(
                [
                    Record(offset=at, timestamp=self._timestamp, value=value)
                    for at, value in zip(offsets, values, strict=True)
                ]
            )

    def _control(self, messages: list[tuple[str, Message]]) -> None:
        records = [
            encode_control_record(
                name, message, offset=self._next_offset + i, timestamp=self._timestamp
            )
            for i, (name, message) in enumerate(messages)
        ]
        self._write(records, is_control=True)

    def _write(self, records: list[Record], *, is_control: bool = False) -> None:
        # All batches have the epoch of the id, and not those of the records that they stand for.
        data = encode_batch(records, partition_leader_epoch=self._epoch, is_control=is_control)
        self._next_offset += len(records)
        self._sink.write(self._sink.size, data)
