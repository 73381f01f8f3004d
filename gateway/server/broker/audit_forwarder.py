"""Hands the entries of this node's audit log over to the audit topic, in their order, each once.

The audit log is written before a change is answered (``AuditLogWriter``), and keeps the entries
while the topic has no leader, or this node is down. Only what is on disk is sent, so that an offset
in the file ``forwarded`` never stands for two entries. :class:`AuditTopicLeader` knows the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.base.sizes import KIB
from gateway.log.audit.forwarding_position import ForwardingPosition
from gateway.log.files.errors import LogError
from gateway.ports.services import AUDIT_TOPIC, OffsetOutOfRange
from gateway.server.broker.audit_topic_leader import NotAppended
from gateway.sources.log_reader import content
from kwire.errors import DecodeError
from kwire.records import Record, decode_batches, encode_batch

if TYPE_CHECKING:
    from gateway.log.audit.forwarding_position import ForwardingFile
    from gateway.ports.services import Chunk
    from gateway.server.broker.audit_topic_leader import AuditTopicLeader
    from gateway.server.logging.logs import Reports
    from gateway.sources.audit_partition import AuditPartition
    from kwire.cluster import Delta, Image
    from kwire.uuid import Uuid

#: Bytes of the audit log that are read for a batch. A batch of the log is read whole, and has up to
#: 1 MiB of values.
_READ_BYTES: Final = 256 * KIB
#: A batch has no more bytes of values, unless it is one entry: ``max.message.bytes`` is 1 MiB.
_BATCH_BYTES_MAX: Final = 512 * KIB
#: Between two attempts, s (``retry.backoff.max.ms`` of a producer).
_RETRY_S: Final = 1.0
#: Failures in a row before one is reported: a leader that moves is no problem.
_SILENT: Final = 3


class _Entries(NamedTuple):
    """Entries of the audit log for one batch, and the offset behind them."""

    records: Sequence[Record]
    end_offset: int


class AuditForwarder:
    """:meth:`run` is the task, :meth:`on_update` hears of changes to the image."""

    def __init__(
        self,
        audit: AuditPartition,
        file: ForwardingFile,
        leader: AuditTopicLeader,
        reports: Reports,
    ) -> None:
        self._audit = audit
        self._file = file
        self._leader = leader
        self._reports = reports
        self._position: ForwardingPosition | None = None
        self._failures = 0
        self._wake = trio.Event()

    @property
    def waiting(self) -> int:
        """The number of entries that the topic does not have yet; 0 before it is created."""
        position = self._position
        return 0 if position is None else max(0, self._audit.end_offset - position.offset)

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Look again when the topic is created, or has another leader."""
        if delta is None or AUDIT_TOPIC in delta.changed_topics():
            self._wake.set()

    async def run(self) -> None:
        """Hand entries over as they come, for ever."""
        unsubscribe = self._audit.on_advance(lambda: self._wake.set())
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                while not await self._try_all():
                    with trio.move_on_after(_RETRY_S):
                        await self._wake.wait()
                    self._wake = trio.Event()
        finally:
            unsubscribe()

    async def _try_all(self) -> bool:
        """Hand over everything that is on disk; whether that has succeeded."""
        try:
            await self._forward_all()
        except (NotAppended, LogError, OSError, DecodeError) as error:
            self._failures += 1
            if self._failures >= _SILENT:
                self._reports.report("audit entries wait", error=str(error), count=self.waiting)
            return False
        except Exception as error:  # a bug; entries stay in the audit log
            self._failures += 1
            self._reports.bug("audit entries not forwarded", error)
            return False
        self._failures = 0
        return True

    async def _forward_all(self) -> None:
        has_sent = False
        while (partition := self._leader.partition) is not None:
            position = await self._position_in(partition.topic_id)
            end_offset = self._audit.high_watermark
            if position.end_offset > position.offset:
                end_offset = position.end_offset  # the same batch again
            if position.offset >= end_offset:
                break
            position = self._skip_deleted(position)
            entries = await self._read(position.offset, end_offset)
            self._position = await self._send(position, entries)
            has_sent = True
        if has_sent:
            await self._store(self._position)

    async def _position_in(self, topic_id: Uuid) -> ForwardingPosition:
        """Return the position in the topic with this id."""
        if self._position is None:
            self._position = await self._stored()
        if self._position is None or self._position.topic_id != topic_id:
            # Another topic of this name has none of the entries.
            self._position = ForwardingPosition.at(topic_id, self._audit.log_start_offset)
        return self._position

    async def _stored(self) -> ForwardingPosition | None:
        try:
            position = await trio.to_thread.run_sync(self._file.read)
        except DecodeError as error:
            # All entries twice rather than one not at all.
            self._reports.report("audit log repaired", error=f"forwarded: {error}; begun anew")
            return None
        if position is not None and position.end_offset > self._audit.end_offset:
            # The audit log has lost its end: its next entries have the offsets of others.
            offset = min(position.offset, self._audit.end_offset)
            return ForwardingPosition.at(position.topic_id, offset)
        return position

    def _skip_deleted(self, position: ForwardingPosition) -> ForwardingPosition:
        start = self._audit.log_start_offset
        if position.offset >= start:
            return position
        self._reports.report("audit entries lost", count=start - position.offset)
        return ForwardingPosition.at(position.topic_id, start)

    async def _read(self, offset: int, end_offset: int) -> _Entries:
        """Return the next entries, none from ``end_offset`` on."""
        try:
            read = self._audit.read(offset, _READ_BYTES)
        except OffsetOutOfRange as error:
            raise NotAppended(f"{self._audit.log_dir}: {error!r}") from error
        try:
            return await trio.to_thread.run_sync(_entries, read.chunks, offset, end_offset)
        finally:
            read.release()

    async def _send(self, position: ForwardingPosition, entries: _Entries) -> ForwardingPosition:
        """Append one batch; return the position behind it."""
        records, end_offset = entries
        if not records:
            return position.sent(0, end_offset)
        if position.producer_id < 0:
            position = position.with_producer(await self._leader.new_producer())
        position = position._replace(end_offset=end_offset)
        await self._store(position)
        partition = self._leader.partition
        if partition is None:
            raise NotAppended(f"{AUDIT_TOPIC} is deleted")
        batch = encode_batch(
            records,
            producer_id=position.producer_id,
            producer_epoch=position.producer_epoch,
            base_sequence=position.sequence,
        )
        try:
            await self._leader.append(partition, batch)
        except NotAppended as error:
            if error.needs_producer:
                self._position = position._replace(producer_id=-1)
            raise
        return position.sent(len(records), end_offset)

    async def _store(self, position: ForwardingPosition | None) -> None:
        assert position is not None, "something was sent"
        await trio.to_thread.run_sync(self._file.write, position)
        self._position = position


def _entries(chunks: Sequence[Chunk], offset: int, end_offset: int) -> _Entries:
    """Return the entries in [``offset``, ``end_offset``), as many as one batch may have; their
    offsets are those of the batch. In a thread. Raises OSError, DecodeError.
    """
    records: list[Record] = []
    size, behind = 0, offset
    for batch in decode_batches(content(chunks)):
        for record in batch.records:
            if record.offset < offset:
                continue
            length = len(record.value or b"")
            if record.offset >= end_offset or (records and size + length > _BATCH_BYTES_MAX):
                return _Entries(records, behind)
            records.append(
                Record(offset=len(records), timestamp=record.timestamp, value=record.value)
            )
            size += length
            behind = record.offset + 1
        # Also past an empty batch, which stands for entries that damage has taken.
        behind = max(behind, min(batch.header.next_offset, end_offset))
    if behind == offset:
        raise DecodeError(f"the audit log has nothing at offset {offset}")
    return _Entries(records, behind)
