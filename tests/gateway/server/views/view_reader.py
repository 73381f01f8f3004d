"""A reader of view topics in this process, as a consumer's position moves: no connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import trio

from gateway.ports.services import FileRange
from gateway.ports.view_topics import view_topic
from gateway.server.logging.logs import Reports
from gateway.server.views.view_maker import ViewMaker
from gateway.server.views.view_partition import ViewPartition, ViewTopics
from gateway.sources.log_partition import LogPartition
from kwire.records import Record
from tests.gateway.views.view_reading import records_from


class ViewReader:
    """The views of one log. ``made`` counts the pieces that were made."""

    def __init__(self, log: LogPartition, **options: Any) -> None:
        self.log = log
        self.made = 0
        self.reports = Reports()
        self._news = trio.Event()
        self.maker = ViewMaker(log, self.reports, **{"cache_bytes": 1 << 26, **options})
        self.maker.on_made(self._on_made)
        self.topics = ViewTopics(self.maker, listed=True)

    def _on_made(self) -> None:
        self.made += 1
        self._news.set()
        self._news = trio.Event()

    def partition(self, view: str) -> ViewPartition:
        return self.topics.partition(view_topic(view))

    async def fetch(
        self, view: str, offset: int, max_bytes: int = 1 << 20
    ) -> tuple[list[Record], int]:
        """Records from ``offset`` on and the next position, as a Fetch with ``min_bytes=1`` gives
        them; none at the end, or where a control batch leads to it.
        """
        partition = self.partition(view)
        while offset < partition.high_watermark:
            data = b"".join(map(_content, partition.read(offset, max_bytes).chunks))
            if data:
                return records_from(data, offset)
            with trio.fail_after(60):
                await self._news.wait()
        return [], offset

    async def read(
        self, view: str, offset: int | None = None, end: int | None = None
    ) -> list[Record]:
        """All records from ``offset``, or the earliest, to ``end`` or the present end."""
        partition = self.partition(view)
        offset = partition.log_start_offset if offset is None else offset
        end = partition.high_watermark if end is None else end
        found: list[Record] = []
        while offset < end:
            records, offset = await self.fetch(view, offset)
            found += records
        return [record for record in found if record.offset < end]


def _content(chunk: Any) -> bytes:
    assert not isinstance(chunk, FileRange), "a view has no files"
    return bytes(chunk)


@contextlib.asynccontextmanager
async def reading(log: LogPartition, **options: Any) -> AsyncIterator[ViewReader]:
    """A reader while its maker runs."""
    async with trio.open_nursery() as nursery:
        reader = ViewReader(log, **options)
        nursery.start_soon(reader.maker.run)
        yield reader
        nursery.cancel_scope.cancel()
