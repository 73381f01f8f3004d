"""The handlers of a worker: which requests it forwards, and which wait until it has caught up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.handlers.context import Peer
from gateway.handlers.table import handlers
from gateway.handlers.worker_table import FORWARDED, worker_handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.streamed import WHOLE_MAX
from gateway.ports.view_topics import VIEW_TOPICS, view_topic
from gateway.ports.work import completed
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.world import World


class Node:
    """Keeps those that wait for the worker to catch up."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def forward(self, frame: bytes, peer: Peer) -> PendingResponse:
        raise AssertionError("the dispatcher forwards")

    def catch_up(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)


def test_worker_serves_the_same_apis_and_versions() -> None:
    of_worker = worker_handlers(Node())
    assert list(of_worker) == list(handlers())
    for key, handler in handlers().items():
        assert of_worker[key].versions == handler.versions
        assert of_worker[key].is_forwarded == (key in FORWARDED)
    assert not any(handler.is_forwarded for handler in handlers().values())


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_QUORUM])
def test_requests_for_the_node_are_forwarded(key: ApiKey) -> None:
    assert key in FORWARDED


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.METADATA, ApiKey.FIND_COORDINATOR])
def test_reads_are_not_forwarded(key: ApiKey) -> None:
    assert key not in FORWARDED


def delivered(answer: Any) -> list[Any]:
    found: list[Any] = []
    assert isinstance(answer, PendingResponse)
    answer.attach(found.append)
    return found


def test_latest_offset_is_told_after_catching_up() -> None:
    node, world = Node(), World()
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    handle = worker_handlers(node)[ApiKey.LIST_OFFSETS].handle
    found = delivered(handle(ListOffsetsRequest(topics=[topic]), world.context(7)))
    assert not found
    world.partition.append(3)
    node.waiting.pop()()
    assert found[0].topics[0].partitions[0].offset == world.partition.high_watermark


def fetch(
    world: World, node: Node, offset: int, topic_id: Uuid = METADATA_TOPIC_ID, **more: Any
) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    handle = worker_handlers(node)[ApiKey.FETCH].handle
    return handle(
        FetchRequest(topics=[topic], max_wait_ms=60_000, min_bytes=1, **more), world.context(13)
    )


def test_fetch_within_the_log_asks_nothing() -> None:
    node, world = Node(), World()
    assert isinstance(fetch(world, node, 0), FetchResponse)
    assert isinstance(fetch(world, node, world.partition.high_watermark), PendingResponse)
    assert not node.waiting


def test_fetch_beyond_the_end_is_answered_after_catching_up() -> None:
    node, world = Node(), World()
    seen_elsewhere = world.partition.high_watermark + 3
    found = delivered(fetch(world, node, seen_elsewhere))
    assert not found
    world.partition.append(3)
    node.waiting.pop()()
    answer = found[0].responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, seen_elsewhere)


def test_fetch_of_many_partitions_beyond_an_end_is_answered_in_slices_after_catching_up() -> None:
    node, world = Node(), World()
    offset, count = world.partition.high_watermark + 1, WHOLE_MAX + 1
    partitions = [FetchPartition(partition=index) for index in range(count)]
    partitions[0].fetch_offset = offset
    topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=partitions)
    handle: Any = worker_handlers(node)[ApiKey.FETCH].handle
    request = FetchRequest(topics=[topic], max_wait_ms=60_000, min_bytes=1)
    found = delivered(completed(handle(request, world.context(13))))
    world.partition.append(3)
    node.waiting.pop()()
    response: Any = completed(found[0])
    (answer,) = response.responses
    assert answer.partitions[0].error_code == ErrorCode.NONE
    assert {one.error_code for one in answer.partitions[1:]} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def test_position_in_a_view_beyond_the_end_is_answered_after_catching_up() -> None:
    node, world = Node(), World()
    partition_of = dict.fromkeys(VIEW_TOPICS, world.partition).__getitem__
    world.views = SimpleNamespace(available=True, listed=False, partition=partition_of)
    seen_elsewhere = world.partition.high_watermark + 3
    found = delivered(fetch(world, node, seen_elsewhere, VIEW_TOPICS[view_topic("acls")]))
    assert not found
    world.partition.append(3)
    node.waiting.pop()()
    answer = found[0].responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, seen_elsewhere)


def test_view_that_is_disabled_has_no_end_to_catch_up_with() -> None:
    node, world = Node(), World()
    answer = fetch(world, node, 1000, VIEW_TOPICS[view_topic("acls")])
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert not node.waiting


def test_fetch_beyond_every_end_is_out_of_range() -> None:
    node, world = Node(), World()
    found = delivered(fetch(world, node, 1000))
    node.waiting.pop()()
    assert found[0].responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_client_that_left_while_waiting_gets_nothing() -> None:
    node, world = Node(), World()
    answer = fetch(world, node, 1000)
    answer.cancel()
    node.waiting.pop()()
    assert not answer.done


def test_incremental_fetch_of_an_unknown_session_is_refused() -> None:
    node, world = Node(), World()
    answer = fetch(world, node, 0, session_epoch=5, session_id=7)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
