"""A broker whose controllers run in other processes: here a controller alone is beside it in this
one.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from gateway.app.node import serve
from gateway.base.address import Address
from gateway.broker.lifecycle import BrokerState
from gateway.config.config import Config, ConfigError, Listener
from gateway.log.metadata.formatting import Formatting, format_directory, random_uuid
from gateway.ports.services import SourceStopped
from gateway.server.management.running_server import RunningServer
from kwire.message import Message
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.broker.test_broker_node import consume, in_loop, produce
from tests.gateway.server.harness import connect, request
from tests.gateway.server.own_nodes import CLUSTER_ID, QUICK, OwnNode, lone_config, own_node
from tests.waiting import until_async

NODE_ID = 11


class Broker:
    """A running broker. ``stopped``: the reason if it ended by itself."""

    def __init__(self, ready: RunningServer, stop: trio.Event, scope: trio.CancelScope) -> None:
        self.ready, self._stop, self._scope = ready, stop, scope
        self.port = ready.bound_listeners[0].port
        broker = ready.services.source.broker
        assert broker is not None
        self.lifecycle, self.replicas = broker.lifecycle, broker.replicas

    @property
    def image(self) -> Any:
        return self.ready.services.source.image

    async def ask(self, message: Message, version: int) -> Any:
        """Send a request over a new connection and return its response."""
        assert message.API_KEY is not None
        async with await connect(self.port) as client:
            await client.send(request(message.API_KEY, version, message.encode(version)))
            _, answer = await client.answer(message.API_KEY, version)
            return answer

    async def create(self, name: str) -> None:
        """Create a topic through this broker, and wait until it has followed."""
        assert await OwnNode.create(cast(OwnNode, self), name) == ErrorCode.NONE
        await until_async(lambda: name in self.image.topic_ids)

    async def produce(self, *values: bytes) -> Any:
        return await produce(cast(OwnNode, self), *values)

    async def consume(self) -> list[tuple[int, bytes | None]]:
        return await consume(cast(OwnNode, self))

    async def stop(self) -> None:
        self._stop.set()
        await self.ready.ended.wait()

    async def cut_off(self) -> None:
        self._scope.cancel()
        await self.ready.ended.wait()


def broker_config(controller: OwnNode, data_dir: Path, **more: Any) -> Config:
    settings: dict[str, Any] = {
        **QUICK,
        "process_roles": "broker",
        "node_id": NODE_ID,
        "cluster_id": CLUSTER_ID,
        "listeners": (Listener("PLAINTEXT", "127.0.0.1", 0),),
        "controller_quorum_bootstrap_servers": (
            Address("127.0.0.1", controller.ports["CONTROLLER"]),
        ),
        "broker_heartbeat_interval_ms": 50,
        "data_dir": data_dir,
        **more,
    }
    return Config(**settings)


@contextlib.asynccontextmanager
async def broker_of(controller: OwnNode, data_dir: Path, **more: Any) -> AsyncIterator[Broker]:
    """Run a broker; it is stopped at the end. Raises the exception that ends it, without groups."""
    config = broker_config(controller, data_dir, **more)
    stop, scope, raised = trio.Event(), trio.CancelScope(), None

    async def run(*, task_status: trio.TaskStatus[RunningServer]) -> None:
        with scope:
            await serve(config, stop, task_status=task_status)

    try:
        async with trio.open_nursery() as nursery:
            broker = Broker(await nursery.start(run), stop, scope)
            yield broker
            if not broker.ready.ended.is_set():
                await broker.stop()
    except* (ConfigError, SourceStopped) as group:
        raised = _first(group)
    if raised is not None:
        raise raised


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def controller_in(tmp_path: Path, **more: Any) -> Any:
    config = lone_config(tmp_path / "controller", cluster_id=CLUSTER_ID, **more)
    return own_node(config)


@in_loop
async def test_topic_that_is_created_at_a_broker_takes_records(tmp_path: Path) -> None:
    async with controller_in(tmp_path) as controller:
        async with broker_of(controller, tmp_path / "broker") as broker:
            await broker.create("t")
            assert (await broker.produce(b"a")).base_offset == 0
            answer = await broker.ask(MetadataRequest(topics=None), 9)
            assert [one.node_id for one in answer.brokers] == [NODE_ID], "brokers only"
            assert controller.quorum.image.brokers.keys() == {NODE_ID}
        # It stopped under control: its leaderships were given up first.
        await until_async(lambda: controller.quorum.image.brokers[NODE_ID].fenced)


@in_loop
async def test_broker_has_its_records_after_a_kill_and_waits_for_its_old_session(
    tmp_path: Path,
) -> None:
    async with controller_in(tmp_path, broker_session_timeout_ms=400) as controller:
        async with broker_of(controller, tmp_path / "broker") as broker:
            await broker.create("t")
            await broker.produce(b"a", b"b")
            await broker.cut_off()
        async with broker_of(controller, tmp_path / "broker") as broker:
            await broker.produce(b"c")
            assert await broker.consume() == [(0, b"a"), (1, b"b"), (2, b"c")]


@in_loop
async def test_broker_without_its_controller_serves_and_is_heard_again(tmp_path: Path) -> None:
    ports = {}
    async with controller_in(tmp_path) as controller:
        ports = controller.ports
        async with broker_of(controller, tmp_path / "broker") as broker:
            await broker.create("t")
            await broker.produce(b"a")
            await controller.cut_off()
            assert (await broker.produce(b"b")).base_offset == 1
            listeners = tuple(Listener(name, "127.0.0.1", port) for name, port in ports.items())
            again = lone_config(tmp_path / "controller", broker_session_timeout_ms=60_000)
            async with own_node(dataclasses.replace(again, listeners=listeners)) as successor:
                await until_async(lambda: successor.quorum.controller.is_active)
                # The first request finds the connection broken: its outcome is unknown.
                first = await OwnNode.create(cast(OwnNode, broker), "u")
                assert first in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
                await broker.create("v")
                assert broker.lifecycle.state is BrokerState.RUNNING


@in_loop
async def test_second_broker_with_the_id_ends_and_says_why(tmp_path: Path) -> None:
    async with (
        controller_in(tmp_path, broker_session_timeout_ms=60_000) as controller,
        broker_of(controller, tmp_path / "broker"),
    ):
        with pytest.raises(SourceStopped, match="DUPLICATE_BROKER_REGISTRATION"):
            async with broker_of(
                controller, tmp_path / "other", initial_broker_registration_timeout_ms=300
            ):
                raise AssertionError("it is not registered")


@in_loop
async def test_broker_whose_id_another_process_took_ends(tmp_path: Path) -> None:
    """The first one was suspended for a session, say."""
    async with controller_in(tmp_path, broker_session_timeout_ms=300) as controller:
        with pytest.raises(SourceStopped, match="two nodes have the same node"):
            async with (
                broker_of(
                    controller, tmp_path / "broker", broker_heartbeat_interval_ms=60_000
                ) as first,
                broker_of(controller, tmp_path / "other"),
            ):
                own = first.ready.services.source.broker
                assert own is not None
                own._manager._wake.set()
                await first.ready.ended.wait()


@in_loop
async def test_broker_needs_a_directory_of_its_own_cluster_and_node(tmp_path: Path) -> None:
    async with controller_in(tmp_path) as controller:
        with pytest.raises(ConfigError, match="is not formatted"):
            async with broker_of(controller, tmp_path / "none", cluster_id=None):
                pass
        format_directory(tmp_path / "two", Formatting(CLUSTER_ID, 2, random_uuid()))
        with pytest.raises(ConfigError, match="is that of node 2, and node"):
            async with broker_of(controller, tmp_path / "two"):
                pass
        other = str(random_uuid())
        format_directory(tmp_path / "other", Formatting(other, NODE_ID, random_uuid()))
        with pytest.raises(SourceStopped, match="INCONSISTENT_CLUSTER_ID"):
            async with broker_of(controller, tmp_path / "other", cluster_id=None):
                pass
