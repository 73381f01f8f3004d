"""Keeps, in a worker, what clients read: the log and the audit log of the node, the image of the
cluster, and the node's state.

With a quorum the worker reads the files that the node writes (``FollowedLog``). Files that Kafka
writes it follows by itself, as the node does. It knows neither the link to the node nor clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from gateway.security.authorizer import AllowAll, authorizer_of
from gateway.server.quorum.image_updater import update_image
from gateway.server.sources.metadata_source import metadata_source
from gateway.sources.followed_log import FollowedLog
from gateway.sources.metadata_loader import MetadataLoader
from kwire.cluster.image import Image

if TYPE_CHECKING:
    import contextlib

    from gateway.ports.services import Authorizer
    from gateway.server.logging.logs import Reports
    from gateway.server.sources.metadata_source import MetadataSource
    from gateway.server.workers.messages import NodeState, Start
    from gateway.sources.log_partition import LogPartition

#: Delay before files are scanned again that lack records below the node's high watermark, s.
_BEHIND_DELAY_S: Final = 0.1
#: A response waits at most so long for this process to catch up with the node, s.
_CATCH_UP_MAX_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class FollowedAudit:
    """``gateway.ports.services.Audit`` of the node."""

    partition: FollowedLog
    of: FollowedQuorum

    @property
    def nodes(self) -> Sequence[int]:
        """Ids of the nodes with audit entries, in the node's last state message."""
        return self.of.state.audit_nodes


class FollowedQuorum:
    """``gateway.ports.services.Quorum``, ``RaftPeers`` and ``Controllers`` of the node, for
    handlers that read. Requests to the quorum and the controller are forwarded before a handler
    submits them.
    """

    is_active: Final = False

    def __init__(self, start: Start) -> None:
        assert start.log_directory is not None
        self.state = start.state
        self.loader = MetadataLoader(start.log_directory)

    @property
    def leader_id(self) -> int:
        """The leader's id in the node's last state message."""
        return self.state.leader_id

    @property
    def kraft_version(self) -> int:
        """The kraft.version in the node's last state message."""
        return self.state.kraft_version

    @property
    def image(self) -> Image:
        """The state of the cluster by the committed records that this process has applied."""
        return self.loader.image

    def describe(self, *request: object) -> NoReturn:
        """Never called: DescribeQuorum is forwarded."""
        raise AssertionError("a worker forwards DescribeQuorum")

    def ask(self, *request: object) -> NoReturn:
        """Never called: a worker has no controller listener."""
        raise AssertionError("a worker has no controller listener")

    def submit(self, *request: object) -> NoReturn:
        """Never called: changes are forwarded."""
        raise AssertionError("a worker forwards changes")


class NodeMirror:
    """The logs and the image of a worker; :meth:`run` is the task."""

    def __init__(self, start: Start, reports: Reports, stack: contextlib.ExitStack) -> None:
        """Open the logs; ``stack`` closes them. Raises ConfigError."""
        self._reports = reports
        self._state = start.state
        self._told = self._applied = 0  # numbers of states
        self._news = trio.Event()
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        # (offset, deadline, callback) that wait for the image
        self._unapplied: list[tuple[int, float, Callable[[], None]]] = []
        self.quorum: FollowedQuorum | None = None
        self.audit: FollowedAudit | None = None
        self._source: MetadataSource | None = None
        self.authorizer: Authorizer = AllowAll()
        if start.log_directory is None:
            self._source = metadata_source(start.config)
            self._source.open({}, reports, stack)
            self.partition: LogPartition = self._source.partition
        else:
            self._open_logs(start, start.log_directory)

    def _open_logs(self, start: Start, directory: str) -> None:
        log_dir, cluster_id = start.log_dir, start.state.cluster_id
        self._log = self.partition = FollowedLog(
            directory,
            snapshot_prefix=start.config.snapshot_prefix,
            cluster_id=cluster_id,
            log_dir=log_dir,
        )
        quorum = self.quorum = FollowedQuorum(start)
        self.authorizer = authorizer_of(start.config, quorum.loader)
        if start.audit_directory is not None:
            log = FollowedLog(
                start.audit_directory,
                snapshot_prefix=False,
                cluster_id=cluster_id,
                log_dir=log_dir,
            )
            self.audit = FollowedAudit(log, quorum)

    @property
    def image(self) -> Image:
        """The committed state of the cluster; empty where there is no quorum."""
        return Image() if self.quorum is None else self.quorum.image

    def told(self, state: NodeState) -> None:
        """Keep the state that the node sent; it is served after the next scan of the files."""
        self._state = state
        self._told += 1
        self._news.set()

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the last state that the node sent is served, or after
        ``_CATCH_UP_MAX_S``.
        """
        if self._has_caught_up():
            callback()
        else:
            self._waiting.append((self._told, callback))

    def when_applied(self, callback: Callable[[], None]) -> None:
        """As :meth:`when_caught_up`, and the image has those records, too."""

        def caught_up() -> None:
            waits_until = trio.current_time() + _CATCH_UP_MAX_S
            self._unapplied.append((self._log.high_watermark, waits_until, callback))
            self._call_applied()

        self.when_caught_up(callback if self.quorum is None else caught_up)

    async def run(self, started: Callable[[], None]) -> None:
        """Follow the node for ever. ``started`` is called when the state that the node sent at the
        start is served.
        """
        async with trio.open_nursery() as nursery:
            if self._source is None:
                assert self.quorum is not None
                await self._follow()
                loader = self.quorum.loader
                # Behind all others: see ``ControllerNode``.
                loader.subscribe(lambda delta, image: self._call_applied())
                nursery.start_soon(update_image, loader, self._log, self._reports)
                # The loader has no event for the end of its first load, and this loop runs once.
                while loader.read_offset < self._log.committed:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                nursery.start_soon(self._follow_for_ever)
            else:
                loaded = trio.Event()
                nursery.start_soon(self._source.run, loaded.set)
                await loaded.wait()
                nursery.start_soon(self._follow_files)
            started()

    async def _follow_for_ever(self) -> None:
        while True:
            with trio.move_on_after(0 if self._told > self._applied else float("inf")):
                await self._news.wait()
            await self._follow()
            if self._log.high_watermark < self._state.log.high_watermark:
                await trio.sleep(_BEHIND_DELAY_S)

    async def _follow(self) -> None:
        """Scan the files, and serve them up to the state that the node sent before the scan."""
        self._news = trio.Event()
        number, state = self._told, self._state
        await trio.to_thread.run_sync(self._scan)
        assert self.quorum is not None
        self.quorum.state = state
        self._log.cluster_id = state.cluster_id
        self._log.publish(state.log)
        if self.audit is not None and state.audit is not None:
            self.audit.partition.publish(state.audit)
        self._applied = number
        self._call_waiting()

    def _scan(self) -> None:
        self._log.scan()
        if self.audit is not None:
            self.audit.partition.scan()

    async def _follow_files(self) -> None:
        """Wait until this process has read from the files as much as the node has."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            number = self._told
            with trio.move_on_after(_CATCH_UP_MAX_S):
                # The files are polled, too.
                while self.partition.high_watermark < self._state.log.high_watermark:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            self._applied = number
            self._call_waiting()

    def _has_caught_up(self) -> bool:
        return (
            self._applied >= self._told
            and self.partition.high_watermark >= self._state.log.high_watermark
        )

    def _call_waiting(self) -> None:
        due = [callback for number, callback in self._waiting if number <= self._applied]
        self._waiting = [one for one in self._waiting if one[0] > self._applied]
        self._call(due)

    def _call_applied(self) -> None:
        """Call the callbacks whose records are in the image, and those that have waited for too
        long.
        """
        if not self._unapplied:
            return
        assert self.quorum is not None
        offset, now = self.quorum.loader.read_offset, trio.current_time()
        waiting, self._unapplied = self._unapplied, []
        due: list[tuple[int, float, Callable[[], None]]] = []
        for one in waiting:
            is_due = one[0] <= offset or one[1] <= now
            (due if is_due else self._unapplied).append(one)
        self._call([callback for _, _, callback in due])

    def _call(self, callbacks: Sequence[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception as error:
                self._reports.bug("internal error", error)
