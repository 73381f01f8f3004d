"""Streamed responses: the same bytes as in one step, at every version, in slices of bounded
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.ports.answer_errors import errors_of
from gateway.ports.encoded import Encoded
from gateway.ports.streamed import Streamed
from gateway.server.scheduling.streamed_encoder import StreamedEncoder
from kwire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kwire.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kwire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


class Clock:
    """Advances by one with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def encoded(streamed: Streamed, version: int, seconds: float) -> tuple[bytes, StreamedEncoder, int]:
    encoder, slices = StreamedEncoder(streamed, version), 1
    while not encoder.run(Clock(), seconds):
        slices += 1
    return b"".join(encoder.take()), encoder, slices


def topic(number: int, partitions: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=f"topic-{number}",
        error_code=number % 3,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=1,
                replica_nodes=[1, 2, 3],
                isr_nodes=[1],
                error_code=5,
            )
            for index in range(partitions)
        ],
    )


def metadata(sizes: list[int]) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=1, host="broker.example", port=9092)]
    topics = [topic(number, size) for number, size in enumerate(sizes)]
    return MetadataResponse(brokers=brokers, topics=topics, controller_id=7)


def streamed_metadata(sizes: list[int], nested_from: int) -> Streamed:
    """Topics of ``nested_from`` partitions or more are streamed themselves; between topics are
    points without an element.
    """

    def elements() -> Iterator[Any]:
        for one in metadata(sizes).topics:
            yield None
            if len(one.partitions) >= nested_from:
                partitions, one.partitions = one.partitions, []
                yield Streamed(one, "partitions", partitions)
            else:
                yield one

    response = metadata([])
    return Streamed(response, "topics", elements())


@pytest.mark.parametrize("nested_from", [0, 3, 1000])
@pytest.mark.parametrize("version", MetadataResponse.VERSIONS)
@pytest.mark.parametrize("sizes", [[], [0], [1], [5, 0, 3, 1, 700], [1] * 200, [200, 1, 1]])
def test_streamed_metadata_has_the_bytes_of_the_whole_response(
    sizes: list[int], version: int, nested_from: int
) -> None:
    whole = metadata(sizes)
    data, encoder, _ = encoded(streamed_metadata(sizes, nested_from), version, seconds=8)
    assert data == whole.encode(version)
    assert encoder.size == len(data)
    assert encoder.errors == errors_of(whole)


@pytest.mark.parametrize("version", ListGroupsResponse.VERSIONS)
def test_encoded_elements_are_inserted_and_long_ones_not_copied(version: int) -> None:
    groups = [ListedGroup(group_id=f"group-{number:09}") for number in range(400)]
    head = len(ListGroupsResponse().encode(version)) - (version >= 3)

    def of(begin: int, end: int) -> Encoded:
        """Elements that are fewer than fit into the shortest length of an array."""
        data = ListGroupsResponse(groups=groups[begin:end]).encode(version)
        return Encoded(data[head : len(data) - (version >= 3)], end - begin, {end: 1})

    short, long = of(1, 3), of(3, 103)
    elements = [groups[0], short, long, None, *groups[103:300], of(300, 400)]
    streamed = Streamed(ListGroupsResponse(), "groups", elements)
    encoder = StreamedEncoder(streamed, version)
    clock = Clock()
    while not encoder.run(clock, 7):
        pass
    parts = encoder.take()
    assert b"".join(parts) == ListGroupsResponse(groups=groups).encode(version)
    assert encoder.size == sum(map(len, parts))
    assert any(part is long.data for part in parts) and long in encoder.shared
    assert short not in encoder.shared
    assert encoder.errors == {3: 1, 103: 1, 400: 1}


@pytest.mark.parametrize("seconds", [1, 5, 1000])
def test_streamed_bytes_do_not_depend_on_the_length_of_a_slice(seconds: float) -> None:
    data, _, slices = encoded(streamed_metadata([3] * 300, 1000), 12, seconds)
    assert data == metadata([3] * 300).encode(12)
    assert slices > 1 or seconds > 100


def members(count: int) -> list[DescribedGroupMember]:
    return [
        DescribedGroupMember(member_id=f"m-{number}", member_metadata=b"x" * number)
        for number in range(count)
    ]


@pytest.mark.parametrize("version", DescribeGroupsResponse.VERSIONS)
def test_streamed_members_have_the_bytes_of_the_whole_response(version: int) -> None:
    sizes = [0, 2, 150]
    whole = DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=f"g-{size}", members=members(size)) for size in sizes]
    )
    groups = [
        Streamed(DescribedGroup(group_id=f"g-{size}"), "members", members(size)) for size in sizes
    ]
    assert encoded(Streamed(DescribeGroupsResponse(), "groups", groups), version, 9)[
        0
    ] == whole.encode(version)


@pytest.mark.parametrize("version", [8, 9])
def test_arrays_are_streamed_at_three_levels(version: int) -> None:
    def topics() -> list[OffsetFetchResponseTopics]:
        return [OffsetFetchResponseTopics(name=f"t-{number}") for number in range(4)]

    def partitions(number: int) -> list[OffsetFetchResponsePartitions]:
        return [
            OffsetFetchResponsePartitions(partition_index=index, metadata="m" * index)
            for index in range(number * 50)
        ]

    whole_topics = topics()
    for number, one in enumerate(whole_topics):
        one.partitions = partitions(number)
    whole = OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="g", topics=whole_topics)]
    )
    inner = (Streamed(one, "partitions", partitions(number)) for number, one in enumerate(topics()))
    streamed = Streamed(
        OffsetFetchResponse(),
        "groups",
        [Streamed(OffsetFetchResponseGroup(group_id="g"), "topics", inner)],
    )
    assert encoded(streamed, version, 7)[0] == whole.encode(version)


def test_large_response_is_held_in_pieces() -> None:
    groups = [ListedGroup(group_id=f"group-{number}" * 10) for number in range(20_000)]
    encoder = StreamedEncoder(Streamed(ListGroupsResponse(), "groups", groups), 4)
    while not encoder.run(Clock(), 500):
        pass
    chunks = encoder.take()
    assert b"".join(chunks) == ListGroupsResponse(groups=groups).encode(4)
    assert max(map(len, chunks)) < 256 * 1024


def test_response_is_full_at_its_size_limit() -> None:
    streamed = Streamed(DescribeConfigsResponse(), "results", size_limit=20_000)

    def elements() -> Iterator[DescribeConfigsResult]:
        for number in range(2000):
            if streamed.is_full:
                yield DescribeConfigsResult(resource_name=f"r-{number}", error_code=42)
            else:
                configs = [DescribeConfigsResourceResult(name="key", value="v" * 100)]
                yield DescribeConfigsResult(resource_name=f"r-{number}", configs=configs)

    streamed.elements = elements()
    data, encoder, _ = encoded(streamed, 4, 5)
    results = DescribeConfigsResponse.decode(data, 4).results
    assert [one.resource_name for one in results] == [f"r-{number}" for number in range(2000)]
    answered = sum(1 for one in results if not one.error_code)
    assert 100 < answered < 1000
    assert encoder.errors == {42: 2000 - answered}


def test_exception_of_an_element_is_raised() -> None:
    def elements() -> Iterator[ListedGroup]:
        yield ListedGroup(group_id="first")
        raise ValueError("no second")

    with pytest.raises(ValueError, match="no second"):
        encoded(Streamed(ListGroupsResponse(), "groups", elements()), 4, 5)
