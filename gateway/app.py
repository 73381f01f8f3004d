"""Builds every room and connects them. The only file that knows them all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import trio

from gateway.config import Config, ConfigError
from gateway.handlers.table import handlers
from gateway.log.offset_store import StoreLockedError
from gateway.ports import TOPIC_NAME, Authorizer, Endpoint, Groups
from gateway.security.authorizer import AllowAll
from gateway.security.protocols import check_security
from gateway.server.connection import Hub
from gateway.server.dispatch import Dispatcher
from gateway.server.follow import follow
from gateway.server.group_driver import GroupDriver, GroupsUnreadableError, settings_of
from gateway.server.listener import Door, open_doors
from gateway.server.logs import Reports
from gateway.server.purgatory import Purgatory
from gateway.server.server import run_server
from gateway.sources import LogDirectory, SourceError, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The log that is served when none is given: see the README beside it.
SAMPLE: Final = Path(__file__).parent / "sample"


@dataclass(frozen=True, slots=True)
class Rooms:
    """``gateway.ports.Gateway``: what handlers reach."""

    config: Config
    partition: LogDirectory
    groups: Groups
    authorizer: Authorizer
    waiters: Purgatory
    endpoints: Mapping[str, Endpoint]

    @property
    def node_id(self) -> int:
        """``node.id``."""
        return self.config.node_id

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of this node for clients of ``listener``."""
        return self.endpoints[listener]


@dataclass(frozen=True, slots=True)
class Ready:
    """The server accepts connections. ``ended`` is set when it has stopped."""

    rooms: Rooms
    doors: Sequence[Door]
    reports: Reports
    ended: trio.Event = field(default_factory=trio.Event)

    def facts(self) -> dict[str, Any]:
        """What the ready line says."""
        partition = self.rooms.partition
        return {
            "event": "ready",
            "listeners": {door.name: str(door) for door in self.doors},
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
    """Everything that can be found wrong without serving. Raises ConfigError."""
    check_security(config)
    _open(config)


async def serve(config: Config, stop: trio.Event, *, task_status: trio.TaskStatus[Ready] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve until ``stop`` is set, then drain. Started (with Ready) when connections are accepted. Raises ConfigError."""
    check_security(config)
    partition = _open(config)
    doors = open_doors(config)
    reports, purgatory = Reports(tracing=config.log_level == "debug"), Purgatory()
    groups = GroupDriver(_state_dir(config, partition), settings_of(config), node_id=config.node_id)
    rooms = Rooms(config, partition, groups, AllowAll(), purgatory, _endpoints(config, doors))
    hub = Hub(config, Dispatcher(handlers(), rooms, element_budget=config.request_max_elements), purgatory, reports)
    ready = Ready(rooms, doors, reports)
    partition.on_advance(purgatory.advanced)
    try:
        async with trio.open_nursery() as nursery:
            coordinating = trio.CancelScope()
            await nursery.start(follow, partition, reports)
            await _start_groups(nursery, groups, coordinating)
            await nursery.start(_run_server, hub, doors, stop, coordinating.cancel, nursery.cancel_scope)
            task_status.started(ready)
    finally:
        for door in doors:
            door.sock.close()
        ready.ended.set()


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


def _open(config: Config) -> LogDirectory:
    sample = config.kind_of_source == "sample"
    path = SAMPLE if sample else config.log_dirs
    try:
        return open_source("log", log_dir=str(path), snapshot_prefix=config.snapshot_prefix)
    except SourceError as error:
        raise ConfigError(f"{'source' if sample else 'log.dirs'}: {error}") from None


def _state_dir(config: Config, partition: LogDirectory) -> Path:
    """``state.dir``, else a directory of the user's for this cluster: offsets of one log mean nothing in another."""
    if config.state_dir is not None:
        return config.state_dir
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
