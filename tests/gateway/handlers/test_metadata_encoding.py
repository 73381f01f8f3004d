"""Encoded topics: the bytes of structs at every version, in steps, and cut out one by one."""

from __future__ import annotations

import pytest

from gateway.base.slices import run
from gateway.handlers.metadata_encoding import MetadataEncoder, NamedPartitions, form_of
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid
from tests.gateway.steps import calls_per_step

VERSIONS = MetadataResponse.VERSIONS
NODES = frozenset(range(200))


def topic(name: str, count: int, replicas: int = 3, isr: int = 2) -> NamedPartitions:
    topic_id = Uuid(name.encode().ljust(16)[:16])
    partitions = {
        index: PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(range(index, index + replicas)),
            isr=list(range(index, index + isr)),
            leader=index,
            leader_epoch=index * 1000,
        )
        for index in reversed(range(count))
    }
    return NamedPartitions(name, topic_id, partitions)


def struct_of(topic: NamedPartitions, operations: int = -(2**31)) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name == "__transaction_state",
        topic_authorized_operations=operations,
        partitions=[
            MetadataResponsePartition(
                error_code=0 if one.leader in NODES else 5,
                partition_index=index,
                leader_id=one.leader if one.leader in NODES else -1,
                leader_epoch=one.leader_epoch,
                replica_nodes=one.replicas,
                isr_nodes=one.isr,
                offline_replicas=[each for each in one.replicas if each not in NODES],
            )
            for index, one in sorted(topic.partitions.items())
        ],
    )


def bytes_of(topics: list[MetadataResponseTopic], version: int) -> bytes:
    """The encoded topics alone: what a response with them has more than one without, which differs
    in the length of the array too.
    """
    data = MetadataResponse(topics=topics).encode(version)
    tail = (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + (version >= 9)
    head = len(MetadataResponse(topics=[]).encode(version)) - tail
    return data[head : len(data) - tail]


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_have_the_bytes_of_structs(version: int) -> None:
    topics = [
        topic("a", 1),
        topic("__transaction_state", 3),
        topic("none", 0),
        topic("n" * 249, 40, replicas=130, isr=127),
        topic("offline", 230, replicas=1, isr=0),
        topic("many", 1300),
    ]
    encoder = MetadataEncoder(form_of(version), NODES)
    for _ in range(2):  # the second time with what it remembers of the first
        found = run(encoder.encode(topics))
        assert found.data == bytes_of(list(map(struct_of, topics)), version)
        assert found.names == tuple(one.name for one in topics)
        assert found.errors == {5: 30 + 1100}
        for at, one in enumerate(topics):
            assert found.cut(at).data == bytes_of([struct_of(one)], version)
            if version >= 8:
                assert found.cut(at, 7).data == bytes_of([struct_of(one, 7)], version)
            else:
                assert found.cut(at, 7).data == found.cut(at).data
        assert [found.cut(at).errors.get(5, 0) for at in range(6)] == [0, 0, 0, 0, 30, 1100]


def test_each_version_has_the_oldest_form_with_its_bytes() -> None:
    one = struct_of(topic("a", 3))
    for version in VERSIONS:
        same = [other for other in VERSIONS if bytes_of([one], other) == bytes_of([one], version)]
        assert form_of(version) == min(same)


def test_lists_of_replicas_beyond_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.handlers.metadata_encoding._LISTS_MAX", 10)
    encoder = MetadataEncoder(10, NODES)
    many = topic("many", 150)
    assert run(encoder.encode([many])).data == bytes_of([struct_of(many)], 12)
    assert len(encoder._ends_of_lines) <= 10


def test_many_partitions_are_encoded_in_steps() -> None:
    _, calls = calls_per_step(MetadataEncoder(10, NODES).encode([topic("many", 5_000)]))
    assert calls < 15_000
