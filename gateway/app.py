"""Builds every room and connects them. The only file that knows them all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import trio

from gateway.config import Config, ConfigError
from gateway.handlers.table import controller_handlers, handlers
from gateway.log.offset_store import StoreLockedError
from gateway.ports import TOPIC_NAME, Authorizer, Endpoint, Groups, SourceStopped
from gateway.security.authorizer import AllowAll
from gateway.security.delegation_tokens import token_secret
from gateway.security.listeners import read_listeners
from gateway.server.dispatch import Dispatcher
from gateway.server.follow import follow
from gateway.server.group_driver import GroupDriver, GroupsUnreadableError, settings_of
from gateway.server.hub import Hub
from gateway.server.listener import Door, open_doors
from gateway.server.logs import Reports
from gateway.server.purgatory import Purgatory
from gateway.server.server import run_server
from gateway.sources import LogDirectory, SourceError, open_log
from gateway.sources.chain_partition import ChainPartition
from gateway.version import installed_version
from kwire.cluster.image import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.log.problem import Problem
    from gateway.server.acting_controller import ActingController
    from gateway.server.guard import Guard
    from gateway.server.keep_audit import AuditKeeper
    from gateway.server.observed_quorum import ObservedQuorum
    from gateway.server.own_quorum import OwnQuorum
    from gateway.server.raft_driver import RaftDriver

#: The log that is served when none is given: see the README beside it.
SAMPLE: Final = Path(__file__).parent / "sample"


@dataclass(frozen=True, slots=True)
class Rooms:
    """``gateway.ports.Gateway``: what handlers reach."""

    config: Config
    partition: ChainPartition
    quorum: ObservedQuorum | OwnQuorum | None
    groups: Groups
    authorizer: Authorizer
    waiters: Purgatory
    endpoints: Mapping[str, Endpoint]

    @property
    def node_id(self) -> int:
        """``node.id``."""
        return self.config.node_id

    @property
    def own(self) -> OwnQuorum | None:
        """The quorum, if this node is part of it."""
        return self.quorum if self.config.kind_of_source == "own" else None  # type: ignore[return-value]

    @property
    def raft(self) -> RaftDriver | None:
        """This node's part in its own quorum."""
        return self.own.driver if self.own is not None else None

    @property
    def controller(self) -> ActingController | None:
        """The active controller, wherever it is."""
        return self.own.controller if self.own is not None else None

    @property
    def audit(self) -> AuditKeeper | None:
        """Who changed what, where that is kept."""
        return self.own.audit if self.own is not None else None

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files of this node now, the metadata log's first."""
        kept = self.audit.partition.problems if self.audit is not None else ()
        return (*self.partition.problems, *kept)

    def is_for_controllers(self, listener: str) -> bool:
        """Is that one of ``controller.listener.names``?"""
        return self.own is not None and listener in self.config.controller_listener_names

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of this node for clients of ``listener``."""
        return self.endpoints[listener]


@dataclass(frozen=True, slots=True)
class Ready:
    """The server accepts connections. ``ended`` is set when it has stopped."""

    rooms: Rooms
    doors: Sequence[Door]
    management: Door | None
    reports: Reports
    ended: trio.Event = field(default_factory=trio.Event)

    def listeners(self) -> dict[str, str]:
        """Where each really is, port 0 picked."""
        return {door.name: str(door) for door in self.doors}

    def facts(self) -> dict[str, Any]:
        """What the ready line says."""
        partition = self.rooms.partition
        return {
            "event": "ready",
            "listeners": self.listeners(),
            **({"management": str(self.management)} if self.management is not None else {}),
            "node_id": self.rooms.node_id,
            "cluster_id": partition.cluster_id,
            "topic": TOPIC_NAME,
            "source": self.rooms.config.kind_of_source,
            "state": partition.state.value,
            "log_start_offset": partition.log_start_offset,
            "high_watermark": partition.high_watermark,
            "pid": os.getpid(),
        }


def check(config: Config) -> None:
    """Everything that can be found wrong without serving, and without asking anybody. Raises ConfigError."""
    _guards(config, Image)
    if config.management_listener is not None:
        from gateway.server.management import management_address

        management_address(config.management_listener)
    if config.kind_of_source == "own":
        from gateway.server.own_quorum import security_among_nodes

        security_among_nodes(config)
    elif config.kind_of_source == "quorum":
        from gateway.server.observed_quorum import upstream_security

        upstream_security(config)
    else:
        _open_directory(config)


async def serve(config: Config, stop: trio.Event, *, task_status: trio.TaskStatus[Ready] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until ``stop`` is set, then hand over what this node leads, and drain. Started (with Ready) when ready.

    Raises ConfigError before that; SourceStopped, once drained, when the quorum cannot be followed any further.
    """
    quorum: ObservedQuorum | OwnQuorum | None = None
    guards = _guards(config, lambda: quorum.image if quorum is not None else Image())
    with contextlib.ExitStack() as held:
        reports, purgatory = Reports(tracing=config.log_level == "debug"), Purgatory()
        doors = open_doors(config)
        for door in doors:
            held.callback(door.sock.close)
        endpoints = _endpoints(config, doors)
        source, quorum = _open(config, endpoints, reports, held)
        management = _open_management(config, held)
        groups = GroupDriver(_state_dir(config, source), settings_of(config), node_id=config.node_id)
        authorizer = AllowAll() if quorum is None else quorum.authorizer
        rooms = Rooms(config, source, quorum, groups, authorizer, purgatory, endpoints)
        hub = Hub(config, _dispatcher(config, rooms), purgatory, reports, guards=guards)
        ready = Ready(rooms, doors, management, reports)
        held.callback(ready.ended.set)
        source.on_advance(purgatory.advanced)
        if rooms.audit is not None:
            rooms.audit.partition.on_advance(purgatory.advanced)
        draining = trio.Event()
        fate = Fate(draining, reports)
        async with trio.open_nursery() as nursery:
            coordinating = trio.CancelScope()
            if management is not None:
                await _start_management(nursery, management, rooms, hub, groups, ready, stop)
            nursery.start_soon(_hand_over, rooms, stop, draining)
            run = (hub, doors, draining, coordinating.cancel, nursery.cancel_scope)
            if rooms.own is not None:  # voters have to hear each other before anything can be committed
                await _start_groups(nursery, groups, coordinating)
                await nursery.start(_run_server, *run)
                await nursery.start(fate.follow, source, quorum)
            else:
                await nursery.start(fate.follow, source, quorum)
                await _start_groups(nursery, groups, coordinating)
                await nursery.start(_run_server, *run)
            task_status.started(ready)
        if fate.stopped is not None:
            raise fate.stopped


async def _hand_over(rooms: Rooms, stop: trio.Event, draining: trio.Event) -> None:
    """On ``stop``: a leader lets the others elect the next one while it can still be heard; then the server drains."""
    await stop.wait()
    if rooms.own is not None:
        await rooms.own.driver.shut_down(rooms.config.drain_timeout_ms / 1000)
    draining.set()


def _dispatcher(config: Config, rooms: Rooms) -> Dispatcher:
    apis = {name: controller_handlers() for name in rooms.endpoints if rooms.is_for_controllers(name)}
    return Dispatcher(handlers(), rooms, element_budget=config.request_max_elements, by_listener=apis)


class Fate:
    """Follows the source, and ends the server when that cannot go on: what was asked before is still answered."""

    def __init__(self, stop: trio.Event, reports: Reports) -> None:
        self.stopped: SourceStopped | None = None
        self._stop = stop
        self._reports = reports

    async def follow(
        self, source: ChainPartition, quorum: ObservedQuorum | OwnQuorum | None, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Started when the source is loaded, or has been waited for. Raises SourceStopped when it ends before that."""
        if quorum is None:
            assert isinstance(source, LogDirectory)
            await follow(source, self._reports, task_status=task_status)
            return
        ready, reason = False, None

        def started() -> None:
            nonlocal ready
            ready = True
            task_status.started()

        try:
            await quorum.run(started)
        except* SourceStopped as group:
            reason = _first(group)
        if reason is None:
            return
        if not ready:  # not raised in there: before Python 3.11.4 it would come out in a group
            raise reason
        self._reports.report("the quorum is no longer followed", "error", error=str(reason))
        self.stopped = reason
        self._stop.set()


def _first(group: BaseExceptionGroup[SourceStopped]) -> SourceStopped:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, SourceStopped)
    return error


async def _run_server(
    hub: Hub,
    doors: Sequence[Door],
    stop: trio.Event,
    last_call: Callable[[], None],
    everything: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[Any],
) -> None:
    """The server decides when it is over for all the others."""
    await run_server(hub, doors, stop, last_call, task_status=task_status)
    everything.cancel()


async def _start_groups(nursery: trio.Nursery, groups: GroupDriver, scope: trio.CancelScope) -> None:
    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:  # ends before the others: its last answers still go out to clients
            await groups.run(task_status=task_status)

    try:
        await nursery.start(run)
    except (StoreLockedError, GroupsUnreadableError) as error:
        raise ConfigError(f"state.dir: {error}") from None
    except OSError as error:
        raise ConfigError(f"state.dir: cannot use {error.filename}: {error.strerror}") from None


def _guards(config: Config, image: Callable[[], Image]) -> dict[str, Guard]:
    """What stands before the listeners; ``image`` knows users. Raises ConfigError: none is served with less than it asks for."""
    listeners = read_listeners(config)
    if all(one.protocol == "PLAINTEXT" for one in listeners.values()):
        return {}
    from gateway.server.guard import guards_of  # TLS: only those who want it pay for it

    try:
        return guards_of(listeners, image, token_secret(config.security))
    except OSError as error:  # ssl.SSLError among them
        raise ConfigError(f"listeners: their keys cannot be used: {error}") from None


def _open_management(config: Config, held: contextlib.ExitStack) -> Door | None:
    if config.management_listener is None:
        return None
    from gateway.server.management import open_management  # HTTP and metrics: only those who want them pay for it

    door = open_management(config.management_listener)
    held.callback(door.sock.close)
    return door


async def _start_management(
    nursery: trio.Nursery, door: Door, rooms: Rooms, hub: Hub, groups: GroupDriver, ready: Ready, stop: trio.Event
) -> None:
    from gateway.server.facts import Facts
    from gateway.server.management import serve_management

    facts = Facts(
        version=installed_version(),
        node_id=rooms.node_id,
        source=rooms.config.kind_of_source,
        listeners=ready.listeners(),
        partition=rooms.partition,
        hub=hub,
        groups=groups.count_by_state,
        problems=rooms.problems,
        upstream=rooms.quorum.observation if rooms.quorum is not None else None,
        stopping=stop.is_set,
        own_snapshot=lambda: rooms.quorum.own_snapshot if rooms.quorum is not None else None,
        metadata_version=lambda: rooms.quorum.image.metadata_version or None if rooms.quorum is not None else None,
        forwarding=rooms.controller.forwarding if rooms.controller is not None else None,
        controlling=rooms.controller.facts if rooms.controller is not None else None,
    )
    await nursery.start(serve_management, door.sock, facts)


def _open(
    config: Config, endpoints: Mapping[str, Endpoint], reports: Reports, held: contextlib.ExitStack
) -> tuple[ChainPartition, ObservedQuorum | OwnQuorum | None]:
    """The source, and the quorum behind it if there is one."""
    if config.kind_of_source == "own":
        from gateway.server.own_quorum import open_own_quorum

        return open_own_quorum(config, endpoints, reports, held)
    if config.kind_of_source != "quorum":
        return _open_directory(config), None
    from gateway.server.observed_quorum import open_quorum  # TLS and all: only those who observe one pay for it

    return open_quorum(config, reports, held)


def _open_directory(config: Config) -> LogDirectory:
    sample = config.kind_of_source == "sample"
    try:
        return open_log(SAMPLE if sample else str(config.log_dirs), snapshot_prefix=config.snapshot_prefix)
    except SourceError as error:
        raise ConfigError(f"{'source' if sample else 'log.dirs'}: {error}") from None


def _state_dir(config: Config, partition: ChainPartition) -> Path:
    """``state.dir``, else a directory of the user's for this cluster: offsets of one log mean nothing in another."""
    if config.state_dir is not None:
        return config.state_dir
    if config.kind_of_source == "own":
        from gateway.server.own_quorum import data_dir

        return data_dir(config) / "kwire"
    if config.data_dir is not None:
        return config.data_dir / "kwire"
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    # The id comes from a file: quoted, it is one name and no path; the prefix takes "." and ".." their meaning.
    return Path(home) / "kwire" / f"cluster-{quote(partition.cluster_id, safe='')}"


def _endpoints(config: Config, doors: Sequence[Door]) -> dict[str, Endpoint]:
    """What clients of each listener are told: the advertised address, where port 0 is the port that was picked."""
    told = {listener.name: listener for listener in (*config.listeners, *config.advertised_listeners)}
    return {
        door.name: Endpoint(
            door.name,
            told[door.name].host,
            told[door.name].port or door.port,
            config.security_protocol(door.name),
        )
        for door in doors
    }
