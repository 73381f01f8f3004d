"""Keeps the records of the group coordinator in a log that is this node's alone: for a node that is
no broker.

The log is synced before an append returns, since there is no other copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import trio

from gateway.groups import Record
from gateway.log.offsets.offset_store import DIRECTORY, OffsetStore
from gateway.server.groups.group_store import LoadedRecords
from gateway.server.logging.logs import Reports

_T = TypeVar("_T")


class LocalGroupStore:
    """``GroupStore`` in a directory below ``state_dir``, which is created if it is missing."""

    def __init__(self, state_dir: Path, reports: Reports | None = None) -> None:
        self._directory = state_dir / DIRECTORY
        self._reports = Reports() if reports is None else reports
        self._threads = trio.CapacityLimiter(1)
        self._store: OffsetStore | None = None
        self._is_first = True

    def __str__(self) -> str:
        return str(self._directory)

    async def load(self) -> LoadedRecords:
        """As in ``GroupStore``. Opens the files: after a failure new ones, since it is not known
        which pages of the old ones are on disk.
        """
        rewrite, self._is_first = not self._is_first, False
        self._store = store = await self._in_thread(
            lambda: OffsetStore(self._directory, rewrite=rewrite)
        )
        for problem in store.problems:
            self._reports.report("offset store damaged", error=problem)
        return LoadedRecords(store.records(), store.owners())

    async def append(
        self,
        records: Sequence[Record],
        timestamp_ms: int,
        owners: Mapping[bytes, str],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """As in ``GroupStore``: with one sync."""
        assert producer is None, "a node that is no broker has no transactions"
        store = self._opened()
        await self._in_thread(lambda: store.append(records, timestamp_ms, owners=owners))

    async def compact(self) -> None:
        """As in ``GroupStore``."""
        store = self._opened()
        if store.needs_compaction:
            await self._in_thread(store.compact)

    async def close(self) -> None:
        """As in ``GroupStore``."""
        store, self._store = self._store, None
        if store is not None:
            await self._in_thread(store.close)

    def _opened(self) -> OffsetStore:
        assert self._store is not None, "the store was loaded"
        return self._store

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await trio.to_thread.run_sync(work, limiter=self._threads)
