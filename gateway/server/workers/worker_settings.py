"""Makes the workers of a node: what they are told when they start and later, and their limits.

``worker_processes`` runs them; this module reads the node's parts through
``gateway.ports.services``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.config.config import MIB, Config, Listener
from gateway.server.clients.bound_listener import bind_listeners
from gateway.server.workers.messages import NodeState, Start
from gateway.sources.audit_partition import DIRECTORY as AUDIT_DIRECTORY
from gateway.sources.followed_log import LogState
from kwire.protocol import CLUSTER_METADATA_PARTITION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.handlers.gateway_port import Gateway
    from gateway.ports.services import Partition
    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.server_context import ServerContext
    from gateway.server.workers.worker_processes import WorkerProcesses


def limits_of_worker(config: Config) -> Config:
    """Return the configuration of one of several workers: its share of the limits of all
    connections.
    """
    workers = config.workers
    if workers == 1:
        return config
    return replace(
        config,
        max_connections=max(1, config.max_connections // workers),
        buffers_max_bytes=max(MIB, config.buffers_max_bytes // workers),
    )


def shared_listeners(config: Config) -> list[str]:
    """Return the names of the listeners of all workers: those for clients."""
    if config.workers == 1:
        return []
    own = config.controller_listener_names if config.source_kind.has_quorum else ()
    return [listener.name for listener in config.listeners if listener.name not in own]


def workers_of(
    node: Gateway, server_context: ServerContext, bound_listeners: Sequence[BoundListener]
) -> WorkerProcesses | None:
    """Return the further workers, not started; None without any."""
    config = node.config
    if config.workers == 1:
        return None
    # Imported on first use: most servers have one process.
    from gateway.server.workers.worker_processes import WorkerProcesses

    shared = set(shared_listeners(config))
    ports = [
        Listener(one.name, one.host, one.port) for one in bound_listeners if one.name in shared
    ]
    partition, audit = node.partition, node.audit

    def start(worker: int, listeners: Sequence[BoundListener]) -> Start:
        has_quorum = node.quorum is not None
        return Start(
            worker,
            config,
            tuple((one.name, one.host, one.port, one.sock.fileno()) for one in listeners),
            node_state(node),
            partition.log_dir,
            os.path.join(partition.log_dir, CLUSTER_METADATA_PARTITION) if has_quorum else None,
            None if audit is None else os.path.join(audit.partition.log_dir, AUDIT_DIRECTORY),
            takes_changes=node.controller is not None,
        )

    workers = WorkerProcesses(
        server_context,
        start,
        lambda: node_state(node),
        lambda: bind_listeners(config, ports=ports),
    )
    partition.on_advance(workers.advanced)
    if audit is not None:
        audit.partition.on_advance(workers.advanced)
    return workers


def node_state(node: Gateway) -> NodeState:
    """Return the node's state now."""
    quorum, audit, raft = node.quorum, node.audit, node.raft
    return NodeState(
        _log_facts(node.partition),
        node.partition.cluster_id,
        -1 if quorum is None else quorum.leader_id,
        0 if raft is None else raft.kraft_version,
        None if audit is None else _log_facts(audit.partition),
        () if audit is None else tuple(audit.nodes),
    )


def _log_facts(log: Partition) -> LogState:
    return LogState(log.high_watermark, log.leader_epoch, log.state)
