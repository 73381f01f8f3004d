"""Starts the workers of a node, tells them its state, replaces those that end, and stops them.

The node is worker 1; the others are processes that it starts, each at the other end of a socket
pair. A worker notices that the node has ended by the end of that connection, and ends, too. The
node notices a worker that does not answer, accepts its connections, and later kills it and starts
another one. The sockets at which a worker listens are made here, so that they outlive it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.config.config import ConfigError
from gateway.server.clients.bound_listener import close_listeners
from gateway.server.workers.forwarded_requests import ForwardedRequests
from gateway.server.workers.link import Link
from gateway.server.workers.messages import (
    Cancel,
    Draining,
    Failed,
    NodeState,
    Ready,
    Request,
    Start,
    StatsRequest,
    StatsResponse,
    Stop,
    Synced,
    SyncRequest,
)
from gateway.server.workers.stand_in import stand_in
from gateway.server.workers.worker_counts import WorkerCounts, counts_of, total

if TYPE_CHECKING:
    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.connections import Connections
    from gateway.server.clients.server_context import ServerContext

#: The module that a worker runs.
_MODULE: Final = "gateway.cli.worker"
#: Interval at which a worker is asked for its counts, s.
_TICK_S: Final = 1.0
#: A worker that has not answered for so long is killed, s. A worker answers between two steps of
#: its event loop; only one that is suspended or broken takes so long.
_SILENT_MAX_S: Final = 30.0
#: The node accepts the connections of a worker that has not answered for so many intervals.
_SILENT_TICKS: Final = 3
#: Delay before a worker is replaced, s: first, and longest after several that ended early.
_DELAY_S: Final = (0.05, 10.0)
#: A worker that lived so long did not end early, s.
_LIVED_S: Final = 10.0
#: The page of metrics waits so long for the counts of workers, s.
_COUNTS_MAX_S: Final = 0.5
#: After ``drain.timeout.ms`` and so many s more, a worker that has not ended is killed.
_STOP_GRACE_S: Final = 2.0


@dataclass(slots=True)
class WorkerProcess:
    """One worker, for metrics: ``pid`` is None while it is being replaced."""

    number: int
    pid: int | None = None
    is_ready: bool = False
    restarts: int = 0
    counts: WorkerCounts = field(default_factory=WorkerCounts)
    retired: WorkerCounts = field(default_factory=WorkerCounts)  #: of the processes before it


class _Running:
    """A worker's process with its link."""

    def __init__(self, worker: WorkerProcess, link: Link, context: ServerContext) -> None:
        self.worker = worker
        self.link = link
        self.requests = ForwardedRequests(context, link.send)
        self.heard_at = trio.current_time()
        self.is_draining = False
        self.problems: tuple[str, ...] = ()
        self.counted = trio.Event()

    def is_silent(self) -> bool:
        """Whether several questions in a row were not answered."""
        return trio.current_time() - self.heard_at >= _SILENT_TICKS * _TICK_S


class WorkerProcesses:
    """Workers 2 to ``config.workers``. :meth:`run` is the task."""

    def __init__(
        self,
        context: ServerContext,
        start: Callable[[int, Sequence[BoundListener]], Start],
        state: Callable[[], NodeState],
        listen: Callable[[], Sequence[BoundListener]],
    ) -> None:
        """``start`` makes the first message to the worker of that number, which listens at these
        sockets; ``state`` is the node's state now; ``listen`` opens the sockets of one worker.
        """
        self._context = context
        self._start = start
        self._state = state
        self._listen = listen
        self._listeners: dict[int, Sequence[BoundListener]] = {}
        self._standing_in = trio.CancelScope()
        self._changed = trio.Event()
        self._is_stopping = False
        self._running: dict[int, _Running] = {}
        self._all_ready = trio.Event()
        self._none_left = trio.Event()
        count = context.config.workers
        self.workers: Sequence[WorkerProcess] = [WorkerProcess(n) for n in range(2, count + 1)]
        self.node = WorkerProcess(1, os.getpid(), is_ready=True)

    @property
    def all(self) -> Sequence[WorkerProcess]:
        """All processes, the node first."""
        return (self.node, *self.workers)

    async def run(
        self,
        connections: Connections,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep all workers running until cancelled; started when all are ready. Raises ConfigError
        if one cannot start.

        ``connections`` are the node's, which takes those of a worker that does not answer.
        """
        try:
            for worker in self.workers:
                self._listeners[worker.number] = self._listen()
            async with trio.open_nursery() as nursery:
                for worker in self.workers:
                    nursery.start_soon(self._keep, worker)
                nursery.start_soon(self._stand_in, connections)
                nursery.start_soon(self._tick)
                await self._all_ready.wait()
                task_status.started()
        finally:
            self._close_listeners()

    def advanced(self) -> None:
        """Tell all workers the node's state: a log has advanced."""
        if self._running:
            state = self._state()
            for running in self._running.values():
                running.link.send(state)

    def replace_none(self) -> None:
        """Start no further process: the node stops, and a service manager may have told its
        workers to stop, too.
        """
        self._is_stopping = True

    async def stop(self, timeout_s: float) -> None:
        """Have all workers drain, and return when they have ended; kill those that take longer."""
        self.replace_none()
        self._close_listeners()
        for running in self._running.values():
            running.link.send(Stop())
        with trio.move_on_after(timeout_s + _STOP_GRACE_S):
            while self._running:
                self._none_left = trio.Event()
                await self._none_left.wait()

    async def count(self) -> WorkerCounts:
        """Return the sums of all processes; those of a worker that does not answer at once may be
        a second old.
        """
        asked = [one for one in self._running.values() if one.worker.is_ready]
        for running in asked:
            running.counted = trio.Event()
            running.link.send(StatsRequest())
        with trio.move_on_after(_COUNTS_MAX_S):
            for running in asked:
                await running.counted.wait()
        parts = [self._count_node()]
        for worker in self.workers:
            parts += (worker.counts, worker.retired)
        return total(parts)

    def _count_node(self) -> WorkerCounts:
        end = self._state().log.high_watermark
        self.node.counts = counts_of(self._context, end)
        return self.node.counts

    # --- connections of workers that do not accept

    async def _stand_in(self, connections: Connections) -> None:
        with self._standing_in:
            async with trio.open_nursery() as nursery:
                for worker in self.workers:
                    nursery.start_soon(
                        stand_in,
                        self._listeners[worker.number],
                        connections,
                        self._context.reports,
                        partial(self._serves, worker),
                        lambda: self._changed,
                        _TICK_S,
                    )

    def _serves(self, worker: WorkerProcess) -> bool:
        """Whether a worker accepts connections, as far as is known."""
        running = self._running.get(worker.number)
        if running is None or not worker.is_ready or running.is_draining:
            return False
        return not running.is_silent()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _close_listeners(self) -> None:
        self._standing_in.cancel()
        for bound_listeners in self._listeners.values():
            close_listeners(bound_listeners)

    # --- one worker

    async def _keep(self, worker: WorkerProcess) -> None:
        """Run a worker, and replace it when it ends, until the node stops."""
        delay_s = _DELAY_S[0]
        while True:
            began = trio.current_time()
            await self._run_once(worker)
            if self._is_stopping:
                return
            if trio.current_time() - began > _LIVED_S:
                delay_s = _DELAY_S[0]
            await trio.sleep(delay_s)
            if self._is_stopping:
                return
            delay_s = min(2 * delay_s, _DELAY_S[1])
            worker.restarts += 1

    async def _run_once(self, worker: WorkerProcess) -> None:
        """Start a process and serve its requests until it ends. Raises ConfigError for one that
        cannot start at the start of the node.
        """
        ours, its = socket.socketpair()
        bound_listeners = self._listeners[worker.number]
        start = self._start(worker.number, bound_listeners)
        try:
            with its:
                process = await trio.lowlevel.open_process(
                    [sys.executable, "-P", "-m", _MODULE, str(its.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(its.fileno(), *(one.sock.fileno() for one in bound_listeners)),
                    env=_environment(os.environ, sys.path),
                )
        except BaseException:
            ours.close()
            raise
        running = _Running(worker, Link(ours), self._context)
        worker.pid = process.pid
        running.link.send(start)
        self._running[worker.number] = running
        if self._is_stopping:
            running.link.send(Stop())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(running.link.run)
                nursery.start_soon(self._watch, running, process)
                async for message in running.link.messages():
                    running.heard_at = trio.current_time()
                    self._take(running, message)
                with trio.move_on_after(_STOP_GRACE_S):
                    await process.wait()  # it has closed its end: it ends now
                nursery.cancel_scope.cancel()
        finally:
            was_ready = worker.is_ready
            status = await self._ended(running, process)
        if self._is_stopping:
            return
        why = "; ".join(running.problems) or _shown(status)
        if not was_ready and not self._all_ready.is_set():
            raise ConfigError(f"workers: worker {worker.number} cannot start: {why}")
        self._context.reports.report("worker ended", error=f"worker {worker.number}: {why}")

    def _take(self, running: _Running, message: Any) -> None:
        match message:
            case Request():
                running.requests.handle(message)
            case Cancel(number):
                running.requests.cancel(number)
            case SyncRequest(number):
                running.link.send(self._state())
                running.link.send(Synced(number))
            case StatsResponse(counts):
                running.worker.counts = counts
                running.counted.set()
            case Draining():
                running.is_draining = True
                self._notify()
            case Ready():
                running.worker.is_ready = True
                self._notify()
                if all(one.is_ready for one in self.workers):
                    self._all_ready.set()
            case Failed(problems):
                running.problems = problems

    async def _watch(self, running: _Running, process: trio.Process) -> None:
        """Report a process that does not answer, and kill it later. While it loads the image,
        nothing is asked.
        """
        was_silent = False
        while True:
            await trio.sleep(_TICK_S)
            if not running.worker.is_ready:
                running.heard_at = trio.current_time()
            is_silent = running.is_silent()
            if is_silent and not was_silent:
                error = f"worker {running.worker.number}, process {process.pid}"
                self._context.reports.report("worker silent", error=error)
            was_silent = is_silent
            if trio.current_time() - running.heard_at > _SILENT_MAX_S:
                process.kill()

    async def _ended(self, running: _Running, process: trio.Process) -> int:
        """Forget a process, and kill it if it runs; return its exit status."""
        worker = running.worker
        del self._running[worker.number]
        worker.is_ready, worker.pid = False, None
        worker.retired = total([worker.retired, worker.counts.counters()])
        worker.counts = WorkerCounts()
        running.requests.cancel_all()
        running.counted.set()
        running.link.close()
        self._notify()
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            status = await process.wait()
        if not self._running:
            self._none_left.set()
        return status

    async def _tick(self) -> None:
        """Ask all workers for their counts, and tell them what has changed without an advance."""
        told = self._state()
        while True:
            await trio.sleep(_TICK_S)
            state = self._state()
            for running in self._running.values():
                if running.worker.is_ready:
                    running.link.send(StatsRequest())
                if state != told:
                    running.link.send(state)
            told = state


def _environment(environment: Mapping[str, str], path: Sequence[str]) -> dict[str, str]:
    """Return the environment in which a worker finds the modules that this process found."""
    places = [os.path.abspath(place) if place else os.getcwd() for place in path]
    return {**environment, "PYTHONPATH": os.pathsep.join(places)}


def _shown(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
