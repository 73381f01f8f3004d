"""Metadata responses spliced from kept encodings: the same bytes as those built from nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.slices import run
from gateway.handlers import topic_index
from gateway.handlers.access import NOT_ASKED, topic_operations
from gateway.handlers.apis import metadata
from gateway.handlers.context import Context
from gateway.handlers.metadata_encoding import MetadataEncoder
from gateway.handlers.nodes import reachable_nodes
from gateway.handlers.topic_index import TopicIndex
from gateway.ports.answer_errors import errors_of
from gateway.ports.streamed import Streamed
from gateway.server.scheduling.streamed_encoder import StreamedEncoder
from kwire.cluster.image import Image
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.own_world import OwnWorld, commit
from tests.gateway.handlers.world import NODE, encoded
from tests.gateway.steps import calls_per_step

LOG = "__cluster_metadata"
BROKERS = (1, 2, 3)
#: Names in the order of no kind of creation, internal and long ones among them.
NAMES = ("b", "a", "__consumer_offsets", "B", "t-2", "t-10", "x" * 249, "a.b", "Z", "0")


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few topics make several runs."""
    monkeypatch.setattr(topic_index, "_RUN_MAX", 6)


class Changes:
    """Changes the image of a world, as commits of the records that a controller writes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = OwnWorld()
        for broker_id in BROKERS:
            self.register(broker_id, fenced=False)

    @property
    def image(self) -> Image:
        return self.world.quorum_image

    def register(self, broker_id: int, fenced: bool) -> None:
        names = self.random.sample(("PLAINTEXT", "EXTERNAL"), self.random.randint(1, 2))
        end_points = [BrokerEndpoint(name=name, host=f"b{broker_id}", port=9092) for name in names]
        record = RegisterBrokerRecord(broker_id=broker_id, fenced=fenced, end_points=end_points)
        self.world.commit(record)

    def create(self, name: str) -> None:
        topic_id = Uuid(self.random.randbytes(16))
        self.world.commit(TopicRecord(name=name, topic_id=topic_id))
        self.partitions(name, self.random.randint(1, 4))

    def partitions(self, name: str, more: int) -> None:
        topic_id = self.image.topic_ids[name]
        first = len(self.image.partitions[topic_id])
        self.world.commit(*(self.partition(topic_id, first + one) for one in range(more)))

    def partition(self, topic_id: Uuid, index: int) -> PartitionRecord:
        replicas = self.random.sample((NODE, *BROKERS), self.random.randint(1, 4))
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas[: self.random.randint(1, len(replicas))],
            leader=self.random.choice((-1, *replicas)),
            leader_epoch=self.random.randint(0, 1000),
        )

    def delete(self, name: str) -> None:
        self.world.commit(RemoveTopicRecord(topic_id=self.image.topic_ids[name]))

    def elect(self, name: str) -> None:
        topic_id = self.image.topic_ids[name]
        index, record = self.random.choice(list(self.image.partitions[topic_id].items()))
        change = PartitionChangeRecord(
            partition_id=index, topic_id=topic_id, leader=self.random.choice(record.replicas)
        )
        self.world.commit(change)

    def replace(self, name: str) -> None:
        """Delete a topic and create another one of its name, in one commit."""
        topic_id = Uuid(self.random.randbytes(16))
        self.world.commit(
            RemoveTopicRecord(topic_id=self.image.topic_ids[name]),
            TopicRecord(name=name, topic_id=topic_id),
            self.partition(topic_id, 0),
        )

    def load(self) -> None:
        """Become another image with the same topics, as from a snapshot."""
        before, after = self.image, Image()
        records: list[Any] = [*before.brokers.values(), *before.controllers.values()]
        for name, topic_id in sorted(before.topic_ids.items(), key=lambda one: one[1]):
            records.append(TopicRecord(name=name, topic_id=topic_id))
            records += before.partitions[topic_id].values()
        commit(after, *records)
        assert self.world.quorum is not None
        self.world.quorum.image = after
        self.world.topic_index.on_update(None, after)

    def change(self) -> None:
        """Make any of these changes."""
        known = [name for name in self.image.topic_ids if name in NAMES]
        unknown = [name for name in NAMES if name not in known]
        kind = self.random.choice(
            ("create", "create", "delete", "elect", "replace", "partitions", "register", "load")
        )
        if kind == "create" and unknown:
            self.create(self.random.choice(unknown))
        elif kind == "register":
            self.register(self.random.choice(BROKERS), self.random.choice((True, False)))
        elif kind == "load":
            self.load()
        elif kind == "partitions" and known:
            self.partitions(self.random.choice(known), self.random.choice((1, 7)))
        elif kind in ("delete", "elect", "replace") and known:
            getattr(self, kind)(self.random.choice(known))


def from_nothing(request: MetadataRequest, context: Context) -> MetadataResponse:
    """The response to a request for topics that exist, of structs."""
    quorum = context.gateway.quorum
    assert quorum is not None
    nodes = reachable_nodes(context)
    if request.topics is None or (context.version == 0 and not request.topics):
        names = [LOG, *sorted(quorum.image.topic_ids)]
    else:
        names = [name for one in request.topics if (name := one.name) is not None]
    allows = context.gateway.authorizer.allows
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=node.host, port=node.port, rack=node.rack)
            for node_id, node in nodes.items()
        ],
        cluster_id=context.gateway.partition.cluster_id,
        controller_id=NODE,
        topics=[
            topic_of(name, request, context)
            for name in names
            if allows("User:ANONYMOUS", "127.0.0.1", "DESCRIBE", "TOPIC", name)
        ],
    )


def topic_of(name: str, request: MetadataRequest, context: Context) -> MetadataResponseTopic:
    quorum = context.gateway.quorum
    assert quorum is not None
    asked = context.version >= 8 and request.include_topic_authorized_operations
    made = MetadataResponseTopic(
        name=name,
        is_internal=name == "__consumer_offsets",
        topic_authorized_operations=topic_operations(context, name) if asked else NOT_ASKED,
    )
    if name == LOG:
        made.topic_id = METADATA_TOPIC_ID
        made.partitions = [
            MetadataResponsePartition(
                leader_id=NODE, leader_epoch=3, replica_nodes=[NODE], isr_nodes=[NODE]
            )
        ]
        return made
    made.topic_id = quorum.image.topic_ids[name]
    nodes = reachable_nodes(context)
    for index, record in sorted(quorum.image.partitions[made.topic_id].items()):
        has_leader = record.leader in nodes
        made.partitions.append(
            MetadataResponsePartition(
                error_code=0 if has_leader else 5,
                partition_index=index,
                leader_id=record.leader if has_leader else -1,
                leader_epoch=record.leader_epoch,
                replica_nodes=list(record.replicas),
                isr_nodes=list(record.isr),
                offline_replicas=[one for one in record.replicas if one not in nodes],
            )
        )
    return made


def request_of(changes: Changes, version: int) -> tuple[MetadataRequest, Context]:
    """Any request for topics that exist, and its context."""
    random, names = changes.random, list(changes.image.topic_ids)
    context = changes.world.context(version, random.choice(("PLAINTEXT", "EXTERNAL")))
    changes.world.authorizer.forbidden = random.choice(
        (set(), {("DESCRIBE", "TOPIC", name) for name in random.sample(NAMES, 3)})
    )
    request = MetadataRequest(
        topics=[] if version == 0 else None,
        include_topic_authorized_operations=random.random() < 0.3,
    )
    if random.random() < 0.5 and names:
        changes.world.authorizer.forbidden = set()
        some = random.sample(names, random.randint(1, len(names)))
        request.topics = [MetadataRequestTopic(name=name) for name in some]
    return request, context


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1500, 100_000]), st.booleans())
def test_a_spliced_response_has_the_bytes_of_one_built_from_nothing(
    seed: int, kept_max: int, is_streamed: bool
) -> None:
    changes = Changes(seed)
    changes.world.topic_index = index = TopicIndex(kept_max)
    index.on_update(None, changes.image)
    with pytest.MonkeyPatch.context() as patch:
        if is_streamed:
            patch.setattr(metadata, "WHOLE_MAX", 1)
            patch.setattr(metadata, "_AT_ONCE_MAX", 1)
            patch.setattr(topic_index, "_AT_ONCE_MAX", 1)
        for _ in range(30):
            for _ in range(changes.random.randint(0, 3)):
                changes.change()
            version = changes.random.choice(metadata.VERSIONS)
            request, context = request_of(changes, version)
            answer: Any = metadata.handle(request, context)
            data = b"".join(encoded(answer, version))
            assert data == from_nothing(request, context).encode(version)
            assert index.kept_bytes <= kept_max
            assert index.kept_bytes == sum(
                one.size for each in index._encodings.values() for one in each.kept.values()
            )


@pytest.mark.parametrize("is_streamed", [False, True])
def test_errors_are_counted_as_in_structs(
    is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_streamed:
        monkeypatch.setattr(metadata, "WHOLE_MAX", 1)
    changes = Changes(1)
    for name in NAMES:
        changes.create(name)
    context = changes.world.context(12)
    for request in (
        MetadataRequest(topics=None),
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES]),
    ):
        answer = metadata.handle(request, context)
        expected = errors_of(from_nothing(request, context))
        assert expected[5] > 1
        if isinstance(answer, Streamed):
            encoder = StreamedEncoder(answer, 12)
            encoder.run(iter(range(10**6)).__next__, 10**9)
            assert encoder.errors == expected
        else:
            found = type(expected)()
            answer.count_errors(found)
            assert found == expected


def test_an_unchanged_topic_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(2)
    for name in NAMES:
        changes.create(name)
    lines: list[int] = []
    pack = MetadataEncoder._pack_lines

    def counted(self: Any, records: Any, parts: Any) -> int:
        known = list(records)
        lines.append(len(known))
        return pack(self, known, parts)

    monkeypatch.setattr(MetadataEncoder, "_pack_lines", counted)

    def lines_of(version: int, listener: str = "PLAINTEXT") -> int:
        lines.clear()
        request = MetadataRequest(topics=None)
        encoded(metadata.handle(request, changes.world.context(version, listener)), version)
        return sum(lines)

    total = sum(map(len, changes.image.partitions.values()))
    assert [lines_of(12), lines_of(12), lines_of(13), lines_of(10)] == [total, 0, 0, 0]
    assert [lines_of(9), lines_of(9)] == [total, 0]
    changes.elect("t-2")
    assert 0 < lines_of(12) <= 2 * topic_index._RUN_MAX < total
    changes.image.brokers.clear()  # fewer nodes can be reached
    assert [lines_of(12), lines_of(12)] == [total, 0]


def test_changes_between_two_slices_lose_and_repeat_no_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "WHOLE_MAX", 1)
    for seed in range(30):
        changes = Changes(seed)
        for name in NAMES:
            changes.create(name)
        touched: set[str] = set()
        before = dict(changes.image.topic_ids)
        answer = metadata.handle(MetadataRequest(topics=None), changes.world.context(12))
        assert isinstance(answer, Streamed)

        def interrupted(elements: Iterator[Any], changes: Changes = changes) -> Iterator[Any]:
            for element in elements:
                yield element
                if changes.random.random() < 0.3:
                    changes.change()
                    # Another request brings the index up to date while this one walks over it.
                    run(changes.world.topic_index.follow())

        answer.elements = interrupted(answer.elements)
        found = MetadataResponse.decode(b"".join(encoded(answer, 12)), 12)
        names = [topic.name for topic in found.topics]
        assert len(names) == len(set(names))
        after = changes.image.topic_ids
        touched = {name for name in NAMES if before.get(name) != after.get(name)}
        assert set(before) - touched <= set(names) - {LOG}


def test_names_are_found_in_order_from_any_of_them() -> None:
    changes = Changes(3)
    for name in NAMES:
        changes.create(name)
    index = changes.world.topic_index
    run(index.follow())
    ordered = sorted(NAMES)
    assert list(index.names()) == ordered
    for first in ("", "a", "aa", *NAMES, "zzz"):
        assert list(index.names(first)) == [name for name in ordered if name >= first]
    for name in NAMES:
        changes.delete(name)
    run(index.follow())
    assert list(index.names()) == list(index.names("a")) == []


def test_many_changes_of_one_run_are_followed_in_steps() -> None:
    world = OwnWorld()
    index = world.topic_index
    world.commit(TopicRecord(name="a", topic_id=Uuid(b"a" * 16)))
    run(index.follow())
    names = [f"t{number:05}" for number in range(5_000)]
    world.commit(
        *(TopicRecord(name=name, topic_id=Uuid(name.encode().ljust(16))) for name in names)
    )
    _, calls = calls_per_step(index.follow())
    assert calls < 20_000
    assert list(index.names()) == ["a", *names]


def test_forgotten_changes_make_the_index_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.handlers.topic_changes._NAMES_MAX", 3)
    changes = Changes(4)
    index = changes.world.topic_index
    for name in NAMES:
        changes.create(name)
        run(index.follow())
    for name in NAMES[1:]:
        changes.delete(name)
    run(index.follow())
    assert list(index.names()) == [NAMES[0]]


def test_image_that_comes_while_the_index_follows_another_one_is_indexed_in_its_place() -> None:
    changes = Changes(5)
    for name in NAMES:
        changes.create(name)
    index = changes.world.topic_index
    following = index.follow()
    next(following)
    changes.load()
    changes.delete(NAMES[0])
    run(following)
    assert list(index.names()) == sorted(NAMES[1:])


def test_topic_that_the_index_has_not_heard_of_is_described_by_the_image() -> None:
    changes = Changes(6)
    for name in NAMES[:2]:
        changes.create(name)
    changes.world.ask(metadata, 12, topics=None)
    topic_id = Uuid(b"n" * 16)
    new = TopicRecord(name="aa", topic_id=topic_id), changes.partition(topic_id, 0)
    commit(changes.image, *new)
    (found,) = changes.world.ask(metadata, 12, topics=[{"name": "aa"}]).topics
    assert (found.name, found.topic_id, len(found.partitions)) == ("aa", topic_id, 1)
