"""DeleteRecords at a broker: each partition has an answer of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.handlers.apis import delete_records
from gateway.handlers.refusals import REFUSED
from gateway.ports.pending_response import PendingResponse, WorkType
from gateway.ports.work import completed
from kwire.messages.delete_records_request import DeleteRecordsRequest
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, build, over_the_wire


@dataclass
class MemoryReplicas:
    """``gateway.ports.replicas.Replicas`` whose partitions are this object itself."""

    waiting: list[tuple[int, Callable[[Any], None]]] = field(default_factory=list)

    def find_writable(self, topic_id: Uuid, index: int) -> Any:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if index == 1 else self

    def delete_records(self, before: int, on_done: Callable[[Any], None]) -> None:
        self.waiting.append((before, on_done))

    def answer(self) -> None:
        """Each partition has deleted what it should, or refuses an offset of 100."""
        for before, on_done in self.waiting:
            on_done(ErrorCode.OFFSET_OUT_OF_RANGE if before == 100 else before)


class BrokerWorld(OwnWorld):
    """A node with topics of four partitions."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("t", "__consumer_offsets"):
            self.create(name, [NODE], [NODE], [NODE], [NODE])
        self.replicas = MemoryReplicas()

    def delete(self, version: int, *topics: tuple[str, dict[int, int]]) -> Any:
        wanted = {
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": index, "offset": offset}
                        for index, offset in offsets.items()
                    ],
                }
                for name, offsets in topics
            ],
            "timeout_ms": 1000,
        }
        data = build(DeleteRecordsRequest, wanted).encode(version)
        request = DeleteRecordsRequest.decode(data, version)
        answer = delete_records.handle(request, self.context(version))
        return completed(answer) if isinstance(answer, WorkType) else answer


def parts(answer: Any, version: int = 2) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, part.partition_index, part.low_watermark, part.error_code)
        for topic in over_the_wire(answer, version).topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", delete_records.VERSIONS)
def test_answer_comes_when_every_partition_has_deleted(version: int) -> None:
    world = BrokerWorld()
    pending = world.delete(version, ("t", {0: 5, 1: 5, 2: 100, 9: 5}))
    assert isinstance(pending, PendingResponse) and not pending.done
    world.replicas.answer()
    assert pending.done
    assert parts(pending.take(), version) == [
        ("t", 0, 5, 0),
        ("t", 1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("t", 2, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_time_that_is_over_is_told_for_the_partitions_without_an_answer() -> None:
    world = BrokerWorld()
    pending = world.delete(2, ("t", {0: 5}))
    pending.try_expire()
    assert parts(pending.take()) == [("t", 0, -1, ErrorCode.REQUEST_TIMED_OUT)]
    world.replicas.answer()


def test_topics_of_the_server_and_unknown_ones_are_refused() -> None:
    world = BrokerWorld()
    names = ("none", "__cluster_metadata", "__consumer_offsets")
    answer = world.delete(2, *((name, {0: 5}) for name in names))
    assert [(name, error) for name, _, _, error in parts(answer)] == [
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__cluster_metadata", REFUSED),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert world.replicas.waiting == []


def test_topic_that_may_not_be_deleted_from_is_refused_before_it_is_looked_for() -> None:
    world = BrokerWorld()
    world.authorizer.forbidden |= {("DELETE", "TOPIC", name) for name in ("t", "none")}
    answer = world.delete(2, ("t", {0: 5}), ("none", {0: 5}))
    assert {error for *_, error in parts(answer)} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
