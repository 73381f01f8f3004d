"""A topic in which a coordinator keeps its state: created when it is asked for, its partitions are
led, written, and loaded again after the process was killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from gateway.broker.internal_topic import InternalTopicSettings
from gateway.ports.services import THIS_NODE
from gateway.server.broker.coordinator_partition import CoordinatorPartition, PartitionUnavailable
from gateway.server.broker.internal_topic import InternalTopic
from gateway.server.quorum.own_requests import OwnRequests
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol import ErrorCode
from tests.gateway.server.broker.test_broker_node import broker, in_loop, unfenced
from tests.gateway.server.own_nodes import OwnNode
from tests.waiting import PATIENCE_S, until_async

SETTINGS = InternalTopicSettings("__state", 2, 1, {"cleanup.policy": "compact"})


class Followed:
    """The partitions of a topic that are led now, and how often one was given up."""

    def __init__(self, topic: InternalTopic) -> None:
        self.topic = topic
        self.led: dict[int, CoordinatorPartition] = {}
        self.resigned = 0
        topic.follow(self._elected, self._resigned)

    def _elected(self, partition: CoordinatorPartition) -> None:
        self.led[partition.index] = partition

    def _resigned(self, partition: CoordinatorPartition) -> None:
        assert self.led.pop(partition.index) is partition
        self.resigned += 1


@asynccontextmanager
async def followed(node: OwnNode) -> AsyncIterator[Followed]:
    await unfenced(node)
    own = node.ready.services.source.broker
    assert own is not None
    quorum = node.quorum
    requests = OwnRequests(quorum.controller, THIS_NODE, PATIENCE_S)
    topic = InternalTopic(SETTINGS, quorum.raft.node_id, own.replicas, requests, node.ready.reports)
    # The loader takes no further publishers by now.
    own.replicas.subscribe(lambda: topic.on_update(None, quorum.image))
    topic.on_update(None, quorum.image)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(topic.run)
        yield Followed(topic)
        nursery.cancel_scope.cancel()


async def append(partition: CoordinatorPartition, *records: Any, **more: Any) -> Any:
    outcomes: list[Any] = []
    done = trio.Event()

    def take(outcome: Any) -> None:
        outcomes.append(outcome)
        done.set()

    partition.append([(key, value, ()) for key, value in records], 1000, take, **more)
    with trio.fail_after(PATIENCE_S):
        await done.wait()
    (outcome,) = outcomes
    return outcome


@in_loop
async def test_topic_is_created_when_a_client_asks_for_a_coordinator(tmp_path: Path) -> None:
    async with broker(tmp_path) as node, followed(node) as state:
        topic = state.topic
        assert topic.partition_for("k") is None
        assert topic.coordinator_of("k") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until_async(lambda: len(state.led) == 2)
        assert topic.coordinator_of("k") == node.quorum.raft.node_id
        assert topic.fault_of("k") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert node.quorum.image.configs[2, "__state"] == {"cleanup.policy": "compact"}


@in_loop
async def test_appended_records_are_loaded_after_the_process_was_killed(tmp_path: Path) -> None:
    async with broker(tmp_path) as node, followed(node) as state:
        state.topic.create()
        await until_async(lambda: len(state.led) == 2)
        partition = state.led[1]
        assert await append(partition, (b"a", b"1"), (b"b", b"1")) == 2
        assert await append(partition, (b"a", b"2")) == 3
        assert await append(partition, (b"b", None), producer=(9, 0)) == 4
        # More than one batch: the outcome is that of the last one.
        large = bytes(400_000)
        assert await append(partition, *((bytes([at]), large) for at in range(5))) == 9
        await node.cut_off()
    async with broker(tmp_path) as node, followed(node) as state:
        await until_async(lambda: len(state.led) == 2)
        replay = await state.led[1].load()
        kept = {key: len(record.value or b"") for key, record in replay.records.items()}
        assert kept == {b"a": 1, b"b": 1, **{bytes([at]): 400_000 for at in range(5)}}
        assert replay.records[b"a"].value == b"2"
        assert list(replay.pending) == [9]
        assert not (await state.led[0].load()).records


@in_loop
async def test_partition_that_is_not_led_any_more_refuses_its_coordinator(tmp_path: Path) -> None:
    async with broker(tmp_path) as node, followed(node) as state:
        state.topic.create()
        await until_async(lambda: len(state.led) == 2)
        old = state.led[0]
        deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="__state")], timeout_ms=10_000)
        assert (await node.ask(deleted, 6)).responses[0].error_code == 0
        await until_async(lambda: state.resigned == 2)
        assert await append(old, (b"a", b"1")) is ErrorCode.NOT_COORDINATOR
        try:
            await old.load()
        except PartitionUnavailable:
            pass
        else:
            raise AssertionError("a partition that is gone was loaded")
        # The next client has it made again, empty.
        assert state.topic.coordinator_of("k") is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await until_async(lambda: len(state.led) == 2)
        assert await append(state.led[0], (b"a", b"1")) == 1
