"""Runs servers in a thread of this process, so that a mutant in their code is in them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import trio

from gateway.app.node import serve
from gateway.config.config import Config
from gateway.server.management.running_server import RunningServer
from tests.gateway.server.own_nodes import cluster
from tests.waiting import PATIENCE_S, until_async

#: Listener -> host:port.
Listeners = dict[str, str]
#: Runs until the event is set; the function is called when the servers are ready.
_Main = Callable[[Callable[[Listeners], None], trio.Event], Awaitable[None]]


@contextlib.contextmanager
def live_server(config: Config) -> Iterator[Listeners]:
    """Serve with ``config``; yields the address of each listener by its name once the controller is
    active. It is stopped as by SIGTERM.
    """
    with _in_thread(partial(_serve, config)) as listeners:
        yield listeners


@contextlib.contextmanager
def live_follower(directory: Path) -> Iterator[Listeners]:
    """Run a quorum of three; yields the listeners of a node that does not lead. They are killed."""
    with _in_thread(partial(_serve_three, directory)) as listeners:
        yield listeners


async def _serve(config: Config, ready: Callable[[Listeners], None], stop: trio.Event) -> None:
    async with trio.open_nursery() as nursery:
        server: RunningServer = await nursery.start(partial(serve, config, stop))
        controller = server.services.controller
        assert controller is not None, "a server with a quorum of its own"
        await until_async(lambda: controller.is_active, "the controller is active")
        ready(server.listeners())


async def _serve_three(
    directory: Path, ready: Callable[[Listeners], None], stop: trio.Event
) -> None:
    async with cluster(directory) as nodes:
        await nodes.start()
        leader = await nodes.leader()
        follower = next(node for node in nodes.nodes.values() if node is not leader)
        ready(follower.ready.listeners())
        await stop.wait()


@contextlib.contextmanager
def _in_thread(main: _Main) -> Iterator[Listeners]:
    """Run ``main`` in a thread. Raises what it raises before it is ready."""
    ready: queue.Queue[Listeners | BaseException] = queue.Queue()
    tokens: queue.Queue[trio.lowlevel.TrioToken] = queue.Queue()
    stop = trio.Event()

    async def run() -> None:
        tokens.put(trio.lowlevel.current_trio_token())
        await main(ready.put, stop)

    def body() -> None:
        try:
            trio.run(run)
        except BaseException as error:  # the thread that waits raises it
            ready.put(error)

    thread = threading.Thread(target=body, name="live servers", daemon=True)
    thread.start()
    listeners = ready.get(timeout=PATIENCE_S)
    if isinstance(listeners, BaseException):
        raise listeners
    try:
        yield listeners
    finally:
        with contextlib.suppress(trio.RunFinishedError):
            tokens.get().run_sync_soon(stop.set)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the servers did not stop"
