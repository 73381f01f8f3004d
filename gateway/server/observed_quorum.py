"""Everything that runs for one observed quorum: following it, asking its leader, folding what is committed into an image."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import trio

from gateway.config import ConfigError
from gateway.log.errors import LogError
from gateway.log.local_log import LogSettings
from gateway.quorum.observer import Observer
from gateway.quorum.settings import ObserverSettings
from gateway.security.authorizer import authorizer_of
from gateway.security.client_properties import ClientPropertiesError, ClientSecurity, load_client_properties
from gateway.server.keep_image import keep_image
from gateway.server.keep_log import LogKeeper
from gateway.server.observe import Observation
from gateway.server.quorum_peer import Connecting
from gateway.server.quorum_questions import QuorumQuestions
from gateway.sources.errors import SourceError
from gateway.sources.image_keeper import ImageKeeper
from gateway.sources.observed_log import ObservedLog, open_observed_log
from gateway.sources.own_snapshots import OwnSnapshots, SnapshotSettings

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable

    from gateway.config import Config
    from gateway.server.facts import OwnSnapshot
    from gateway.server.logs import Reports
    from kwire.cluster.image import Image
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse


class ObservedQuorum:
    """``gateway.ports.Quorum`` over a log that follows one; :meth:`run` is the task."""

    def __init__(self, config: Config, source: ObservedLog, security: ClientSecurity, reports: Reports) -> None:
        settings = observer_settings(config, source, security)
        how = Connecting(security, f"kwire-{config.node_id}", settings.request_timeout_s)
        observer = Observer(
            settings,
            source.log,
            epoch=source.epoch,
            leader_id=source.leader_id,
            high_watermark=source.committed,
            dice=random.random,
        )
        self.observation = Observation(observer, source, how, reports)
        self._source = source
        self._reports = reports
        self._keeper = ImageKeeper(source.log.directory)
        self.authorizer = authorizer_of(config, self._keeper.acls)
        how_often = SnapshotSettings(
            config.metadata_log_max_record_bytes_between_snapshots, config.metadata_log_max_snapshot_interval_ms
        )
        snapshots = OwnSnapshots(source.log.directory, how_often, source.new_snapshot, now=trio.current_time())
        self._log_keeper = LogKeeper(snapshots, self._keeper, source, self.observation.disk, reports)
        self._questions = QuorumQuestions(lambda: observer.facts.leader_address, how, settings.request_timeout_s, reports)

    async def run(self, started: Callable[[], None]) -> None:
        """Follow until it cannot go on. ``started`` is called when the log can be served, or was waited for.

        Raises SourceStopped, in a group.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._questions.run)
            nursery.start_soon(keep_image, self._keeper, self._source, self._reports)
            nursery.start_soon(self._log_keeper.run)
            nursery.start_soon(self.observation.run)
            await self.observation.loaded()
            started()

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum, -1 while nobody knows."""
        return self.observation.leader_id

    @property
    def image(self) -> Image:
        """The cluster as the committed records say, as far as they are folded."""
        return self._keeper.image

    @property
    def own_snapshot(self) -> OwnSnapshot | None:
        """The newest snapshot made here since the start."""
        return self._log_keeper.own_snapshot

    def describe(self, tell: Callable[[DescribeQuorumResponse | str], None]) -> None:
        """Ask the leader who votes and who follows; ``tell`` is called once."""
        self._questions.describe(tell)


def open_quorum(config: Config, reports: Reports, held: contextlib.ExitStack) -> tuple[ObservedLog, ObservedQuorum]:
    """The local copy and the quorum, which nobody has asked anything yet. Raises ConfigError."""
    security = upstream_security(config)
    assert config.data_dir is not None
    try:
        source = open_observed_log(
            config.data_dir,
            log_settings(config),
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            snapshot_prefix=config.snapshot_prefix,
        )
    except SourceError as error:
        raise ConfigError(f"data.dir: {error}") from None
    held.callback(_close, source, reports)
    for warning in security.warnings:
        reports.report("weak security", "warning", error=warning)
    for problem in source.log.problems:
        reports.report("log repaired", "warning", error=problem)
    return source, ObservedQuorum(config, source, security, reports)


def _close(source: ObservedLog, reports: Reports) -> None:
    """The last thing of all: that the disk is full must not hide why the server ends."""
    try:
        source.close()
    except LogError as error:
        reports.report("log not closed", "error", error=str(error))


def upstream_security(config: Config) -> ClientSecurity:
    """How controllers are connected to, as ``command.config`` says. Raises ConfigError."""
    if config.command_config is None:
        return ClientSecurity()
    try:
        return load_client_properties(config.command_config)
    except ClientPropertiesError as error:
        raise ConfigError(f"command.config: {error}") from None


def log_settings(config: Config) -> LogSettings:
    """What the configuration says about the local copy."""
    return LogSettings(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
        fsync=config.metadata_log_fsync,
    )


def observer_settings(config: Config, source: ObservedLog, security: ClientSecurity) -> ObserverSettings:
    """What the configuration and the local copy say about how to observe."""
    return ObserverSettings(
        bootstrap=config.controller_quorum_bootstrap_servers,
        cluster_id=source.cluster_id or None,
        replica_id=config.replica_id,
        directory_id=source.directory_id,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        request_timeout_s=config.controller_quorum_request_timeout_ms / 1000,
        fetch_timeout_s=config.controller_quorum_fetch_timeout_ms / 1000,
        backoff_min_s=config.controller_quorum_retry_backoff_ms / 1000,
        backoff_max_s=config.controller_quorum_retry_backoff_max_ms / 1000,
        history=config.quorum_history,
        principal=f"User:{security.sasl.username}" if security.sasl is not None else None,
    )
