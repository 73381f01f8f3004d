"""How far a fault in a message is looked for: a client can send one in any request."""

from __future__ import annotations

import pytest

from kwire.errors import DecodeError
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic


def test_fault_behind_many_elements_is_named_without_its_place_where_elements_are_bounded() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(20_000)]
    data = MetadataRequest(topics=topics).encode(12)[:-1]
    with pytest.raises(DecodeError) as bounded:
        MetadataRequest.decode(data, 12, budget=20_000)
    assert (bounded.value.path, bounded.value.rule) == ("MetadataRequest", "truncated")
    with pytest.raises(DecodeError) as unbounded:
        MetadataRequest.decode(data, 12)
    assert unbounded.value.path == "MetadataRequest.<tags>"
    assert unbounded.value.offset is not None


@pytest.mark.parametrize(
    ("last", "rule"),
    [(b"\x05\xff\xff\xff\xff\x00", "bad-utf8"), (b"\x00\x00", "null"), (b"", "truncated")],
)
def test_fault_behind_many_elements_keeps_its_rule(last: bytes, rule: str) -> None:
    topics = [MetadataRequestTopic(name="t") for _ in range(10_000)]
    encoded = MetadataRequest(topics=topics).encode(9)
    one = len(MetadataRequest(topics=topics[:2]).encode(9)) - len(
        MetadataRequest(topics=topics[:1]).encode(9)
    )
    end = MetadataRequest(topics=[]).encode(9)[1:]
    data = encoded[: -len(end) - one] + last
    with pytest.raises(DecodeError) as found:
        MetadataRequest.decode(data, 9, budget=10_000)
    assert (found.value.path, found.value.rule) == ("MetadataRequest", rule)


def test_numbers_beyond_the_allowed_elements_are_named_without_a_negative_number() -> None:
    """Arrays of numbers are counted as they are read, so the next count notices the excess."""
    assignments = [
        CreatableReplicaAssignment(partition_index=n, broker_ids=[1, 2, 3]) for n in range(100)
    ]
    topics = [CreatableTopic(name=f"topic-{n}", assignments=assignments) for n in range(90)]
    data = CreateTopicsRequest(topics=topics).encode(7)
    with pytest.raises(DecodeError, match=r"more elements than this call allows$") as found:
        CreateTopicsRequest.decode(data, 7, budget=20_000)
    assert found.value.rule == "element-budget"
