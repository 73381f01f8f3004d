"""Makes the broker of a node, in the node's data directory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.broker.internal_topic import InternalTopicSettings
from gateway.broker.replica.fetcher import FetcherSettings
from gateway.config.config import ConfigError
from gateway.handlers.apis.api_versions import OWN_FEATURES
from gateway.log.audit.forwarding_position import ForwardingFile
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.metadata.formatting import random_uuid
from gateway.log.partition.log_directories import (
    LogDirectory,
    close_all,
    open_log_directories,
)
from gateway.ports.services import AUDIT_CLIENT_ID
from gateway.security.listeners import broker_security
from gateway.server.broker.audit_forwarder import AuditForwarder
from gateway.server.broker.audit_topic_leader import AuditTopicLeader
from gateway.server.broker.auto_topic_creation_manager import NewTopics
from gateway.server.broker.broker_connection import (
    BrokerConnection,
    InterBrokerSettings,
    broker_address,
)
from gateway.server.broker.broker_node import BrokerNode, BrokerSettings, broker_registration
from gateway.server.broker.replica_fetcher import FetchingSettings
from gateway.server.broker.transaction_driver import TransactionSettings
from gateway.server.node_client.settings import ConnectionSettings
from kwire.protocol.topic import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Mapping

    from gateway.config.config import Config
    from gateway.ports.services import Controllers, Endpoint
    from gateway.server.logging.logs import Reports
    from gateway.server.sources.controller_node import ControllerNode
    from gateway.server.sources.observer_node import ObserverNode
    from gateway.sources.audit_partition import AuditPartition
    from gateway.sources.metadata_loader import MetadataLoader


def open_broker(
    config: Config,
    node: ControllerNode | ObserverNode,
    controllers: Controllers,
    heartbeats: Controllers,
    endpoints: Mapping[str, Endpoint],
    reports: Reports,
    stack: contextlib.ExitStack,
    *,
    hindrance: Callable[[], str | None] = lambda: None,
    audit: AuditPartition | None = None,
) -> BrokerNode:
    """Return the broker, not started. ``stack`` closes its logs before the node's. ``controllers``,
    ``heartbeats`` and ``hindrance``: as of ``BrokerNode``. ``audit``: the audit log of a node that
    is a controller, too. Raises ConfigError.
    """
    directories = _log_directories(config, node, reports)
    stack.callback(close_all, directories)
    registration = broker_registration(
        config.node_id,
        node.store.cluster_id,
        node.incarnation,
        [one.id for one in directories if one.is_online],
        [one for one in endpoints.values() if one.listener not in config.controller_listener_names],
        {one.name: (one.min_version, one.max_version) for one in OWN_FEATURES},
        config.broker_rack,
    )
    fetching = _fetching(config)
    try:
        broker = BrokerNode(
            directories,
            registration,
            controllers,
            heartbeats,
            node.loader,
            reports,
            settings=BrokerSettings(
                heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
                session_timeout_s=config.broker_session_timeout_ms / 1000,
                registration_timeout_s=config.initial_broker_registration_timeout_ms / 1000,
                fsync=config.metadata_log_fsync,
                retention_check_s=config.log_retention_check_interval_ms / 1000,
                replica_lag_s=config.replica_lag_time_max_ms / 1000,
                fetching=fetching,
                queued_max_bytes=config.queued_max_request_bytes,
            ),
            offsets_topic=_offsets_topic(config),
            transactions=_transactions(config),
            new_topics=NewTopics(config.num_partitions, config.default_replication_factor),
            hindrance=hindrance,
        )
    except LogError as error:
        raise ConfigError(f"data.dir: {error}") from None
    stack.callback(broker.close)
    if audit is not None:
        broker.audit_forwarder = _audit_forwarder(
            config, fetching.brokers, audit, node.loader, broker, reports
        )
    return broker


def _log_directories(
    config: Config, node: ControllerNode | ObserverNode, reports: Reports
) -> list[LogDirectory]:
    """Open the directories of ``log.dirs``; without the key there is the one with the metadata log.
    Raises ConfigError.
    """
    store, problems = node.store, list[str]()
    metadata = LogDirectory(
        store.directory.parent, store.directory_id, store.checkpoints, has_metadata=True
    )
    try:
        directories = open_log_directories(
            config.log_dirs,
            metadata,
            store.cluster_id,
            config.node_id,
            Disk(fsync=config.metadata_log_fsync),
            problems,
            random_uuid,
        )
    except LogError as error:
        raise ConfigError(f"log.dirs: {error}") from None
    if not any(one.is_online for one in directories):
        close_all(directories)
        raise ConfigError(*(f"log.dirs: {one.fault}" for one in directories))
    for problem in problems:
        reports.report("log repaired", error=problem)
    for one in directories:
        if not one.is_online:
            reports.report("log directory offline", error=one.fault)
    return directories


def _fetching(config: Config) -> FetchingSettings:
    """Return how partitions are fetched that other brokers lead. Raises ConfigError."""
    connection: ConnectionSettings | str
    try:
        connection = ConnectionSettings(
            broker_security(config),
            f"broker-{config.node_id}",
            config.replica_socket_timeout_ms / 1000,
        )
    except ConfigError as error:
        # Without other brokers nothing is sent.
        if config.inter_broker_listener_name is not None:
            raise
        connection = str(error)
    return FetchingSettings(
        InterBrokerSettings(config.broker_listener_name, connection),
        FetcherSettings(
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            config.replica_fetch_backoff_ms / 1000,
        ),
    )


def _offsets_topic(config: Config) -> InternalTopicSettings:
    """Return how ``__consumer_offsets`` is created
    (``GroupCoordinatorService.groupMetadataTopicConfigs``).
    """
    return InternalTopicSettings(
        GROUP_METADATA_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def _audit_forwarder(
    config: Config,
    brokers: InterBrokerSettings,
    audit: AuditPartition,
    loader: MetadataLoader,
    broker: BrokerNode,
    reports: Reports,
) -> AuditForwarder:
    """Return the task that hands this node's audit log over to the audit topic, not started."""
    if isinstance(brokers.connection, ConnectionSettings):
        connection = replace(brokers.connection, client_id=AUDIT_CLIENT_ID)
        brokers = brokers._replace(connection=connection)

    def connect(broker_id: int) -> BrokerConnection:
        return BrokerConnection(
            broker_id,
            lambda: broker_address(broker_id, brokers.listener, loader.image),
            brokers,
        )

    leader = AuditTopicLeader(config.node_id, loader, broker.replicas, broker.producer_ids, connect)
    file = ForwardingFile(audit.directory, Disk(fsync=config.metadata_log_fsync))
    forwarder = AuditForwarder(audit, file, leader, reports)
    loader.subscribe(forwarder.on_update)
    return forwarder


def hindrance(config: Config, node: ControllerNode) -> str | None:
    """Return why the broker of a controller is not to be registered: None if it is to be, empty
    while that is not known.

    Without ``process.roles`` a node becomes the first broker of a quorum of one and no further one:
    a controller of other brokers that is started by a later release must get no partitions.
    """
    brokers = node.image.brokers
    if config.process_roles != "auto" or config.node_id in brokers:
        return None
    if len(node.raft.voters.nodes) > 1:
        return "the quorum has several voters: set process.roles=broker,controller on brokers"
    if not node.controller.is_active:  # its image may lack brokers
        return ""
    if brokers:
        return "there are other brokers: set process.roles=broker,controller to add this one"
    return None


def _transactions_topic(config: Config) -> InternalTopicSettings:
    """Return how ``__transaction_state`` is created
    (``TransactionStateManager.transactionTopicConfigs``).
    """
    return InternalTopicSettings(
        TRANSACTION_STATE_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def _transactions(config: Config) -> TransactionSettings:
    return TransactionSettings(
        _transactions_topic(config),
        config.transaction_max_timeout_ms,
        config.transactional_id_expiration_ms,
        config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000,
        config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000,
    )
