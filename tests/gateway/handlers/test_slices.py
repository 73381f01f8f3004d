"""Requests that name thousands of partitions or groups are handled in slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.streamed import Streamed
from gateway.ports.work import completed
from tests.gateway.handlers.group_world import TOPIC, GroupWorld
from tests.gateway.handlers.world import build
from tests.gateway.steps import calls_per_step

COUNT = 2_000
#: Calls of functions in one step: counting the elements makes up to three for each.
CALLS_MAX = 2_500 + 3 * COUNT
NUMBERS = range(COUNT)


def topics(**partition: Any) -> list[dict[str, Any]]:
    """Thousands of partitions, half of them of one topic."""
    many = [{"partition_index": number, **partition} for number in range(COUNT // 2)]
    others = [
        {"name": f"t{number}", "partitions": [{"partition_index": 0, **partition}]}
        for number in range(COUNT // 2)
    ]
    return [{"name": TOPIC, "partitions": many}, *others]


def indexes() -> list[dict[str, Any]]:
    return [{"name": TOPIC, "partition_indexes": list(NUMBERS)}]


GROUPS = [f"g{number}" for number in NUMBERS]
REQUESTS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "ListOffsets": (2, 8, {"replica_id": -1, "topics": topics(timestamp=-1)}),
    "ListOffsets 0": (2, 0, {"replica_id": -1, "topics": topics(timestamp=-1, max_num_offsets=1)}),
    "Produce": (
        0,
        9,
        {
            "acks": 1,
            "topic_data": [
                {"name": f"t{number}", "partition_data": [{"index": 0, "records": None}]}
                for number in NUMBERS
            ],
        },
    ),
    "DescribeQuorum": (
        55,
        2,
        {
            "topics": [
                {
                    "topic_name": TOPIC,
                    "partitions": [{"partition_index": number} for number in NUMBERS],
                }
            ]
        },
    ),
    "DescribeProducers": (61, 0, {"topics": indexes()}),
    "OffsetCommit": (
        8,
        9,
        {"group_id": "g", "topics": topics(committed_offset=1, committed_metadata="m")},
    ),
    "OffsetDelete": (47, 0, {"group_id": "g", "topics": topics()}),
    "OffsetFetch": (9, 9, {"groups": [{"group_id": name, "topics": None} for name in GROUPS]}),
    "OffsetFetch of one group": (9, 7, {"group_id": "g", "topics": indexes()}),
    "DescribeGroups": (15, 5, {"groups": GROUPS}),
    "DeleteGroups": (42, 2, {"groups_names": GROUPS}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_many_elements_is_handled_in_slices(name: str) -> None:
    key, version, fields = REQUESTS[name]
    world = GroupWorld()
    # The coordinator has its own test; it is not asked before the steps are counted.
    world.groups.submit = lambda event, pending: None
    handler = handlers()[key]
    request = build(handler.request_type(version), fields)

    def handle() -> Generator[Any, Any, Any]:
        answer = handler.handle(request, world.context(version))
        yield
        if isinstance(answer, Generator):
            answer = yield from answer
            yield
        if isinstance(answer, Streamed):
            yield from steps(answer)
        else:
            assert isinstance(answer, PendingResponse), "a long response is built in one step"

    _, calls = calls_per_step(handle())
    assert calls <= CALLS_MAX


def steps(streamed: Streamed) -> Generator[None, None, None]:
    """Make the elements one by one."""
    for element in streamed.elements:
        if isinstance(element, Streamed):
            yield from steps(element)
        yield


@pytest.mark.parametrize("name", REQUESTS)
def test_the_response_in_slices_answers_all_elements(name: str) -> None:
    key, version, fields = REQUESTS[name]
    world = GroupWorld()
    handler = handlers()[key]
    answer: Any = handler.handle(
        build(handler.request_type(version), fields), world.context(version)
    )
    if isinstance(answer, Generator):
        answer = completed(answer)
    if isinstance(answer, PendingResponse):
        given: list[Any] = []
        answer.attach(given.append)
        (answer,) = given
    assert isinstance(answer, Streamed) or name == "OffsetDelete", "it is made in one step"
