"""Nodes of an own quorum in this process: whole servers, started, stopped and killed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import trio

from gateway.app.node import serve
from gateway.base.address import Address
from gateway.config.config import Config, Listener
from gateway.ports.services import SourceStopped
from gateway.server.management.running_server import RunningServer
from gateway.server.sources.controller_node import ControllerNode
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.create_topics_response import CreateTopicsResponse
from tests.gateway.server.harness import connect, request
from tests.waiting import until_async
from tools.process import lasting_ports

CLUSTER_ID = "8-uQ2wXRQq2uSyVV1VSGcA"
#: As short as a busy machine can bear.
QUICK = {
    "controller_quorum_election_timeout_ms": 300,
    "controller_quorum_election_backoff_max_ms": 200,
    "controller_quorum_fetch_timeout_ms": 800,
    "controller_quorum_request_timeout_ms": 800,
    "metadata_log_fsync": False,
    "drain_timeout_ms": 2000,
    "log_level": "error",
    "process_roles": "controller",
}


class OwnNode:
    """A running node. ``stopped``: the reason if it ended by itself."""

    def __init__(
        self, ready: RunningServer, stop: trio.Event, scope: trio.CancelScope, stopped: list[str]
    ) -> None:
        assert isinstance(ready.services.quorum, ControllerNode)
        self.ready, self.stopped, self._stop, self._scope = ready, stopped, stop, scope
        self.quorum, self.raft, self.driver = (
            ready.services.quorum,
            ready.services.quorum.raft,
            ready.services.quorum.driver,
        )
        self.log: Any = ready.services.partition
        self.ports = {
            bound_listener.name: bound_listener.port for bound_listener in ready.bound_listeners
        }

    async def stop(self) -> None:
        """Stop gracefully, as SIGTERM does; returns when the node has ended."""
        self._stop.set()
        await self.ready.ended.wait()

    async def cut_off(self) -> None:
        """Kill the node: it sends nothing more."""
        self._scope.cancel()
        await self.ready.ended.wait()

    async def ask(
        self, message: Message, version: int, listener: str = "PLAINTEXT", **options: Any
    ) -> Any:
        """Send a request over a new connection and return its response."""
        assert message.API_KEY is not None
        async with await connect(self.ports[listener]) as client:
            await client.send(request(message.API_KEY, version, message.encode(version), **options))
            _, answer = await client.answer(message.API_KEY, version)
            return answer

    async def create(self, name: str, *, timeout_ms: int = 10_000) -> int:
        """Create a topic through this node; returns the error code."""
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        answer: CreateTopicsResponse = await self.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7
        )
        return answer.topics[0].error_code

    @property
    def topics(self) -> set[str]:
        """Names of the topics in this node's image."""
        return set(self.quorum.image.topic_ids)

    def state(self) -> tuple[int, int, int, int]:
        """Epoch, leader, vote and log end, none of which a malformed request of a peer may
        change.
        """
        raft = self.raft
        return raft.epoch, raft.leader_id, raft.voted_id, self.log.log_start_offset


def lone_config(data_dir: Path, **more: Any) -> Config:
    """Configuration of a quorum of one."""
    listeners = (Listener("PLAINTEXT", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 0))
    return Config(
        listeners=listeners,
        data_dir=data_dir,
        **{**QUICK, "metadata_max_idle_interval_ms": 0, **more},
    )


@contextlib.asynccontextmanager
async def own_node(config: Config) -> AsyncIterator[OwnNode]:
    """Run a node; it is stopped at the end."""
    async with trio.open_nursery() as nursery:
        node = await _start(nursery, config)
        yield node
        await node.stop()


@contextlib.asynccontextmanager
async def lone_node(data_dir: Path, **more: Any) -> AsyncIterator[OwnNode]:
    """Run a quorum of one that leads; it is stopped at the end."""
    async with own_node(lone_config(data_dir, **more)) as node:
        await until_async(lambda: node.quorum.controller.is_active)
        yield node


async def _start(nursery: trio.Nursery, config: Config) -> OwnNode:
    stop, scope = trio.Event(), trio.CancelScope()
    stopped: list[str] = []

    async def run(*, task_status: trio.TaskStatus[RunningServer]) -> None:
        with scope:
            try:
                await serve(config, stop, task_status=task_status)
            except SourceStopped as error:
                stopped.append(str(error))

    return OwnNode(await nursery.start(run), stop, scope, stopped)


class Cluster:
    """Static voters 1 to N."""

    def __init__(
        self, nursery: trio.Nursery, directory: Path, count: int, more: dict[str, Any]
    ) -> None:
        self.nodes: dict[int, OwnNode] = {}
        self._nursery, self._directory, self._more = nursery, directory, more
        self._ports = dict(enumerate(lasting_ports(count), 1))

    def config(self, id: int) -> Config:
        return Config(
            node_id=id,
            listeners=(
                Listener("PLAINTEXT", "127.0.0.1", 0),
                Listener("CONTROLLER", "127.0.0.1", self._ports[id]),
            ),
            controller_quorum_voters={
                voter: Address("127.0.0.1", port) for voter, port in self._ports.items()
            },
            cluster_id=CLUSTER_ID,
            data_dir=self._directory / f"node{id}",
            **{**QUICK, **self._more},
        )

    async def start(self, *ids: int) -> None:
        """Start nodes at the same time; returns when they serve."""
        async with trio.open_nursery() as starting:
            for id in ids or self._ports:
                starting.start_soon(self._start, id)

    async def _start(self, id: int) -> None:
        self.nodes[id] = await _start(self._nursery, self.config(id))

    async def leader(self, *among: int) -> OwnNode:
        """The active controller among these nodes, once the others follow it."""
        nodes = [self.nodes[id] for id in among or self.nodes]

        def led() -> bool:
            leaders = {node.raft.leader_id for node in nodes}
            active = [node for node in nodes if node.quorum.controller.is_active]
            return len(leaders) == len(active) == 1 and leaders == {active[0].raft.node_id}

        await until_async(led)
        return next(node for node in nodes if node.quorum.controller.is_active)

    async def all(self, condition: Callable[[OwnNode], bool]) -> None:
        """Wait until the condition holds on every running node."""
        await until_async(lambda: all(map(condition, self.nodes.values())))


@contextlib.asynccontextmanager
async def cluster(directory: Path, count: int = 3, **more: Any) -> AsyncIterator[Cluster]:
    """Run N nodes; those that still run at the end are killed."""
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, directory, count, more)
        yield made
        nursery.cancel_scope.cancel()
