"""Keeps a source that has to be looked at up to date: files are read in a thread, what they hold is
shown on the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.ports import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.server.logs import Reports

#: The server says that it is ready when the log is loaded, or after so long, s: its answers then
#: say LEADER_NOT_AVAILABLE.
LOADING_MAX_S: Final = 0.25
#: After a failure that nobody foresaw, s.
_FAILED_DELAY_S: Final = 1.0


class Followed(Protocol):
    """What is needed of a source (``gateway.sources.LogDirectory``)."""

    @property
    def state(self) -> State: ...
    @property
    def refresh_delay_s(self) -> float: ...
    @property
    def problems(self) -> Sequence[object]: ...
    def maybe_changed(self) -> bool: ...
    def scan(self) -> None: ...
    def publish(self) -> bool: ...


async def follow(
    source: Followed,
    reports: Reports,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Look, show, wait, for ever. Started once the source is loaded, or LOADING_MAX_S is over."""
    started, began = False, trio.current_time()
    told: Sequence[object] = ()
    while True:
        try:
            if source.maybe_changed():
                # In a thread, because a disk may take its time, and the loop has none; but going
                # there costs ten times the look that finds nothing new.
                await trio.to_thread.run_sync(source.scan)
            source.publish()
        except Exception as error:
            reports.bug("source not read", error)
            await trio.sleep(_FAILED_DELAY_S)
        if not started and (
            source.state is not State.LOADING or trio.current_time() - began > LOADING_MAX_S
        ):
            started = True
            task_status.started()
        told = _tell(source.problems, told, reports)
        await trio.sleep(source.refresh_delay_s)


def _tell(problems: Sequence[object], told: Sequence[object], reports: Reports) -> Sequence[object]:
    """Log what is wrong on disk when that changes."""
    if problems != told:
        for problem in problems:
            if problem not in told:
                reports.report("source problem", error=str(problem))
        if not problems:
            reports.report("source recovered")
    return problems
