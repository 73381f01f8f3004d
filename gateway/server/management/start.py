"""Opens the management port and starts its tasks, with the facts of a running server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.base.version import installed_version
from gateway.server.management.access import management_token
from gateway.server.management.cluster_facts import ClusterFacts
from gateway.server.management.facts import Facts
from gateway.server.management.management import (
    management_address,
    open_management,
    serve_management,
)
from gateway.server.management.page_api import PageApi
from gateway.server.management.page_log import PageLog

if TYPE_CHECKING:
    import contextlib

    import trio

    from gateway.config.config import Config
    from gateway.server.broker.partitioned_groups import PartitionedGroups
    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.server_context import ServerContext
    from gateway.server.groups.group_driver import GroupDriver
    from gateway.server.management.running_server import RunningServer


def check_management(config: Config) -> None:
    """Check the keys of the management port. Raises ConfigError."""
    assert config.management_listener is not None
    management_address(config.management_listener)
    management_token(config.security)


def listen(config: Config, stack: contextlib.ExitStack) -> BoundListener:
    """Listen at the configured address; ``stack`` closes the socket. Raises ConfigError."""
    check_management(config)
    assert config.management_listener is not None
    bound_listener = open_management(config.management_listener)
    stack.callback(bound_listener.sock.close)
    return bound_listener


async def start_management(
    nursery: trio.Nursery,
    ready: RunningServer,
    server_context: ServerContext,
    groups: GroupDriver | PartitionedGroups,
    stop: trio.Event,
) -> None:
    """Serve the port in ``nursery``."""
    services, quorum = ready.services, ready.services.quorum
    config, node = services.config, services.source.controller_node
    assert ready.management is not None and config.management_listener is not None
    facts = Facts(
        version=installed_version(),
        node_id=services.node_id,
        source=config.source_kind,
        listeners=ready.listeners(),
        partition=services.partition,
        server_context=server_context,
        cluster_name=config.management_cluster_name,
        groups=groups.count_by_state,
        group_usage=lambda: groups.usage,
        group_refusals=lambda: groups.refusals,
        problems=services.problems,
        quorum=quorum.status if quorum is not None else None,
        kept_answer_bytes=lambda: services.topic_index.kept_bytes,
        stopping=stop.is_set,
        own_snapshot=lambda: quorum.own_snapshot if quorum is not None else None,
        metadata_version=lambda: services.source.image.metadata_version or None,
        cluster=ClusterFacts(services.source.loader),
        forwarding=services.controller.router.forwarding
        if services.controller is not None
        else None,
        controlling=node.controller.facts if node is not None else None,
        worker_processes=ready.workers,
        broker=services.source.broker,
        replicas=services.replicas,
        quotas=services.source.quotas,
        fetch_sessions=services.fetch_sessions if ready.workers is None else None,
    )
    own_name = management_address(config.management_listener).host
    page_log = PageLog(services.partition, server_context.reports)
    audit = services.audit.partition if services.audit is not None else None
    page = PageApi(facts, page_log, quorum, audit)
    hosts, token = config.management_allowed_hosts | {own_name}, management_token(config.security)
    serve = partial(serve_management, token=token, page=page)
    await nursery.start(serve, ready.management.sock, facts, hosts)
