"""Runs an observer of another quorum: a raft core that never votes, on ``quorum_node``.

The counterpart of ``controller_node`` for ``source=observer``: there is no controller, and a
controller listener, if there is one, serves other observers (``gateway.quorum.relaying``).
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.address import Address
from gateway.base.wall_clock import wall_ms
from gateway.config.config import ConfigError
from gateway.log.files.errors import LogError
from gateway.log.metadata.formatting import Formatting, format_directory, random_uuid
from gateway.log.metadata.observer_store import ObserverStore
from gateway.log.partition.data_directory import read_meta
from gateway.ports.services import State
from gateway.quorum.raft import Raft
from gateway.quorum.settings import ObserverSettings, RaftSettings
from gateway.security.authorizer import authorizer_of
from gateway.security.listeners import node_security, upstream_security
from gateway.server.controller.forwarding_manager import ForwardingManager
from gateway.server.node_client.controller_check import check_addresses
from gateway.server.node_client.errors import NotAController, UpstreamError
from gateway.server.node_client.settings import ConnectionSettings
from gateway.server.quorum.initial_state import stored
from gateway.server.quorum.raft_driver import RaftDriver
from gateway.server.sources.quorum_node import QuorumNode, close_store, log_settings
from gateway.sources.quorum_log import QuorumLog

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from gateway.config.config import Config
    from gateway.ports.services import Endpoint
    from gateway.security.client_properties import ClientSecurity
    from gateway.server.logging.logs import Reports

#: The server reports that it is ready when the log has caught up with the leader's, or after this
#: time, s. It then answers LEADER_NOT_AVAILABLE until the high watermark is known.
LOADING_MAX_S: Final = 2.0
#: The same where the last run has stored a high watermark, s: there are records to serve already.
_KNOWN_MAX_S: Final = 0.5
#: An observer does not know the names of the other nodes' listeners: it takes the addresses in
#: responses.
_LISTENER: Final = ""


class ObserverNode(QuorumNode):
    """A node with the copy of another quorum's log; :meth:`run` is the task."""

    def __init__(
        self,
        config: Config,
        log: QuorumLog,
        store: ObserverStore,
        security: ClientSecurity,
        endpoints: Mapping[str, Address],
        reports: Reports,
    ) -> None:
        """``endpoints``: as of :func:`observer_settings`. Raises LogError."""
        self.is_relay = bool(endpoints)
        #: Of this process, as a broker.
        self.incarnation = random_uuid()
        self.store = store
        connection_settings = self._connection_settings = connecting(config, security)
        self._addresses = config.controller_addresses
        core = partial(_core, observer_settings(config, store, security, endpoints), store)
        driver = RaftDriver(
            core(trio.current_time(), wall_ms()), log, connection_settings, reports, restart=core
        )
        super().__init__(
            config,
            log,
            driver,
            lambda: driver.raft.leader_address,
            connection_settings,
            reports,
        )
        self.authorizer = authorizer_of(config, self.loader)

    async def run(self, started: Callable[[], None]) -> None:
        """Run all tasks until cancelled.

        ``started`` is called when the log can be served, or was waited for long enough. Raises
        SourceStopped, in a group, when following cannot go on. Raises ConfigError if there is no
        copy yet and brokers are named in place of controllers.
        """
        if not self._log.committed:
            await self._require_controllers()
        async with trio.open_nursery() as nursery:
            self.run_tasks(nursery)
            await self.driver.loaded(_KNOWN_MAX_S if self._log.committed else LOADING_MAX_S)
            started()

    async def _require_controllers(self) -> None:
        found, failures = await check_addresses(self._addresses, self._connection_settings)
        brokers = [error for error in failures.values() if isinstance(error, NotAController)]
        # Controllers that do not answer may start later.
        if brokers and not found:
            raise ConfigError(*_named(failures.values()))

    async def loaded(self) -> None:
        """Return when clients can read the log for the first time."""
        if self._log.state is State.LOADING:
            await self.driver.loaded(math.inf)

    def forwarding(self) -> ForwardingManager:
        """Return a further way to the active controller, not started."""
        return ForwardingManager(self.leader_address, self._connection_settings, self._reports)


def open_quorum(
    config: Config, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
) -> tuple[QuorumLog, ObserverNode]:
    """Open the local copy of the log and make its quorum, not started. Raises ConfigError.

    ``endpoints``: this node's listeners by name. ``stack`` closes the files.
    """
    security = security_of(config)
    where = config.metadata_log_dir
    assert where is not None
    try:
        if config.is_broker:
            _require_formatted(config, where)
        store = ObserverStore.open(
            where,
            log_settings(config),
            node_id=config.node_id,
            cluster_id=config.cluster_id,
        )
        stack.callback(close_store, store, reports)
        if config.is_broker:
            # Kafka's older releases formatted directories without an id.
            store.learn_cluster_id(store.cluster_id)
        log = QuorumLog(store, snapshot_prefix=config.snapshot_prefix)
        stack.callback(close_store, log, reports)
        for_nodes = {
            one.name: Address(endpoints[one.name].host, endpoints[one.name].port)
            for one in config.controller_listeners
        }
        quorum = ObserverNode(config, log, store, security, for_nodes, reports)
    except LogError as error:
        raise ConfigError(f"data.dir: {error}") from None
    for warning in security.warnings:
        reports.report("weak security", error=warning)
    for problem in store.problems:
        reports.report("log repaired", error=problem)
    return log, quorum


def connecting(config: Config, security: ClientSecurity) -> ConnectionSettings:
    """How an observer connects to the controllers."""
    timeout_s = config.controller_quorum_request_timeout_ms / 1000
    return ConnectionSettings(security, f"kwire-{config.node_id}", timeout_s)


def check_controllers(config: Config) -> list[str]:
    """Connect to the controllers, and return a warning for each that cannot be used. Raises
    ConfigError if none can.
    """
    connection_settings = connecting(config, security_of(config))
    addresses = config.controller_addresses
    found, failures = trio.run(partial(check_addresses, addresses, connection_settings, ask=True))
    named = _named(failures.values())
    if not found:
        raise ConfigError(*named)
    return named


def _named(failures: Iterable[UpstreamError]) -> list[str]:
    return [f"controller.quorum.bootstrap.servers: {error}" for error in failures]


def security_of(config: Config) -> ClientSecurity:
    """Security of connections to controllers: that of ``command.config``; without it, for a broker,
    that of the controllers' listener. Raises ConfigError.
    """
    if config.is_broker and config.command_config is None:
        return node_security(config)
    return upstream_security(config)


def _require_formatted(config: Config, where: Path) -> None:
    """Check that the directory of a broker is formatted for it; format an empty one for
    ``cluster.id``. Raises ConfigError, LogError.
    """
    known = read_meta(where)
    if known is None and config.cluster_id is not None:
        format_directory(where, Formatting(config.cluster_id, config.node_id, random_uuid()))
    elif known is None or not known.cluster_id:
        raise ConfigError(
            f"data.dir: {where} is not formatted: give cluster.id, or run kwire format "
            f"--cluster-id ID --config FILE with the cluster's id"
        )
    elif known.node_id != config.node_id:
        raise ConfigError(
            f"data.dir: {where} is that of node {known.node_id}, and node.id is {config.node_id}"
        )


def observer_settings(
    config: Config,
    store: ObserverStore,
    security: ClientSecurity,
    endpoints: Mapping[str, Address],
) -> RaftSettings:
    """Settings of a raft core that observes, from the configuration and the local log.

    ``endpoints``: the controller listeners, at which other observers follow this node, by name.
    """
    backoff_s = config.controller_quorum_retry_backoff_ms / 1000
    # The quorum lists a broker by its own id, as in Kafka.
    replica_id = config.node_id if config.is_broker else config.replica_id
    return RaftSettings(
        node_id=replica_id,
        directory_id=store.directory_id,
        cluster_id=store.cluster_id or None,
        listener=_LISTENER,
        endpoints=endpoints,
        bootstrap=config.controller_addresses,
        fetch_timeout_s=config.controller_quorum_fetch_timeout_ms / 1000,
        request_timeout_s=config.controller_quorum_request_timeout_ms / 1000,
        retry_backoff_s=backoff_s,
        retry_backoff_max_s=max(backoff_s, config.controller_quorum_retry_backoff_max_ms / 1000),
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        observer=ObserverSettings(
            replica_id=replica_id,
            history=config.quorum_history,
            principal=f"User:{security.sasl.username}" if security.sasl is not None else None,
        ),
    )


def _core(settings: RaftSettings, store: ObserverStore, now: float, wall_ms: int) -> Raft:
    """A raft core that starts from the state on disk. Raises LogError."""
    # Not fixed in ``settings``: an observer learns the cluster id from the leader's first response.
    settings = replace(settings, cluster_id=store.cluster_id or None)
    return Raft(settings, stored(store.stored()), random=random.random, now=now, wall_ms=wall_ms)
