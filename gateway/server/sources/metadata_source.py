"""Opens and runs the source of the metadata partition: one class for each kind.

``ControllerSource`` is a node of its own KRaft quorum, ``ObserverSource`` follows another quorum,
``LogSource`` reads files of Kafka. Each says what it needs before the server starts, what it offers
to handlers and in which order it starts. ``gateway.sources`` reads the partition;
``controller_node`` and ``observer_node`` run the quorums.
"""

from __future__ import annotations

import abc
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

import trio

from gateway.config.config import ConfigError, SourceKind
from gateway.security.authorizer import AllowAll
from gateway.server.quorum.image_updater import update_image
from gateway.server.sources.client_quotas import client_quotas
from gateway.server.sources.file_poller import poll_files
from gateway.sources import LogDirectory, SourceError, open_log
from gateway.sources.log_image import ServedFiles
from gateway.sources.metadata_loader import MetadataLoader
from kwire.cluster.image import Image

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Mapping

    from gateway.broker.quotas.client_quotas import ClientQuotas
    from gateway.config.config import Config
    from gateway.ports.services import Authorizer, Endpoint
    from gateway.server.broker.broker_node import BrokerNode
    from gateway.server.controller.acting_controller import ActingController
    from gateway.server.controller.forwarding_manager import ForwardingManager
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.server.sources.controller_node import ControllerNode
    from gateway.server.sources.observer_node import ObserverNode
    from gateway.sources.log_partition import LogPartition

#: The log of ``source=sample``: see the README beside it.
SAMPLE: Final = Path(__file__).parents[2] / "sample"
#: The server reports that it is ready when its broker is unfenced, or after this time, s.
_UNFENCED_MAX_S: Final = 10.0


class MetadataSource(abc.ABC):
    """A source: made from the configuration, opened once, run until the server ends."""

    #: True: the listeners accept connections before the partition is loaded. Voters have to reach
    #: each other before anything can be committed.
    listens_before_loaded: ClassVar[bool] = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self._partition: LogPartition | None = None

    @property
    def partition(self) -> LogPartition:
        """The partition, once :meth:`open` has returned."""
        assert self._partition is not None
        return self._partition

    @property
    def quorum(self) -> ObserverNode | ControllerNode | None:
        """The quorum behind the partition; None where it comes from files."""
        return None

    @property
    def controller_node(self) -> ControllerNode | None:
        """The quorum that this node is part of."""
        return None

    @property
    def controllers(self) -> ActingController | ForwardingManager | None:
        """The way to the active controller; None where this node only reads."""
        return None

    @property
    def broker(self) -> BrokerNode | None:
        """The broker of this node; None where it keeps no records of topics."""
        return None

    @property
    def relay(self) -> RaftDriver | None:
        """The observer of another quorum, where it has a listener for other observers."""
        return None

    @property
    def quotas(self) -> ClientQuotas | None:
        """The quotas of clients; None where this node throttles none."""
        return None

    @property
    def image(self) -> Image:
        """The committed state of the cluster; empty where there is no quorum."""
        return Image() if self.quorum is None else self.quorum.image

    @property
    def loader(self) -> MetadataLoader | None:
        """The loader of the state of the cluster; None where nothing needs that."""
        return None if self.quorum is None else self.quorum.loader

    @property
    def authorizer(self) -> Authorizer:
        """Decides by the ACLs of the log; allows everything where there is no quorum."""
        return AllowAll() if self.quorum is None else self.quorum.authorizer

    def default_state_dir(self) -> Path:
        """The directory for committed offsets where ``state.dir`` is not set.

        There is one for each cluster: offsets of one log mean nothing in another.
        """
        if self.config.metadata_log_dir is not None:
            return self.config.metadata_log_dir / "kwire"
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        # The id comes from a file: quoting makes it one name, not a path; with the prefix "." and
        # ".." are names, too.
        return Path(home) / "kwire" / f"cluster-{quote(self.partition.cluster_id, safe='')}"

    @abc.abstractmethod
    def check(self) -> list[str]:
        """Check what can be checked without serving; return warnings. Raises ConfigError."""

    @abc.abstractmethod
    def open(
        self, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
    ) -> None:
        """Open files and make ``partition`` available; ``stack`` closes them. Raises ConfigError.

        ``endpoints``: the advertised address of each listener of this node.
        """

    @abc.abstractmethod
    async def run(self, started: Callable[[], None]) -> None:
        """Keep the partition up to date until cancelled.

        ``started`` is called when the partition is loaded, or was waited for long enough. Raises
        SourceStopped, in a group, when following cannot go on.
        """

    async def loaded(self) -> None:
        """Return when clients can read the partition: an observer may have nothing to serve yet."""
        await trio.lowlevel.checkpoint()

    @abc.abstractmethod
    async def hand_over(self, timeout_s: float) -> None:
        """Give up leadership before the server stops, where this node leads."""


class LogSource(MetadataSource):
    """``log.dirs`` or the sample log: files that Kafka writes, or wrote. Read only.

    The management port has metrics of their cluster, for which alone they are folded.
    """

    _loader: MetadataLoader | None = None

    @property
    def loader(self) -> MetadataLoader | None:
        """None without a management port, and for a single file."""
        return self._loader

    def check(self) -> list[str]:
        """Raise ConfigError if there is no metadata log."""
        self._open_directory()
        return []

    def open(
        self, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
    ) -> None:
        """Find the log; :meth:`run` reads it."""
        self._directory = self._partition = self._open_directory()
        self._reports = reports
        if self.config.management_listener is not None and self._directory.directory is not None:
            self._loader = MetadataLoader(self._directory.directory)

    async def run(self, started: Callable[[], None]) -> None:
        """Read the log, and what is appended to it."""
        async with trio.open_nursery() as nursery:
            await nursery.start(poll_files, self._directory, self._reports)
            if self._loader is not None:
                files = ServedFiles(self._directory, self._loader)
                nursery.start_soon(update_image, self._loader, files, self._reports)
            started()

    async def hand_over(self, timeout_s: float) -> None:
        """Return at once: Kafka writes these files."""

    def _open_directory(self) -> LogDirectory:
        config = self.config
        is_sample = config.source_kind is SourceKind.SAMPLE
        place = SAMPLE if is_sample else str(config.log_dirs[0])
        try:
            return open_log(place, snapshot_prefix=config.snapshot_prefix)
        except SourceError as error:
            raise ConfigError(f"{'source' if is_sample else 'log.dirs'}: {error}") from None


class ObserverSource(MetadataSource):
    """A copy of the log of a quorum that this node observes. Read only, unless this node is a
    broker of that quorum: it then forwards changes to the controllers.
    """

    _quorum: ObserverNode | None = None
    _broker: BrokerNode | None = None
    _controllers: ForwardingManager | None = None
    _heartbeats: ForwardingManager | None = None
    _quotas: ClientQuotas | None = None

    @property
    def quotas(self) -> ClientQuotas | None:
        """Those of the quorum's log, on a broker."""
        return self._quotas

    @property
    def quorum(self) -> ObserverNode | None:
        """The observed quorum; None before :meth:`open`."""
        return self._quorum

    @property
    def controllers(self) -> ForwardingManager | None:
        """The way to the controllers of a broker."""
        return self._controllers

    @property
    def broker(self) -> BrokerNode | None:
        """The broker; None before :meth:`open`, and without the role."""
        return self._broker

    @property
    def relay(self) -> RaftDriver | None:
        """The observer; None before :meth:`open`, and without a listener for others."""
        relays = self._quorum is not None and self._quorum.is_relay
        return self._quorum.driver if self._quorum is not None and relays else None

    def check(self) -> list[str]:
        """Connect to the controllers. Raise ConfigError if none can be used."""
        from gateway.server.sources.observer_node import check_controllers

        return check_controllers(self.config)

    def open(
        self, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
    ) -> None:
        """Open the copy in ``data.dir``."""
        # Imported on first use: it imports TLS, which the other sources do not need.
        from gateway.server.sources.observer_node import open_quorum

        self._partition, self._quorum = open_quorum(self.config, endpoints, reports, stack)
        if self.config.is_broker:
            from gateway.server.sources.own_broker import open_broker

            ways = self._quorum.forwarding(), self._quorum.forwarding()
            self._controllers, self._heartbeats = ways
            self._quotas = client_quotas(self.config, self._quorum.loader)
            self._broker = open_broker(self.config, self._quorum, *ways, endpoints, reports, stack)

    async def run(self, started: Callable[[], None]) -> None:
        """Follow the quorum, and be one of its brokers."""
        assert self._quorum is not None
        if self._broker is None:
            await self._quorum.run(started)
            return
        assert self._controllers is not None and self._heartbeats is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._quorum.run, lambda: None)
            nursery.start_soon(self._controllers.run)
            nursery.start_soon(self._heartbeats.run)
            nursery.start_soon(self._broker.run)
            await self._broker.settled()
            started()

    async def loaded(self) -> None:
        """Wait for the first copy."""
        assert self._quorum is not None
        await self._quorum.loaded()

    async def hand_over(self, timeout_s: float) -> None:
        """Let the controllers move the leaderships of the broker away: an observer has none."""
        if self._broker is not None:
            await self._broker.shut_down(timeout_s)


class ControllerSource(MetadataSource):
    """The log of a quorum that this node is part of, as voter or as observer."""

    listens_before_loaded = True
    _quorum: ControllerNode | None = None
    _broker: BrokerNode | None = None

    @property
    def quotas(self) -> ClientQuotas | None:
        """Those of the log; None before :meth:`open`."""
        return None if self._quorum is None else self._quorum.quotas

    @property
    def quorum(self) -> ControllerNode | None:
        """The quorum; None before :meth:`open`."""
        return self._quorum

    @property
    def controller_node(self) -> ControllerNode | None:
        """The quorum; None before :meth:`open`."""
        return self._quorum

    @property
    def controllers(self) -> ActingController | None:
        """The controller of this node, which forwards while another one is active."""
        return None if self._quorum is None else self._quorum.controller

    @property
    def broker(self) -> BrokerNode | None:
        """The broker; None before :meth:`open`, and without the role."""
        return self._broker

    def default_state_dir(self) -> Path:
        """``kwire/`` in the node's data directory."""
        from gateway.server.sources.local_security import data_dir

        return data_dir(self.config) / "kwire"

    def check(self) -> list[str]:
        """Raise ConfigError if nodes or super users could not connect."""
        from gateway.server.sources.local_security import check_security

        return check_security(self.config)[1]

    def open(
        self, endpoints: Mapping[str, Endpoint], reports: Reports, stack: contextlib.ExitStack
    ) -> None:
        """Open the node's log; format it if the directory is empty."""
        from gateway.server.sources.controller_node import open_controller_node

        self._partition, self._quorum = open_controller_node(self.config, endpoints, reports, stack)
        if self.config.is_broker:
            from gateway.server.sources.own_broker import hindrance, open_broker

            node = self._quorum
            self._broker = open_broker(
                self.config,
                node,
                node.controller,
                node.controller,
                endpoints,
                reports,
                stack,
                hindrance=partial(hindrance, self.config, node),
                audit=None if node.audit is None else node.audit.partition,
            )

    async def run(self, started: Callable[[], None]) -> None:
        """Take part in the quorum, and be its broker."""
        assert self._quorum is not None
        loaded = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._quorum.run, loaded.set)
            if self._broker is not None:
                nursery.start_soon(self._broker.run)
            await loaded.wait()
            if self._broker is not None:
                # Until then a client that creates a topic gets INVALID_REPLICATION_FACTOR.
                with trio.move_on_after(_UNFENCED_MAX_S):
                    await self._broker.settled()
            started()

    async def hand_over(self, timeout_s: float) -> None:
        """Let the other voters elect a leader while this node can still be reached."""
        assert self._quorum is not None
        if self._broker is not None:
            await self._broker.shut_down(timeout_s)
        await self._quorum.driver.shut_down(timeout_s)


_CLASSES: Final[dict[SourceKind, type[MetadataSource]]] = {
    SourceKind.CONTROLLER: ControllerSource,
    SourceKind.OBSERVER: ObserverSource,
    SourceKind.LOG: LogSource,
    SourceKind.SAMPLE: LogSource,
}


def metadata_source(config: Config) -> MetadataSource:
    """The source that ``config`` selects, not opened."""
    return _CLASSES[config.source_kind](config)
