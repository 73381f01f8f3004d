"""A node without ``process.roles``: the broker of a quorum of one, and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.handlers.apis.api_versions import OWN_FEATURES
from gateway.ports.services import Endpoint
from gateway.server.broker.broker_node import broker_registration
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.server.broker.test_broker_node import consume, in_loop, produce, unfenced
from tests.gateway.server.own_nodes import OwnNode, lone_node

_DIRECTORY = Uuid(bytes(range(16)))


def default_node(data_dir: Path, **more: Any) -> Any:
    return lone_node(data_dir, process_roles="auto", **more)


async def register_another_broker(node: OwnNode) -> None:
    """Register broker 7, as one of Kafka does."""
    registration = broker_registration(
        7,
        node.log.cluster_id,
        _DIRECTORY,
        [_DIRECTORY],
        [Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")],
        {one.name: (one.min_version, one.max_version) for one in OWN_FEATURES},
    )
    assert (await node.ask(registration, 4, "CONTROLLER")).error_code == ErrorCode.NONE


@in_loop
async def test_topic_takes_records_as_soon_as_the_default_node_is_ready(tmp_path: Path) -> None:
    async with default_node(tmp_path) as node:
        assert await node.create("t") == ErrorCode.NONE
        assert (await produce(node, b"a")).base_offset == 0
        assert await consume(node) == [(0, b"a")]


@in_loop
async def test_topics_of_a_controller_take_records_once_it_is_a_broker(tmp_path: Path) -> None:
    async with lone_node(tmp_path) as node:
        assert await node.create("t") == ErrorCode.NONE
        await node.cut_off()
    for count in (1, 2):
        async with default_node(tmp_path) as node:
            await unfenced(node)
            assert (await produce(node, b"a")).base_offset == count - 1
            await node.cut_off()


@in_loop
async def test_controller_of_other_brokers_becomes_none_by_default(tmp_path: Path) -> None:
    async with lone_node(tmp_path) as node:
        await register_another_broker(node)
    async with default_node(tmp_path) as node:
        broker = node.ready.services.source.broker
        assert broker is not None
        await broker.settled()
        assert node.quorum.image.brokers.keys() == {7}
    async with lone_node(tmp_path, process_roles="broker,controller") as node:
        await unfenced(node)
        assert node.quorum.image.brokers.keys() == {1, 7}
    async with default_node(tmp_path) as node:  # it was one before
        await unfenced(node)
