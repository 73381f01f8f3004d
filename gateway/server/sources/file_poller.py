"""Polls a source of files: scans them in a thread and publishes the result on the event loop.

It does not know what the files hold: ``gateway.sources.LogDirectory`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.ports.services import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.server.logging.logs import Reports

#: The server reports that it is ready when the log is loaded, or after this time, s. It then
#: answers LEADER_NOT_AVAILABLE until the log is loaded.
LOADING_MAX_S: Final = 0.25
#: Delay after an unexpected exception, s.
_FAILED_DELAY_S: Final = 1.0


class PolledFiles(Protocol):
    """A source that :func:`poll_files` can poll."""

    @property
    def state(self) -> State: ...
    @property
    def refresh_delay_s(self) -> float: ...
    @property
    def problems(self) -> Sequence[object]: ...
    def maybe_changed(self) -> bool: ...
    def scan(self) -> None: ...
    def publish(self) -> bool: ...


async def poll_files(
    source: PolledFiles,
    reports: Reports,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Scan, publish and wait, for ever. Started once the source is loaded, or after
    ``LOADING_MAX_S``.
    """
    started, began = False, trio.current_time()
    reported: Sequence[object] = ()
    while True:
        try:
            if source.maybe_changed():
                # In a thread, because a slow disk would block the loop. The switch to a thread
                # costs ten times as much as maybe_changed(), so it is made only for a change.
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
        reported = _report(source.problems, reported, reports)
        await trio.sleep(source.refresh_delay_s)


def _report(
    problems: Sequence[object], reported: Sequence[object], reports: Reports
) -> Sequence[object]:
    """Log the problems that were not ``reported`` yet, and the end of all problems. Returns
    ``problems``.
    """
    if problems != reported:
        for problem in problems:
            if problem not in reported:
                reports.report("source problem", error=str(problem))
        if not problems:
            reports.report("source recovered")
    return problems
