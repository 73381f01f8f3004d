"""Runs the source of the metadata partition, and drains the server when the source stops.

``metadata_source`` has the sources; this module knows when the server has started and why it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.ports.services import SourceStopped

if TYPE_CHECKING:
    from gateway.server.logging.logs import Reports
    from gateway.server.sources.metadata_source import MetadataSource


class SourceSupervisor:
    """Runs the source, and drains the server when the source stops by itself."""

    def __init__(self, draining: trio.Event, reports: Reports) -> None:
        self.stopped: SourceStopped | None = None
        self._draining = draining
        self._reports = reports

    async def follow(self, source: MetadataSource, *, task_status: trio.TaskStatus[None]) -> None:
        """Run ``source``. Started when it is. Raises SourceStopped when it stops before that."""
        ready, reason = False, None

        def started() -> None:
            nonlocal ready
            ready = True
            task_status.started()

        try:
            await source.run(started)
        except* SourceStopped as group:
            reason = _first(group)
        if reason is None:
            return
        # Not raised inside the except* block: before Python 3.11.4 it would come out in a group.
        if not ready:
            raise reason
        self._reports.report("following stopped", error=str(reason))
        self.stopped = reason
        self._draining.set()


def _first(group: BaseExceptionGroup[SourceStopped]) -> SourceStopped:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, SourceStopped)
    return error
