"""Builds the parts of a worker, connects them, and runs them until the node stops it.

A worker is a process that serves clients at the ports of its node (``workers``). ``node`` builds
the node, and ``gateway.server.workers`` starts this process.
"""

from __future__ import annotations

import contextlib
import gc
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from gateway.app.node import endpoints_of, listener_auths_of_config
from gateway.config.config import Config, ConfigError
from gateway.handlers.fetch_sessions import FetchSessionCache
from gateway.handlers.topic_index import TopicIndex
from gateway.handlers.worker_table import worker_handlers
from gateway.ports.services import Authorizer, Endpoint, Partition
from gateway.server.clients.bound_listener import BoundListener
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server import run_server
from gateway.server.clients.server_context import ServerContext
from gateway.server.logging.logs import Reports, configure
from gateway.server.scheduling.collector import settle_collector
from gateway.server.scheduling.import_warmup import import_first_use_modules
from gateway.server.sources.served_partitions import served_partitions
from gateway.server.views.view_partition import ViewTopics, view_topics_of
from gateway.server.workers.link import Link
from gateway.server.workers.messages import (
    Draining,
    Failed,
    NodeState,
    Ready,
    Response,
    Start,
    StatsRequest,
    StatsResponse,
    Stop,
    Synced,
)
from gateway.server.workers.node_link import NodeLink
from gateway.server.workers.node_mirror import FollowedAudit, FollowedQuorum, NodeMirror
from gateway.server.workers.worker_counts import counts_of
from gateway.server.workers.worker_settings import limits_of_worker

if TYPE_CHECKING:
    from gateway.groups.events import Event, Result
    from gateway.ports.services import Completable
    from gateway.server.sources.served_partitions import ServedPartitions


@dataclass(frozen=True, slots=True)
class ForwardedGroups:
    """``gateway.ports.services.Groups``: the node coordinates every group."""

    node_id: int

    def coordinator_of(self, group_id: str) -> int:
        """Return the node."""
        return self.node_id

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """Never called: a worker writes no markers."""
        raise AssertionError("a worker writes no markers")

    def submit(self, event: Event, pending: Completable[Result]) -> None:
        """Never called: requests of groups are forwarded before a handler submits them."""
        raise AssertionError("a worker forwards requests of groups")


@dataclass(frozen=True, slots=True)
class WorkerServices:
    """Implements ``gateway.handlers.gateway_port.Gateway`` over what the worker reads."""

    config: Config
    node: NodeMirror
    takes_changes: bool
    endpoints: Mapping[str, Endpoint]
    topic_index: TopicIndex = field(default_factory=TopicIndex)
    views: ViewTopics | None = None
    replicas: None = None
    topic_creator: None = None
    producer_ids: None = None
    transactions: None = None
    relay: None = None  # observers connect to the node's own listener for them
    partitions: ServedPartitions = field(init=False)
    fetch_sessions: FetchSessionCache = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", served_partitions(self))
        slots = self.config.max_incremental_fetch_session_cache_slots
        object.__setattr__(self, "fetch_sessions", FetchSessionCache(slots, secrets.randbelow))
        if self.controller is not None:
            self.controller.loader.subscribe(self.topic_index.on_update)

    @property
    def node_id(self) -> int:
        """``node.id``: to clients all workers are one node."""
        return self.config.node_id

    @property
    def partition(self) -> Partition:
        """The metadata partition."""
        return self.node.partition

    @property
    def quorum(self) -> FollowedQuorum | None:
        """The quorum behind the partition."""
        return self.node.quorum

    @property
    def controller(self) -> FollowedQuorum | None:
        """The active controller, to which the node forwards."""
        return self.node.quorum if self.takes_changes else None

    @property
    def raft(self) -> FollowedQuorum | None:
        """The node's part in its own quorum."""
        return self.controller

    @property
    def audit(self) -> FollowedAudit | None:
        """The audit log of the node."""
        return self.node.audit

    @property
    def groups(self) -> ForwardedGroups:
        """The group coordinator."""
        return ForwardedGroups(self.node_id)

    @property
    def authorizer(self) -> Authorizer:
        """Decides which principal may do which operation."""
        return self.node.authorizer

    def is_for_controllers(self, listener: str) -> bool:
        """False: controller listeners are the node's alone."""
        return False

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of the node for clients of ``listener``."""
        return self.endpoints[listener]


def run(sock: socket.socket) -> None:
    """Run the worker whose node is at the other end of ``sock``, to its end."""
    gc.disable()  # as in ``kwire serve``
    trio.run(_main, sock)


async def _main(sock: socket.socket) -> None:
    link, stop = Link(sock), trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        messages = link.messages()
        start = await anext(messages, None)
        if not isinstance(start, Start):
            return  # the node has ended
        configure(start.config.log_level, start.config.log_format, worker=start.worker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_at_signal, signals, stop)
            nursery.start_soon(link.run)
            worker = _Worker(start, link, stop)
            nursery.start_soon(_receive, worker, messages, nursery.cancel_scope)
            try:
                await worker.serve()
            except* ConfigError as group:
                problems = tuple(str(error) for error in _leaves(group))
                link.send(Failed(problems))
            nursery.cancel_scope.cancel()
    link.close()


def _leaves(group: BaseExceptionGroup[ConfigError]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def _inherited(name: str, host: str, port: int, descriptor: int) -> BoundListener:
    sock = socket.socket(fileno=descriptor)
    sock.setblocking(False)
    return BoundListener(name, sock, host, port)


async def _stop_at_signal(signals: AsyncIterator[int], stop: trio.Event) -> None:
    async for _ in signals:
        stop.set()


async def _receive(worker: _Worker, messages: AsyncIterator[Any], scope: trio.CancelScope) -> None:
    """Take the node's messages. Without the node nothing can be served: the process ends."""
    async for message in messages:
        worker.take(message)
    scope.cancel()


class _Worker:
    """The parts of the worker, and what each message does to them."""

    def __init__(self, start: Start, link: Link, stop: trio.Event) -> None:
        self._start = start
        self._config = limits_of_worker(start.config)
        self._link = link
        self._stop = stop
        self._reports = Reports(tracing=self._config.log_level == "debug")
        self._stack = contextlib.ExitStack()
        self._node: NodeMirror | None = None
        self._early: list[NodeState] = []
        self._node_link = NodeLink(link.send, self._when_caught_up, self._when_applied)
        self._context: ServerContext | None = None

    def take(self, message: object) -> None:
        """Handle a message of the node."""
        match message:
            case NodeState():
                self._early.append(message)
                if self._node is not None:
                    self._node.told(message)
                    self._early.clear()
            case Response():
                self._node_link.responded(message)
            case Synced():
                self._node_link.told(message)
            case StatsRequest() if self._context is not None and self._node is not None:
                end = self._node.partition.high_watermark
                self._link.send(StatsResponse(counts_of(self._context, end)))
            case Stop():
                self._stop.set()

    async def serve(self) -> None:
        """Serve until the node or a signal stops this process, then drain. Raises ConfigError."""
        start, config = self._start, self._config
        with self._stack as stack:
            node = self._node = NodeMirror(start, self._reports, stack)
            for state in self._early:
                node.told(state)
            bound = [_inherited(*one) for one in start.listeners]
            for one in bound:
                stack.callback(one.sock.close)
            endpoints = endpoints_of(config, bound)
            views = view_topics_of(config, node.partition, self._reports)
            services = WorkerServices(config, node, start.takes_changes, endpoints, views=views)
            table = worker_handlers(self._node_link)
            dispatcher = Dispatcher(
                table,
                services,
                element_budget=config.request_max_elements,
                node=self._node_link,
            )
            auths = listener_auths_of_config(
                config, lambda: node.image, lambda: node.partition.cluster_id
            )
            self._context = ServerContext(
                config, dispatcher, Purgatory(), self._reports, listener_auths=auths
            )
            async with trio.open_nursery() as nursery:
                await nursery.start(_follow, node)
                if views is not None:
                    nursery.start_soon(views.run, self._context.counts.views)
                nursery.start_soon(self._serve, bound, nursery.cancel_scope)
                nursery.start_soon(import_first_use_modules, list(table.values()))

    async def _serve(self, bound: list[BoundListener], scope: trio.CancelScope) -> None:
        assert self._context is not None
        async with trio.open_nursery() as nursery:
            await nursery.start(
                run_server, self._context, bound, self._stop, lambda: self._link.send(Draining())
            )
            settle_collector()
            self._link.send(Ready())
        scope.cancel()

    def _when_caught_up(self, callback: Callable[[], None]) -> None:
        assert self._node is not None
        self._node.when_caught_up(callback)

    def _when_applied(self, callback: Callable[[], None]) -> None:
        assert self._node is not None
        self._node.when_applied(callback)


async def _follow(node: NodeMirror, *, task_status: trio.TaskStatus[None]) -> None:
    await node.run(task_status.started)
