"""Keeps the records of a group coordinator in a partition of ``__consumer_offsets``
(``gateway.server.groups.group_store.GroupStore``).

A record has the owner that is charged for it in a header, which Kafka ignores. The log itself is
compacted as every topic is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from gateway.groups import Record
from gateway.groups.pending_offsets import PendingRecord
from gateway.log.offsets.offset_store import OWNER_HEADER
from gateway.server.broker.coordinator_partition import PartitionUnavailable
from gateway.server.groups.group_store import LoadedRecords, StoreUnavailable
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.coordinator_replay import Replay
    from gateway.server.broker.coordinator_partition import CoordinatorPartition, CoordinatorRecord
    from kwire.records import Header


class PartitionGroupStore:
    """``GroupStore`` over ``partition``, while this node leads it. ``threads`` bounds those that
    load partitions.
    """

    def __init__(self, partition: CoordinatorPartition, threads: trio.CapacityLimiter) -> None:
        self._partition = partition
        self._threads = threads
        self._names: dict[str, str] = {}  # owners, each once

    def __str__(self) -> str:
        return str(self._partition)

    async def load(self) -> LoadedRecords:
        """As in ``GroupStore``."""
        try:
            replay = await self._partition.load(self._threads)
        except PartitionUnavailable as error:
            raise StoreUnavailable(str(error)) from error
        records, owners = [], {}
        for key, record in replay.records.items():
            assert record.value is not None, "a tombstone was applied"
            records.append((key, record.value))
            if owner := owner_of(record.headers):
                owners[key] = self._names.setdefault(owner, owner)
        return LoadedRecords(records, owners, _pending(replay))

    async def append(
        self,
        records: Sequence[Record],
        timestamp_ms: int,
        owners: Mapping[bytes, str],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """As in ``GroupStore``."""
        await append(
            self._partition,
            [(key, value, owner_headers(owners.get(key, ""))) for key, value in records],
            timestamp_ms,
            producer,
        )

    async def compact(self) -> None:
        """Return at once."""

    async def close(self) -> None:
        """Return at once: the partition has the files."""


async def append(
    partition: CoordinatorPartition,
    records: Sequence[CoordinatorRecord],
    timestamp_ms: int,
    producer: tuple[int, int] | None = None,
) -> int:
    """Append records; return the end offset when they are committed. Raises StoreUnavailable."""
    outcomes: list[int | ErrorCode] = []
    written = trio.Event()

    def take(outcome: int | ErrorCode) -> None:
        outcomes.append(outcome)
        written.set()

    partition.append(records, timestamp_ms, take, producer=producer)
    # Usually it is: the disk is not waited for.
    if not outcomes:
        await written.wait()
    (outcome,) = outcomes
    if isinstance(outcome, ErrorCode):
        raise StoreUnavailable(f"{partition}: {outcome.name}")
    return outcome


def _pending(replay: Replay) -> list[PendingRecord]:
    """Return the records of transactions that have no marker, in the order of their offsets."""
    found = [
        (record.offset, producer_id, key, record)
        for producer_id, transaction in replay.pending.items()
        for key, record in transaction.records.items()
        if record.value is not None
    ]
    return [
        PendingRecord(
            producer_id,
            key,
            record.value or b"",
            owner_of(record.headers),
            replay.is_superseded(key, record),
        )
        for _, producer_id, key, record in sorted(found, key=lambda one: one[0])
    ]


def owner_headers(owner: str) -> tuple[Header, ...]:
    """Return the headers of a record that ``owner`` is charged for."""
    return ((OWNER_HEADER, owner.encode("utf-8", "replace")),) if owner else ()


def owner_of(headers: Sequence[Header]) -> str:
    """Return the owner in the headers of a record; "" if none is known."""
    for key, value in headers:
        if key == OWNER_HEADER and value:
            return value.decode("utf-8", "replace")
    return ""
