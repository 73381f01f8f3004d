"""Declares what the driver of a group coordinator needs of the log that has its records.

``LocalGroupStore`` is a log of this node alone; ``gateway.server.broker.partition_group_store`` is
a partition of ``__consumer_offsets``. Nothing is implemented here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.groups import Record
from gateway.groups.pending_offsets import PendingRecord
from gateway.log.files.errors import LogError


class StoreUnavailable(LogError):
    """The partition with the records has another leader, or its log cannot be written now."""


class LoadedRecords(NamedTuple):
    """The newest value of each key, and the owner that is charged for it where one is known."""

    records: list[tuple[bytes, bytes]]
    owners: Mapping[bytes, str]
    #: Of transactions without a marker, in the order of the log.
    pending: Sequence[PendingRecord] = ()


class GroupStore(Protocol):
    """The records of one group coordinator. ``str()`` names it in messages."""

    async def load(self) -> LoadedRecords:
        """Read the records; again after a failure, and then what :meth:`append` had begun may be
        there or not. Raises LogError, DecodeError.
        """
        ...

    async def append(
        self,
        records: Sequence[Record],
        timestamp_ms: int,
        owners: Mapping[bytes, str],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Append records, in the transaction of ``producer`` (id and epoch) if there is one; return
        when no crash of this process can lose them and clients may see them. After LogError the
        store has to be loaded again.
        """
        ...

    async def compact(self) -> None:
        """Drop superseded records where that is due. Raises LogError; the store goes on."""
        ...

    async def close(self) -> None:
        """Let go of the files. It may be loaded again."""
        ...
