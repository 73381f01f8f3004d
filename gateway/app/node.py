"""Builds the parts of the server, connects them, and runs them until the server stops.

No other module imports all parts. Handlers reach them through
``gateway.handlers.gateway_port.Gateway``.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import trio

from gateway.config.config import Config, ConfigError, Listener
from gateway.handlers.table import controller_handlers, handlers, relay_handlers
from gateway.log.files.errors import LogError
from gateway.ports.services import Endpoint
from gateway.security.delegation_tokens import token_secret
from gateway.security.listeners import read_listeners
from gateway.server.broker.earlier_offsets import EarlierOffsets
from gateway.server.broker.partitioned_groups import PartitionedGroups
from gateway.server.clients.bound_listener import BoundListener, bind_listeners
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server import run_server
from gateway.server.clients.server_context import ServerContext
from gateway.server.groups.group_driver import GroupDriver, GroupsUnreadableError, settings_of
from gateway.server.groups.group_topics import GroupTopics
from gateway.server.groups.local_group_store import LocalGroupStore
from gateway.server.logging.logs import Reports
from gateway.server.management.running_server import GatewayServices, RunningServer
from gateway.server.scheduling.import_warmup import import_first_use_modules
from gateway.server.sources.metadata_source import MetadataSource, metadata_source
from gateway.server.sources.supervisor import SourceSupervisor
from gateway.server.views.view_partition import view_topics_of
from gateway.server.workers.worker_settings import limits_of_worker, shared_listeners, workers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.server.clients.connections import Connections
    from gateway.server.clients.listener_auth import ListenerAuth
    from kwire.cluster.image import Image


def check(config: Config) -> list[str]:
    """Check the configuration without serving; return warnings. Raises ConfigError."""
    source = metadata_source(config)
    _listener_auths(config, source)
    if config.management_listener is not None:
        from gateway.server.management.start import check_management

        check_management(config)
    return source.check()


async def serve(
    config: Config,
    stop: trio.Event,
    *,
    task_status: trio.TaskStatus[RunningServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stop`` is set, then hand over leadership and drain.

    ``task_status.started`` gets a RunningServer when the server is ready. Raises ConfigError before
    that. Raises SourceStopped, after the drain, if the source cannot be followed any further.
    """
    source = metadata_source(config)
    listener_auths = _listener_auths(config, source)
    with contextlib.ExitStack() as stack:
        reports = Reports(tracing=config.log_level == "debug")
        bound_listeners = bind_listeners(config, shared=shared_listeners(config))
        for bound_listener in bound_listeners:
            stack.callback(bound_listener.sock.close)
        endpoints = endpoints_of(config, bound_listeners)
        source.open(endpoints, reports, stack)
        management: BoundListener | None = None
        if config.management_listener is not None:
            # Imports h11 and prometheus_client on first use: a server without them starts faster.
            from gateway.server.management.start import listen

            management = listen(config, stack)
        topics = GroupTopics()
        groups = _groups(config, source, reports, topics)
        views = view_topics_of(config, source.partition, reports)
        services = GatewayServices(config, source, groups, endpoints, views)
        topics.show(services)
        # The groups are a part of ``services``: the cycle would keep the files of the log open.
        stack.callback(topics.show, None)
        limits, dispatcher = limits_of_worker(config), _dispatcher(config, services)
        server_context = ServerContext(
            limits, dispatcher, Purgatory(), reports, listener_auths=listener_auths
        )
        workers = workers_of(services, server_context, bound_listeners)
        ready = RunningServer(
            services, bound_listeners, management, reports, server_context.purgatory, workers
        )
        stack.callback(ready.ended.set)
        await _run(ready, groups, server_context, stop, task_status)


async def _run(
    ready: RunningServer,
    groups: GroupDriver | PartitionedGroups,
    server_context: ServerContext,
    stop: trio.Event,
    task_status: trio.TaskStatus[RunningServer],
) -> None:
    """Start the tasks in the order that the source needs. Raises as :func:`serve`.

    Files are loaded before the listeners accept, so that the first response is right. A voter
    accepts first: the other voters have to reach it before anything can be committed.
    """
    source, draining, workers = ready.services.source, trio.Event(), ready.workers
    is_started = False
    supervisor = SourceSupervisor(draining, ready.reports)
    async with trio.open_nursery() as nursery:

        async def serve_listeners(*, task_status: trio.TaskStatus[Connections]) -> None:
            timeout_s = ready.services.config.drain_timeout_ms / 1000
            # Groups end first, so that their last responses still go out.
            stop_groups = coordinating.cancel
            await run_server(
                server_context,
                ready.bound_listeners,
                draining,
                stop_groups,
                None if workers is None else partial(workers.stop, timeout_s),
                task_status=task_status,
            )
            nursery.cancel_scope.cancel()

        coordinating = trio.CancelScope()
        if ready.management is not None:
            from gateway.server.management.start import start_management

            await start_management(nursery, ready, server_context, groups, stop)
        nursery.start_soon(_hand_over, ready, stop, draining)
        if views := ready.services.views:
            nursery.start_soon(views.run, server_context.counts.views)
        if not source.listens_before_loaded:
            await nursery.start(supervisor.follow, source)
        await _start_groups(nursery, groups, coordinating)
        connections = await nursery.start(serve_listeners)
        if source.listens_before_loaded:
            await nursery.start(supervisor.follow, source)
        if workers is not None:
            await nursery.start(workers.run, connections)
        tables = server_context.dispatcher.tables()
        nursery.start_soon(import_first_use_modules, [h for one in tables for h in one.values()])
        is_started = True
        task_status.started(ready)
    if supervisor.stopped is not None:
        raise supervisor.stopped
    if not is_started:  # stopped before: workers may take long to load the image
        task_status.started(ready)


async def _hand_over(ready: RunningServer, stop: trio.Event, draining: trio.Event) -> None:
    """Wait for ``stop``, give up leadership, then let the server drain."""
    await stop.wait()
    services = ready.services
    if ready.workers is not None:
        ready.workers.replace_none()
    await services.source.hand_over(services.config.drain_timeout_ms / 1000)
    draining.set()


def _dispatcher(config: Config, services: GatewayServices) -> Dispatcher:
    apis = {
        name: controller_handlers() if services.relay is None else relay_handlers()
        for name in services.endpoints
        if services.is_for_controllers(name)
    }
    return Dispatcher(
        handlers(),
        services,
        element_budget=config.request_max_elements,
        by_listener=apis,
        quotas=services.source.quotas,
    )


def _groups(
    config: Config, source: MetadataSource, reports: Reports, topics: GroupTopics
) -> GroupDriver | PartitionedGroups:
    """Make the group coordinators: of the partitions of a topic, or one with a log of its own.
    Raises ConfigError.
    """
    settings, state_dir = settings_of(config), config.state_dir or source.default_state_dir()
    if source.broker is None:
        store = LocalGroupStore(state_dir, reports)
        return GroupDriver(store, settings, node_id=config.node_id, reports=reports, topics=topics)
    try:
        earlier = EarlierOffsets(state_dir, reports)
    except LogError as error:
        raise ConfigError(f"state.dir: {error}") from None
    groups = PartitionedGroups(
        source.broker.offsets_topic,
        settings,
        node_id=config.node_id,
        reports=reports,
        earlier=earlier,
        topics=topics,
    )
    source.broker.transactions.markers.on_offsets_marked = groups.complete_transaction
    return groups


async def _start_groups(
    nursery: trio.Nursery, groups: GroupDriver | PartitionedGroups, scope: trio.CancelScope
) -> None:
    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await groups.run(task_status=task_status)

    try:
        await nursery.start(run)
    except (LogError, GroupsUnreadableError) as error:
        raise ConfigError(f"state.dir: {error}") from None


def _listener_auths(config: Config, source: MetadataSource) -> dict[str, ListenerAuth]:
    return listener_auths_of_config(
        config, lambda: source.image, lambda: source.partition.cluster_id
    )


def listener_auths_of_config(
    config: Config, image: Callable[[], Image], cluster_id: Callable[[], str]
) -> dict[str, ListenerAuth]:
    """TLS and SASL of each listener; users are those of the image.

    Raises ConfigError where a listener's keys cannot be used.
    """
    listeners = read_listeners(config)
    if all(one.protocol == "PLAINTEXT" for one in listeners.values()):
        return {}
    # Imports ssl and cryptography, which plaintext listeners do not need, on first use: they take
    # a noticeable part of the start.
    from gateway.server.clients.listener_auth import listener_auths_of

    try:
        return listener_auths_of(listeners, image, token_secret(config.security), cluster_id)
    except OSError as error:  # ssl.SSLError among them
        raise ConfigError(f"listeners: their keys cannot be used: {error}") from None


def endpoints_of(
    config: Config, bound_listeners: Iterable[BoundListener | Listener]
) -> dict[str, Endpoint]:
    """The advertised address of each listener; port 0 becomes the port that was picked."""
    advertised = {
        listener.name: listener for listener in (*config.listeners, *config.advertised_listeners)
    }
    return {
        bound_listener.name: Endpoint(
            bound_listener.name,
            advertised[bound_listener.name].host,
            advertised[bound_listener.name].port or bound_listener.port,
            config.security_protocol(bound_listener.name),
        )
        for bound_listener in bound_listeners
    }
