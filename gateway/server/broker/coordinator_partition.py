"""Loads and appends the records of a coordinator, in one partition that this node leads in one
epoch (``CoordinatorLoaderImpl``, ``CoordinatorPartitionWriter``).

A record counts when the high watermark is past it. It does not know the meaning of keys and values:
coordinators do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.sizes import MIB
from gateway.broker.coordinator_replay import Replay
from gateway.broker.produce.validation import ProducedBatch
from gateway.ports.replicas import Appended
from gateway.ports.services import Isolation, OffsetOutOfRange, State
from gateway.sources.log_reader import content
from kwire.protocol import ErrorCode
from kwire.records import Record, decode_batches, encode_batch
from kwire.records.header import read_header

if TYPE_CHECKING:
    from gateway.broker.produce.refusal import BatchRefused
    from gateway.ports.services import Read
    from gateway.sources.data_partition import DataPartition
    from kwire.records.record import Header

#: Bytes that are read and decoded at a time (``offsets.load.buffer.size`` is 5 MiB).
_READ_BYTES: Final = MIB
#: A batch holds no more than this, so that a reader need not take more at once.
_BATCH_BYTES_MAX: Final = MIB // 2
#: A record's bytes besides key and value, about.
_RECORD_OVERHEAD: Final = 32

#: Key, value (None deletes the key) and headers of a record.
CoordinatorRecord = tuple[bytes, "bytes | None", "Sequence[Header]"]
OnDone = Callable[["int | ErrorCode"], None]


class PartitionUnavailable(Exception):
    """This node does not lead the partition any more, or its log cannot be read now."""


class CoordinatorPartition:
    """The partition ``index`` of a coordinator's topic, while this node leads it in ``epoch``."""

    def __init__(self, partition: DataPartition) -> None:
        self.partition = partition
        self.index = partition.index
        self.epoch = partition.leader_epoch

    def __str__(self) -> str:
        return self.partition.directory.name

    @property
    def is_led(self) -> bool:
        """Whether this node still leads it, in the same epoch."""
        partition = self.partition
        return partition.is_leader and partition.leader_epoch == self.epoch

    async def load(self, threads: trio.CapacityLimiter | None = None) -> Replay:
        """Read the records up to the log end, in one of ``threads``: what an earlier leader has
        acknowledged may be above the high watermark that this one knows. Raises
        PartitionUnavailable, and DecodeError for a batch that cannot be read.
        """
        self._check()
        replay = Replay()
        offset = self.partition.log_start_offset
        while offset < self.partition.end_offset:
            self._check()
            try:
                read = self.partition.read(offset, _READ_BYTES, Isolation.LOG_END)
            except (OffsetOutOfRange, OSError) as error:
                raise PartitionUnavailable(f"{self}: {error}") from error
            offset = await trio.to_thread.run_sync(_apply, read, offset, replay, limiter=threads)
        self._check()
        return replay

    def _check(self) -> None:
        if not self.is_led:
            raise PartitionUnavailable(f"{self}: the leader has changed")
        if self.partition.state is not State.READY:
            raise PartitionUnavailable(f"{self}: the log is not open")

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        timestamp_ms: int,
        on_done: OnDone,
        *,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Append records, at least one, behind those of earlier calls, and call ``on_done`` once on
        the event loop: with the end offset of the last one, when the high watermark is past it, or
        with an error.

        ``producer``: id and epoch of the transaction that the records belong to. Records of more
        than one batch are not written at once: a crash may leave the first of them.
        """
        if not self.is_led:
            on_done(ErrorCode.NOT_COORDINATOR)
            return
        parts = list(_parts(records))
        pending = _Pending(len(parts), on_done)
        for part in parts:
            batch = _batch(part, timestamp_ms, producer)
            self.partition.append(batch, partial(pending.take, len(part)))


class _Pending:
    """The batches of one append: ``expected`` are not written yet."""

    def __init__(self, expected: int, on_done: OnDone) -> None:
        self._on_done = on_done
        self._expected = expected
        self._end_offset = -1
        self._error: ErrorCode | None = None

    def take(self, count: int, outcome: Appended | BatchRefused) -> None:
        """Note the outcome of a batch of ``count`` records; ``on_done`` hears of the last one."""
        if isinstance(outcome, Appended):
            self._end_offset = outcome.base_offset + count
        else:
            self._error = self._error or outcome.error
        self._expected -= 1
        if not self._expected:
            self._on_done(self._error or self._end_offset)


def _apply(read: Read, offset: int, replay: Replay) -> int:
    """Apply what was read, in a thread; return the offset behind it."""
    try:
        for batch in decode_batches(content(read.chunks)):
            if batch.header.next_offset > offset:
                replay.apply(batch.header, batch.records)
                offset = batch.header.next_offset
    except OSError as error:
        raise PartitionUnavailable(str(error)) from error
    finally:
        read.release()
    if not read.size:
        raise PartitionUnavailable(f"there is nothing at offset {offset}")
    return offset


def _batch(
    part: Sequence[CoordinatorRecord], timestamp_ms: int, producer: tuple[int, int] | None
) -> ProducedBatch:
    producer_id, producer_epoch = producer or (-1, -1)
    data = bytearray(
        encode_batch(
            [
                Record(offset=at, timestamp=timestamp_ms, key=key, value=value, headers=headers)
                for at, (key, value, headers) in enumerate(part)
            ],
            is_transactional=producer is not None,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    )
    return ProducedBatch(data, read_header(data), -1)


def _parts(records: Sequence[CoordinatorRecord]) -> Iterator[Sequence[CoordinatorRecord]]:
    """Divide the records into those of single batches."""
    start = size = 0
    for at, (key, value, _) in enumerate(records):
        size += _RECORD_OVERHEAD + len(key) + len(value or b"")
        if at > start and size > _BATCH_BYTES_MAX:
            yield records[start:at]
            start, size = at, _RECORD_OVERHEAD + len(key) + len(value or b"")
    if records:
        yield records[start:]
