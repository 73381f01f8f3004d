"""WriteTxnMarkers reaches the partitions, and says what became of each marker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.broker.produce.refusal import BatchRefused
from gateway.handlers.apis import write_txn_markers
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, build, over_the_wire


@dataclass
class MarkedReplicas:
    """``gateway.ports.replicas.Replicas`` whose partitions note markers; there is no partition 9,
    and partition 8 has a slow disk.
    """

    markers: list[tuple[Any, ...]] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def find_writable(self, topic_id: Uuid, index: int) -> Any:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if index == 9 else Marked(self, index)


@dataclass
class Marked:
    replicas: MarkedReplicas
    index: int

    def append_marker(self, *args: Any) -> None:
        *marker, on_done = args
        self.replicas.markers.append((self.index, *marker))
        outcome: Any = Appended(5, -1, 0)
        if self.index == 7:
            outcome = BatchRefused(ErrorCode.TRANSACTION_COORDINATOR_FENCED, "")
        if self.index == 8:
            self.replicas.waiting.append(lambda: on_done(outcome))
        else:
            on_done(outcome)


class MarkedWorld(OwnWorld):
    """A node with the topic ``t``."""

    def __init__(self) -> None:
        super().__init__()
        self.create("t", [NODE])
        self.replicas = MarkedReplicas()

    def answer(self, version: int, *indexes: int, name: str = "t") -> Any:
        handler = handlers()[write_txn_markers.API_KEY]
        form = handler.request_type(version)
        marker = {
            "producer_id": 4,
            "producer_epoch": 2,
            "transaction_result": True,
            "coordinator_epoch": 6,
            "topics": [{"name": name, "partition_indexes": list(indexes)}],
        }
        request = form.decode(build(form, {"markers": [marker]}).encode(version), version)
        return handler.handle(request, self.context(version))


def errors(answer: Any, version: int = 2) -> list[int]:
    (marker,) = over_the_wire(answer, version).markers
    assert marker.producer_id == 4
    return [one.error_code for topic in marker.topics for one in topic.partitions]


@pytest.mark.parametrize("version", write_txn_markers.VERSIONS)
def test_each_partition_gets_the_marker_and_has_an_error_of_its_own(version: int) -> None:
    world = MarkedWorld()
    fenced, unknown = ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(world.answer(version, 0, 7, 9), version) == [0, fenced, unknown]
    assert world.replicas.markers == [(index, 4, 2, True, 6, 0) for index in (0, 7)]


def test_the_group_coordinator_hears_of_markers_in_its_topic() -> None:
    world = MarkedWorld()
    world.create("__consumer_offsets", [NODE])
    heard: list[tuple[int, int, bool]] = []
    world.groups = SimpleNamespace(complete_transaction=lambda *args: heard.append(args))
    assert errors(world.answer(2, 3, 7, name="__consumer_offsets"))[0] == 0
    assert heard == [(4, 3, True)]


def test_the_response_waits_for_a_slow_disk() -> None:
    world = MarkedWorld()
    answer = world.answer(2, 0, 8)
    assert isinstance(answer, PendingResponse)
    world.replicas.waiting.pop()()
    assert errors(answer.take()) == [0, 0]


def test_a_disk_that_is_too_slow_is_a_timeout() -> None:
    answer = MarkedWorld().answer(2, 0, 8)
    assert isinstance(answer, PendingResponse) and answer.expire is not None
    assert errors(answer.expire()) == [0, ErrorCode.REQUEST_TIMED_OUT]


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(MarkedWorld().answer(2, 0, name="none")) == [unknown]


def test_clients_without_a_right_on_the_cluster_write_no_marker() -> None:
    world = MarkedWorld()
    world.authorizer.forbidden |= {
        (operation, "CLUSTER", "kafka-cluster") for operation in ("ALTER", "CLUSTER_ACTION")
    }
    assert errors(world.answer(2, 0)) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert world.replicas.markers == []
