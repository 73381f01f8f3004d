"""Fetch of thousands of partitions: handled in slices, answered for each, given up cleanly."""

from __future__ import annotations

from typing import Any

from gateway.handlers.apis import fetch
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ErrorCode
from tests.gateway.handlers.apis.test_fetch import BY_NAME, one
from tests.gateway.handlers.world import World, build


def of_many(version: int = BY_NAME, **more: Any) -> dict[str, Any]:
    """A Fetch of one partition that there is, and of 1,999 others: it is handled in slices."""
    request = one(version, 0, **more)
    [wanted] = request["topics"][0]["partitions"]
    request["topics"][0]["partitions"] = [{**wanted, "partition": n} for n in range(2000)]
    return request


def test_fetch_of_many_partitions_does_not_wait_and_answers_each() -> None:
    world = World()
    answer = world.ask(fetch, BY_NAME, **of_many(max_wait_ms=5000, min_bytes=1 << 20))
    [topic] = answer.responses
    assert bytes(topic.partitions[0].records) == b"".join(b.data for b in world.partition.batches)
    assert [data.error_code for data in topic.partitions] == [0] + [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ] * 1999
    assert world.partition.open_reads == 0


def test_fetch_that_names_one_partition_very_often_waits_as_one_that_names_it_once() -> None:
    request = one(BY_NAME, 15, max_wait_ms=5000)
    request["topics"][0]["partitions"] *= 2000
    assert isinstance(World().ask(fetch, BY_NAME, **request), PendingResponse)


def test_fetch_of_many_partitions_that_is_given_up_closes_what_it_read() -> None:
    world = World()
    cls = handlers()[fetch.API_KEY].request_type(BY_NAME)
    work: Any = fetch.handle(build(cls, of_many()), world.context(BY_NAME))
    while not world.partition.open_reads:
        next(work)
    work.close()
    assert world.partition.open_reads == 0
