"""Follows a quorum's log at any node, voter or observer: the raft driver, the image of the cluster,
snapshots and cleaning, DescribeQuorum.

``controller_node`` and ``observer_node`` open the log, and add what a node of the one kind has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.log.files.errors import LogError
from gateway.log.metadata.listing import list_directory
from gateway.log.partition.log_settings import LogSettings
from gateway.quorum.events import Cleaned, SnapshotWritten
from gateway.server.quorum.describe_quorum_client import DescribeQuorumClient
from gateway.server.quorum.image_updater import update_image
from gateway.server.quorum.log_cleaner import LogCleaner
from gateway.server.quorum.raft_status import quorum_status
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.snapshot_generator import SnapshotGenerator, SnapshotSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from gateway.base.address import Address
    from gateway.config.config import Config
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings
    from gateway.server.quorum.log_cleaner import OwnSnapshot
    from gateway.server.quorum.quorum_status import QuorumStatus
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.sources.quorum_log import QuorumLog
    from kwire.cluster.image import Image
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse

    class _Closable(Protocol):
        def close(self) -> None: ...


class QuorumNode:
    """``gateway.ports.services.Quorum``; :meth:`run_tasks` is the part of the task that both kinds
    of nodes have.
    """

    def __init__(
        self,
        config: Config,
        log: QuorumLog,
        driver: RaftDriver,
        leader_address: Callable[[], Address | None],
        connection_settings: ConnectionSettings,
        reports: Reports,
    ) -> None:
        """``leader_address``: of the leader's controller listener; None while it is not known."""
        self.driver = driver
        self.leader_address = leader_address
        self._log = log
        self._reports = reports
        self.loader = MetadataLoader(log.store.directory, log.recent)
        store, how_often = log.store, snapshot_settings(config)
        # Nothing below refers to this object: no cycle keeps the files of a closed log open.
        self._log_cleaner = LogCleaner(
            SnapshotGenerator(
                store.directory, how_often, log.new_snapshot, now=trio.current_time()
            ),
            self.loader,
            log,
            driver.disk,
            reports,
            written=lambda snapshot_id: driver.submit(SnapshotWritten(snapshot_id)),
            cleaned=lambda: driver.submit(
                Cleaned(store.start_offset, list_directory(str(store.directory)).snapshots)
            ),
        )
        self._questions = DescribeQuorumClient(
            leader_address,
            connection_settings,
            config.controller_quorum_request_timeout_ms / 1000,
            reports,
        )

    def run_tasks(self, nursery: trio.Nursery) -> None:
        """Start the tasks in ``nursery``. They raise SourceStopped when this node cannot go on."""
        nursery.start_soon(self._questions.run)
        nursery.start_soon(update_image, self.loader, self._log, self._reports)
        nursery.start_soon(self._log_cleaner.run)
        nursery.start_soon(self.driver.run)

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum, -1 while no leader is known."""
        return self.driver.raft.leader_id

    @property
    def image(self) -> Image:
        """The state of the cluster by the committed records that have been applied."""
        return self.loader.image

    @property
    def own_snapshot(self) -> OwnSnapshot | None:
        """The newest snapshot that this node has written since its start."""
        return self._log_cleaner.own_snapshot

    def status(self) -> QuorumStatus:
        """The status of this node and of its log, for metrics."""
        return quorum_status(self._log, self.driver, self.leader_address(), self.loader.lacks)

    def describe(self, on_response: Callable[[DescribeQuorumResponse | str], None]) -> None:
        """As in ``gateway.ports.services.Quorum``."""
        self._questions.describe(on_response)


def log_settings(config: Config) -> LogSettings:
    """Settings of the local log, from the configuration."""
    return LogSettings(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
        fsync=config.metadata_log_fsync,
    )


def snapshot_settings(config: Config) -> SnapshotSettings:
    """How often snapshots are written, from the configuration."""
    return SnapshotSettings(
        config.metadata_log_max_record_bytes_between_snapshots,
        config.metadata_log_max_snapshot_interval_ms,
    )


def close_store(store: _Closable, reports: Reports) -> None:
    """Close a store. A failure is reported, not raised: it must not hide why the server ends."""
    try:
        store.close()
    except LogError as error:
        reports.report("log not closed", error=str(error))
