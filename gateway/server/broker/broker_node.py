"""Runs the broker of this node, beside its controller or alone: the registration, and the
partitions that hold data (``BrokerServer``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.base.c_heap import keep_blocks_of_requests
from gateway.broker.lifecycle import BrokerLifecycle
from gateway.log.files.clean_shutdown import write_clean_shutdown
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.partition.log_directories import take_clean_shutdowns
from gateway.ports.services import THIS_NODE
from gateway.server.broker.alter_partition_manager import AlterPartitionManager
from gateway.server.broker.assignments_manager import AssignmentsManager
from gateway.server.broker.auto_topic_creation_manager import AutoTopicCreationManager, NewTopics
from gateway.server.broker.broker_connection import BrokerConnection, broker_address
from gateway.server.broker.broker_lifecycle_manager import BrokerLifecycleManager
from gateway.server.broker.broker_requests import BrokerRequests
from gateway.server.broker.data_log_cleaner import DataLogCleaner
from gateway.server.broker.internal_topic import InternalTopic
from gateway.server.broker.partition_verifier import VerificationRequests
from gateway.server.broker.producer_id_manager import ProducerIdManager
from gateway.server.broker.recovery_points import RecoveryPoints
from gateway.server.broker.replica_fetcher import FetcherContext, FetchingSettings
from gateway.server.broker.replica_fetcher_manager import ReplicaFetcherManager
from gateway.server.broker.replica_manager import ReplicaManager
from gateway.server.broker.replica_tasks import ReplicaTasks
from gateway.server.broker.replication_throttle import ReplicationThrottle
from gateway.server.broker.transaction_driver import OtherBrokers, TransactionDriver
from gateway.server.broker.transaction_marker_channel_manager import MarkerRequests
from gateway.server.quorum.own_requests import OwnRequests
from kwire.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kwire.protocol import SecurityProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gateway.broker.internal_topic import InternalTopicSettings
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.ports.services import Controllers, Endpoint
    from gateway.server.broker.audit_forwarder import AuditForwarder
    from gateway.server.broker.broker_connection import InterBrokerSettings
    from gateway.server.broker.transaction_driver import TransactionSettings
    from gateway.server.logging.logs import Reports
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.uuid import Uuid

#: The rest of the time for a shutdown is the controller's, to hand over its leadership.
_SHARE_OF_SHUTDOWN: Final = 0.5
#: How long a response of the controller is waited for, s (``request.timeout.ms`` of a broker is
#: 30 s).
_RESPONSE_S: Final = 10.0


class BrokerSettings(NamedTuple):
    """Settings of a broker, times in s. ``replica_lag_s``: ``replica.lag.time.max.ms``;
    ``queued_max_bytes``: ``queued.max.request.bytes``.
    """

    heartbeat_interval_s: float
    session_timeout_s: float
    registration_timeout_s: float
    fsync: bool
    retention_check_s: float
    replica_lag_s: float
    fetching: FetchingSettings
    queued_max_bytes: int


class BrokerNode:
    """The broker with its logs in ``directories``, which are open. :meth:`run` is the task."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        registration: BrokerRegistrationRequest,
        controllers: Controllers,
        heartbeats: Controllers,
        loader: MetadataLoader,
        reports: Reports,
        *,
        settings: BrokerSettings,
        offsets_topic: InternalTopicSettings,
        transactions: TransactionSettings,
        new_topics: NewTopics,
        hindrance: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Take the note of the last clean shutdown. ``heartbeats``: the controllers, without long
        requests. ``offsets_topic``: how ``__consumer_offsets`` is created. ``hindrance``: as of
        ``BrokerLifecycleManager``. Raises LogError.
        """
        self._node_id = registration.broker_id
        self._disk, self._reports = Disk(fsync=settings.fsync), reports
        registration.previous_broker_epoch = take_clean_shutdowns(directories, self._disk)
        self.lifecycle = BrokerLifecycle(registration)
        self._throttled_as_follower = self._throttle("follower", loader)
        requests = OwnRequests(controllers, THIS_NODE, _RESPONSE_S)
        self.isrs = AlterPartitionManager(self.lifecycle, requests, reports)
        self._assignments = AssignmentsManager(self.lifecycle, requests, loader, reports)
        self.replicas = ReplicaManager(
            directories,
            registration,
            reports,
            self._fetchers(settings.fetching),
            fsync=settings.fsync,
            lag_s=settings.replica_lag_s,
            queued_max_bytes=settings.queued_max_bytes,
            broker_epoch=lambda: self.lifecycle.epoch,
            propose=self.isrs.submit,
            assign=self._assignments.assign,
            directory_failed=lambda one: self._manager.directory_failed(one.id),
            throttle=self._throttle("leader", loader),
        )
        self._replica_tasks = ReplicaTasks(
            self.replicas, reports, settings.retention_check_s, settings.replica_lag_s
        )
        self.cleaner = DataLogCleaner(self.replicas, self._disk, reports)
        self.producer_ids = ProducerIdManager(registration.broker_id, self.lifecycle, requests)
        self._manager = self._lifecycle_manager(heartbeats, loader, settings, hindrance)
        loader.subscribe(self.replicas.on_update)
        self.offsets_topic = self._internal_topic(offsets_topic, requests, loader)  #: of groups
        other = self._internal_topic(transactions.topic, requests, loader)
        self._topics = other, self.offsets_topic
        self.topic_creator = self._topic_creator(controllers, new_topics)
        self._others = self._other_brokers(settings.fetching.brokers, loader)
        self.transactions = self._transaction_driver(transactions, loader)
        #: Of a node that is a controller, too, and keeps an audit log.
        self.audit_forwarder: AuditForwarder | None = None

    def _transaction_driver(
        self, settings: TransactionSettings, loader: MetadataLoader
    ) -> TransactionDriver:
        return TransactionDriver(
            self._others,
            *self._topics,
            self.replicas,
            self.producer_ids,
            loader,
            settings,
            self._reports,
        )

    def _lifecycle_manager(
        self,
        heartbeats: Controllers,
        loader: MetadataLoader,
        settings: BrokerSettings,
        hindrance: Callable[[], str | None],
    ) -> BrokerLifecycleManager:
        return BrokerLifecycleManager(
            self.lifecycle,
            OwnRequests(heartbeats, THIS_NODE, settings.session_timeout_s / 2),
            loader,
            settings.heartbeat_interval_s,
            settings.registration_timeout_s,
            self._reports,
            hindrance,
        )

    def _topic_creator(
        self, controllers: Controllers, new_topics: NewTopics
    ) -> AutoTopicCreationManager:
        internal = {topic.settings.name: topic.create for topic in self._topics}
        return AutoTopicCreationManager(controllers, new_topics, internal)

    def _throttle(self, side: str, loader: MetadataLoader) -> ReplicationThrottle:
        throttle = ReplicationThrottle(side, self._node_id)
        loader.subscribe(throttle.on_update)
        return throttle

    def _fetchers(self, settings: FetchingSettings) -> ReplicaFetcherManager:
        return ReplicaFetcherManager(
            FetcherContext(
                self._node_id,
                lambda: self.lifecycle.epoch,
                settings,
                self._reports,
                self._throttled_as_follower,
            )
        )

    def _other_brokers(self, settings: InterBrokerSettings, loader: MetadataLoader) -> OtherBrokers:
        def connection(broker_id: int) -> BrokerConnection:
            address = partial(broker_address, broker_id, settings.listener)
            return BrokerConnection(broker_id, lambda: address(loader.image), settings)

        return OtherBrokers(
            self._node_id,
            BrokerRequests(VerificationRequests(), connection),
            BrokerRequests(MarkerRequests(), connection),
        )

    def _internal_topic(
        self, settings: InternalTopicSettings, requests: OwnRequests, loader: MetadataLoader
    ) -> InternalTopic:
        topic = InternalTopic(settings, self._node_id, self.replicas, requests, self._reports)
        loader.subscribe(topic.on_update)
        return topic

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        keep_blocks_of_requests()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.replicas.run)
            nursery.start_soon(self._replica_tasks.run)
            nursery.start_soon(self.replicas.mover.run)
            nursery.start_soon(self.replicas.deletions.run)
            nursery.start_soon(self.isrs.run)
            nursery.start_soon(self._assignments.run)
            nursery.start_soon(self.replicas.fetchers.run)
            nursery.start_soon(self.cleaner.run)
            nursery.start_soon(RecoveryPoints(self.replicas, self._reports).run)
            nursery.start_soon(self.producer_ids.run)
            for topic in self._topics:
                nursery.start_soon(topic.run)
            nursery.start_soon(self.topic_creator.run)
            nursery.start_soon(self._others.verifications.run)
            nursery.start_soon(self._others.markers.run)
            nursery.start_soon(self.transactions.run)
            if self.audit_forwarder is not None:
                nursery.start_soon(self.audit_forwarder.run)
            nursery.start_soon(self._manager.run)
            await self.replicas.loaded.wait()
            self._manager.is_ready = True

    async def settled(self) -> None:
        """Return when this broker leads what it can, or is not to be registered."""
        await self._manager.settled.wait()

    async def shut_down(self, timeout_s: float) -> None:
        """Have this broker's leaderships moved away before the server stops."""
        await self._manager.shut_down(timeout_s * _SHARE_OF_SHUTDOWN)

    def close(self) -> None:
        """Write everything to disk, and note a clean shutdown."""
        self._replica_tasks.save_high_watermarks()
        if not self.replicas.close():
            return
        for directory in self.replicas.logs.online:
            try:
                write_clean_shutdown(directory.path, self._disk, self.lifecycle.epoch)
            except LogError as error:
                self._reports.report("log not closed", error=str(error))


def broker_registration(
    node_id: int,
    cluster_id: str,
    incarnation: Uuid,
    directory_ids: Iterable[Uuid],
    endpoints: Iterable[Endpoint],
    features: Mapping[str, tuple[int, int]],
    rack: str | None = None,
) -> BrokerRegistrationRequest:
    """Return the registration of a broker. ``directory_ids`` are those of its log directories that
    are online, ``endpoints`` those for clients, ``features`` the levels that this release knows.
    """
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=[
            Listener(
                name=one.listener,
                host=one.host,
                port=one.port,
                security_protocol=SecurityProtocol[one.security_protocol],
            )
            for one in endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
        rack=rack,
        log_dirs=sorted(directory_ids),
    )
