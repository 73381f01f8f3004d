"""Holds the parts of a server while it runs: those that handlers reach, and those around them.

It builds and starts nothing: ``gateway.app`` does.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from gateway.handlers.fetch_sessions import FetchSessionCache
from gateway.handlers.topic_index import TopicIndex
from gateway.server.sources.served_partitions import served_partitions
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.config.config import Config
    from gateway.log.files.problem import Problem
    from gateway.ports.services import Authorizer, Endpoint, Groups
    from gateway.server.broker.auto_topic_creation_manager import AutoTopicCreationManager
    from gateway.server.broker.producer_id_manager import ProducerIdManager
    from gateway.server.broker.replica_manager import ReplicaManager
    from gateway.server.broker.transaction_driver import TransactionDriver
    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.purgatory import Purgatory
    from gateway.server.controller.acting_controller import ActingController
    from gateway.server.controller.audit_log_writer import AuditLogWriter
    from gateway.server.controller.forwarding_manager import ForwardingManager
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.server.sources.controller_node import ControllerNode
    from gateway.server.sources.metadata_source import MetadataSource
    from gateway.server.sources.observer_node import ObserverNode
    from gateway.server.sources.served_partitions import ServedPartitions
    from gateway.server.views.view_partition import ViewTopics
    from gateway.server.workers.worker_processes import WorkerProcesses
    from gateway.sources.log_partition import LogPartition


@dataclass(frozen=True, slots=True)
class GatewayServices:
    """Implements ``gateway.handlers.gateway_port.Gateway``, by which handlers reach the rest."""

    config: Config
    source: MetadataSource
    groups: Groups
    endpoints: Mapping[str, Endpoint]
    views: ViewTopics | None
    topic_index: TopicIndex = field(default_factory=TopicIndex)
    partitions: ServedPartitions = field(init=False)
    fetch_sessions: FetchSessionCache = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", served_partitions(self))
        slots = self.config.max_incremental_fetch_session_cache_slots
        object.__setattr__(self, "fetch_sessions", FetchSessionCache(slots, secrets.randbelow))
        if self.source.controllers is not None and self.source.loader is not None:
            self.source.loader.subscribe(self.topic_index.on_update)

    @property
    def node_id(self) -> int:
        """``node.id``."""
        return self.config.node_id

    @property
    def partition(self) -> LogPartition:
        """The metadata partition."""
        return self.source.partition

    @property
    def quorum(self) -> ObserverNode | ControllerNode | None:
        """The quorum behind the partition."""
        return self.source.quorum

    @property
    def relay(self) -> RaftDriver | None:
        """The observer that others follow."""
        return self.source.relay

    @property
    def authorizer(self) -> Authorizer:
        """Decides which principal may do which operation."""
        return self.source.authorizer

    @property
    def raft(self) -> RaftDriver | None:
        """This node's part in its own quorum."""
        own = self.source.controller_node
        return own.driver if own is not None else None

    @property
    def controller(self) -> ActingController | ForwardingManager | None:
        """The way to the active controller."""
        return self.source.controllers

    @property
    def audit(self) -> AuditLogWriter | None:
        """The audit log, where this node keeps one."""
        own = self.source.controller_node
        return own.audit if own is not None else None

    @property
    def replicas(self) -> ReplicaManager | None:
        """The partitions that hold data."""
        return None if self.source.broker is None else self.source.broker.replicas

    @property
    def producer_ids(self) -> ProducerIdManager | None:
        """Gives out ids of producers."""
        return None if self.source.broker is None else self.source.broker.producer_ids

    @property
    def topic_creator(self) -> AutoTopicCreationManager | None:
        """Has topics created that clients ask for."""
        broker = self.source.broker
        return broker.topic_creator if broker and self.config.auto_create_topics_enable else None

    @property
    def transactions(self) -> TransactionDriver | None:
        """Coordinates transactions."""
        return None if self.source.broker is None else self.source.broker.transactions

    def problems(self) -> tuple[Problem, ...]:
        """Problems of this node's files now, those of the metadata log first."""
        return (
            *self.partition.problems,
            *(self.audit.partition.problems if self.audit else ()),
            *(self.replicas.problems() if self.replicas else ()),
        )

    def is_for_controllers(self, listener: str) -> bool:
        """True for a listener of ``controller.listener.names`` of a server that runs a quorum or is
        a relay.
        """
        serves = self.source.controller_node is not None or self.relay is not None
        return serves and listener in self.config.controller_listener_names

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of this node for clients of ``listener``."""
        return self.endpoints[listener]


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that accepts connections. ``ended`` is set when it has stopped."""

    services: GatewayServices
    bound_listeners: Sequence[BoundListener]
    management: BoundListener | None
    reports: Reports
    purgatory: Purgatory
    workers: WorkerProcesses | None = None
    ended: trio.Event = field(default_factory=trio.Event)

    def listeners(self) -> dict[str, str]:
        """The address of each listener, with the port that was picked for port 0."""
        return {bound_listener.name: str(bound_listener) for bound_listener in self.bound_listeners}

    async def loaded(self) -> None:
        """Return when clients can read the log, or the server has ended."""
        async with trio.open_nursery() as nursery:

            async def ended() -> None:
                await self.ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(ended)
            await self.services.source.loaded()
            nursery.cancel_scope.cancel()

    def facts(self) -> dict[str, Any]:
        """The fields of the ready line."""
        partition = self.services.partition
        return {
            "event": "ready",
            "listeners": self.listeners(),
            **({"management": str(self.management)} if self.management is not None else {}),
            "node_id": self.services.node_id,
            "cluster_id": partition.cluster_id,
            "topic": CLUSTER_METADATA_TOPIC,
            "source": self.services.config.source_kind,
            "directory": partition.log_dir,
            "state": partition.state.value,
            "log_start_offset": partition.log_start_offset,
            "high_watermark": partition.high_watermark,
            "pid": os.getpid(),
            **({"workers": [one.pid for one in self.workers.all]} if self.workers else {}),
        }
