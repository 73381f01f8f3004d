"""Runs a node of its own quorum: the raft driver, the image, the active controller, snapshots,
cleaning, and the registration of this node.

Opens the node's log and formats an empty directory where that is safe. ``observed_quorum`` is the
counterpart for an observer of another quorum.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.address import Address
from gateway.base.sizes import MIB
from gateway.base.wall_clock import wall_ms
from gateway.config.config import ConfigError
from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.log.audit.audit_log import AUDIT_SETTINGS
from gateway.log.files.errors import LogError
from gateway.log.metadata.formatting import (
    Formatting,
    bootstrap_records,
    ensure_formatted,
    format_directory,
    random_uuid,
)
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.partition.data_directory import read_meta
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.services import THIS_NODE
from gateway.quorum.raft import Raft
from gateway.quorum.requests import describe_quorum
from gateway.quorum.settings import RaftSettings
from gateway.security.authorizer import authorizer_of
from gateway.security.delegation_tokens import token_secret
from gateway.server.controller.acting_controller import ActingController
from gateway.server.controller.audit_log_writer import AuditLogWriter
from gateway.server.controller.changes import Changes
from gateway.server.node_client.settings import ConnectionSettings
from gateway.server.quorum.initial_state import stored
from gateway.server.quorum.raft_driver import RaftDriver
from gateway.server.quorum.registration import maintain_registration, registration
from gateway.server.sources.client_quotas import client_quotas
from gateway.server.sources.local_security import (
    check_security,
    data_dir,
    formats_itself,
    lockout_of,
)
from gateway.server.sources.quorum_node import QuorumNode, close_store, log_settings
from gateway.sources.audit_partition import AuditPartition
from gateway.sources.quorum_log import QuorumLog
from kwire.cluster.image import METADATA_VERSION
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from gateway.config.config import Config
    from gateway.ports.services import Endpoint
    from gateway.server.logging.logs import Reports
    from kwire.cluster import Delta, Image
    from kwire.message import Message
    from kwire.uuid import Uuid

    _FindLockout = Callable[[Iterable[tuple[int, str]]], str | None]

#: The server reports that it is ready when the high watermark is known, or after this time, s. It
#: then answers LEADER_NOT_AVAILABLE until it is known.
_LOADING_MAX_S: Final = 2.0
_DESCRIBE_VERSION: Final = 2
#: The least value of ``segment.bytes`` of a topic.
_TOPIC_SEGMENT_MIN: Final = MIB


class ControllerNode(QuorumNode):
    """A node of its own quorum; :meth:`run` is the task."""

    def __init__(
        self,
        raft: Raft,
        log: QuorumLog,
        config: Config,
        endpoints: Sequence[Endpoint],
        connection_settings: ConnectionSettings,
        reports: Reports,
        bootstrap: Sequence[Message],
        audit: AuditPartition | None = None,
    ) -> None:
        """``endpoints`` of this node, those of controller listeners first. ``bootstrap``: the
        records that the first controller writes. ``audit``: the partition of the audit topic, None
        without ``metadata.audit.enable``.
        """
        self.raft = raft
        #: Of this process, as a controller and as a broker.
        self.incarnation = random_uuid()
        self.listener = config.controller_listener_names[0]
        super().__init__(
            config,
            log,
            RaftDriver(raft, log, connection_settings, reports),
            partial(_leader_address, raft, self.listener),
            connection_settings,
            reports,
        )
        self._find_lockout: _FindLockout | None = partial(
            lockout_of, config, connection_settings.security
        )
        self.authorizer = authorizer_of(config, self.loader, itself=THIS_NODE.principal)
        self.quotas = client_quotas(config, self.loader)
        self.audit = None if audit is None else AuditLogWriter(audit, self._audit_nodes, reports)
        self.controller = ActingController(
            partial(_controller, config, bootstrap, log.cluster_id, raft, self.incarnation),
            self.driver,
            self.loader,
            self.authorizer,
            self.leader_address,
            connection_settings,
            reports,
            Changes(config.node_id, reports, self.audit, log.committed_epoch_at),
            self.quotas,
        )
        self.driver.leadership = self.controller
        self._registration = registration(config.node_id, self.incarnation, endpoints)

    async def run(self, started: Callable[[], None]) -> None:
        """Run all tasks until cancelled.

        ``started`` is called when the log can be served, or after ``_LOADING_MAX_S``. Raises
        SourceStopped, in a group, when this node cannot go on.
        """
        # Behind all others: a client that gets a response may ask at once for what it has changed.
        self.loader.subscribe(lambda delta, image: self.controller.image_advanced())
        self.loader.subscribe(self._check_logins)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.controller.run)
            nursery.start_soon(
                maintain_registration,
                self._registration,
                self,
                self.controller,
                THIS_NODE,
                self._reports,
            )
            if self.audit is not None:
                nursery.start_soon(self.audit.run)
            self.run_tasks(nursery)
            await self.driver.loaded(_LOADING_MAX_S)
            started()

    @property
    def store(self) -> RaftStore:
        """The log of this node, and the identity of its directory."""
        store = self._log.store
        assert isinstance(store, RaftStore), "a node of its own quorum may vote"
        return store

    def describe(self, on_response: Callable[[DescribeQuorumResponse | str], None]) -> None:
        """As in ``gateway.ports.services.Quorum``; the leader may be this node."""
        if self.raft.leader_id != self.raft.node_id:
            super().describe(on_response)
            return

        def respond(response: Message) -> None:
            assert isinstance(response, DescribeQuorumResponse), "the core answers the request"
            on_response(response)

        self.driver.handle_request(describe_quorum(), _DESCRIBE_VERSION, self.listener, respond)

    def _audit_nodes(self) -> Iterable[int]:
        """Return the voters and the registered controllers: a voter that is removed stays
        registered, so that the audit topic keeps its partition and the numbers of the others.
        """
        return self.raft.voters.nodes.keys() | self.image.controllers.keys()

    def _check_logins(self, delta: Delta | None, image: Image) -> None:
        """Report once, as the leader, which alone knows the whole log, that no super user can log
        in.
        """
        leads = self.raft.leader_id == self.raft.node_id and not self.loader.behind
        if self._find_lockout is None or not (leads and image.metadata_version):
            return
        problem, self._find_lockout = self._find_lockout(image.scram), None
        if problem is not None:
            self._reports.report("no super user can log in", error=problem)


def open_controller_node(
    config: Config, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
) -> tuple[QuorumLog, ControllerNode]:
    """Open this node's log, formatted if the directory is empty, and make its quorum, not started.

    ``stack`` closes the files. Raises ConfigError.
    """
    security, _ = check_security(config)
    where = data_dir(config)
    controllers = {
        name: Address(one.host, one.port)
        for name, one in endpoints.items()
        if name in config.controller_listener_names
    }
    try:
        _format_if_fresh(config, where, controllers)
        store = RaftStore.open(
            where,
            log_settings(config),
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            static_voters=sorted(config.controller_quorum_voters),
        )
        stack.callback(close_store, store, reports)
        log = QuorumLog(store, snapshot_prefix=config.snapshot_prefix)
        stack.callback(close_store, log, reports)
        audit = None
        if config.metadata_audit_enable:
            audit = AuditPartition(where, _audit_settings(config), cluster_id=store.cluster_id)
            stack.callback(close_store, audit, reports)
        facts = stored(store.stored())
        bootstrap = bootstrap_records(where)
    except LogError as error:
        raise ConfigError(f"data.dir: {error}") from None
    for warning in security.warnings:
        reports.report("weak security", error=warning)
    for problem in store.problems:
        reports.report("log repaired", error=problem)
    settings = raft_settings(config, store, controllers)
    raft = Raft(
        settings,
        facts,
        random=random.random,
        now=trio.current_time(),
        wall_ms=wall_ms(),
    )
    connection_settings = ConnectionSettings(
        security, f"raft-client-{config.node_id}", settings.request_timeout_s
    )
    # Sorted: maintain_registration registers the first endpoint as the one for other controllers.
    own_endpoints = sorted(
        endpoints.values(), key=lambda one: one.listener not in config.controller_listener_names
    )
    return log, ControllerNode(
        raft, log, config, own_endpoints, connection_settings, reports, bootstrap, audit
    )


def _leader_address(raft: Raft, listener: str) -> Address | None:
    node = raft.voters.nodes.get(raft.leader_id)
    return None if node is None else node.endpoints.get(listener)


def raft_settings(
    config: Config, store: RaftStore, controllers: Mapping[str, Address]
) -> RaftSettings:
    """Settings of the raft core, from the configuration and meta.properties."""
    return RaftSettings(
        node_id=config.node_id,
        directory_id=store.directory_id,
        cluster_id=store.cluster_id,
        listener=config.controller_listener_names[0],
        endpoints=controllers,
        static_voters=config.controller_quorum_voters,
        bootstrap=config.controller_quorum_bootstrap_servers,
        campaigns=config.controller_quorum_campaign,
        auto_join=config.controller_quorum_auto_join_enable,
        election_timeout_s=config.controller_quorum_election_timeout_ms / 1000,
        fetch_timeout_s=config.controller_quorum_fetch_timeout_ms / 1000,
        election_backoff_max_s=config.controller_quorum_election_backoff_max_ms / 1000,
        request_timeout_s=config.controller_quorum_request_timeout_ms / 1000,
        retry_backoff_s=config.controller_quorum_retry_backoff_ms / 1000,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
    )


def _format_if_fresh(config: Config, where: Path, controllers: Mapping[str, Address]) -> None:
    """Format an empty directory of a quorum of one, or of static voters that configure a cluster
    id.

    Any other quorum has to be formatted by ``kwire format``: each of its nodes would make up a
    cluster id of its own, and so belong to another cluster.
    """
    if not formats_itself(config):
        return
    if config.controller_quorum_voters:
        if read_meta(where) is None:
            wanted = Formatting(
                config.cluster_id or str(random_uuid()), config.node_id, random_uuid()
            )
            format_directory(where, wanted)
    else:
        ensure_formatted(
            where, node_id=config.node_id, cluster_id=config.cluster_id, endpoints=controllers
        )


def _controller(
    config: Config,
    bootstrap: Sequence[Message],
    cluster_id: str,
    raft: Raft,
    incarnation: Uuid,
    serving: Sequence[int],
) -> Controller:
    levels = {
        one.name: one.feature_level for one in bootstrap if isinstance(one, FeatureLevelRecord)
    }
    level = levels.pop(METADATA_VERSION, None)
    settings = ControllerSettings(
        node_id=config.node_id,
        serving_nodes=tuple(serving),
        max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        cluster_id=cluster_id,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        broker_incarnation=incarnation if config.is_broker else None,
        leader_imbalance_check_interval_ms=1000
        * config.leader_imbalance_check_interval_seconds
        * config.auto_leader_rebalance_enable,
        unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
        audit_topic=_audit_topic(config) if config.is_broker else None,
        token_secret=token_secret(config.security),
        token_max_lifetime_ms=config.delegation_token_max_lifetime_ms,
        token_expiry_time_ms=config.delegation_token_expiry_time_ms,
        token_expiry_check_interval_ms=config.delegation_token_expiry_check_interval_ms,
    )
    if level is not None:
        others = [one for one in bootstrap if not isinstance(one, FeatureLevelRecord)]
        settings = replace(
            settings, metadata_version=level, features=levels, bootstrap_records=others
        )
    return Controller(settings, random=secrets.token_bytes, kraft=raft)


def _audit_topic(config: Config) -> Mapping[str, str] | None:
    """Return the configs with which the audit topic is created; None if it is not."""
    if not config.metadata_audit_enable:
        return None
    return {
        "cleanup.policy": "delete",
        "retention.bytes": str(config.metadata_audit_retention_bytes),
        "retention.ms": str(config.metadata_audit_retention_ms),
        "segment.bytes": str(max(_TOPIC_SEGMENT_MIN, config.metadata_audit_segment_bytes)),
    }


def _audit_settings(config: Config) -> LogSettings:
    """Settings of the audit log. Retention deletes whole segments, so they roll in its time."""
    keep_ms = config.metadata_audit_retention_ms
    settings = replace(
        AUDIT_SETTINGS,
        segment_bytes=config.metadata_audit_segment_bytes,
        retention_bytes=config.metadata_audit_retention_bytes,
        retention_ms=keep_ms,
        fsync=config.metadata_log_fsync,
    )
    return (
        settings if keep_ms < 0 else replace(settings, segment_ms=min(settings.segment_ms, keep_ms))
    )
