"""Compares images folded from real logs with Kafka's own images of the same records."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster import FoldError, Image, Loader, apply, image_records
from kwire.cluster.entities.partitions import merge
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.fence_broker_record import FenceBrokerRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.register_controller_record import RegisterControllerRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.messages.unregister_controller_record import UnregisterControllerRecord
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record
from kwire.uuid import ZERO_UUID, Uuid
from tests.kwire.cluster.kafka_state import state_of, truth
from tests.shared import LOG_NAMES, needs_shared

TOPIC, OTHER = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))


def stream(directory: Path) -> Iterator[tuple[int, int, Message | None]]:
    """(offset, epoch, record or None for control) of a log directory, from its snapshot where it
    starts after one.
    """
    segments = sorted(directory.glob("*.log"))
    start = int(segments[0].name[:20])
    end = 0
    if start:
        snapshot = min(p for p in directory.glob("*.checkpoint") if int(p.name[:20]) >= start)
        end = int(snapshot.name[:20])
        for header, records in read_log_file(snapshot):
            for r in () if header.is_control else records:
                yield (
                    r.offset,
                    header.partition_leader_epoch,
                    decode_metadata_record(r.value or b"")[2],
                )
    for segment in segments:
        for header, records in read_log_file(segment):
            for r in records:
                if r.offset >= end:
                    record = (
                        None if header.is_control else decode_metadata_record(r.value or b"")[2]
                    )
                    yield r.offset, header.partition_leader_epoch, record


def fold(loader: Loader, offset: int, epoch: int, record: Message | None) -> None:
    if record is None:
        loader.skip_to(offset + 1, epoch)
    else:
        loader.load(record, offset, epoch)


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_the_state_is_kafkas_at_the_end_and_at_every_snapshot(name: str, logs: Any) -> None:
    root: Path = logs(name)
    compared = 0
    for node in sorted(p.name for p in (root / "nodes").iterdir()):
        states = dict(
            truth(p) for p in (root / "truth" / node).glob("state-*.jsonl") if p.stem != "state-END"
        )
        loader = Loader()
        for offset, epoch, record in stream(root / "nodes" / node / "__cluster_metadata-0"):
            if (
                offset in states
                and not loader.in_transaction
                and loader.image.next_offset == offset
            ):
                assert state_of(loader.image) == states[offset], (node, offset)
                compared += 1
            fold(loader, offset, epoch, record)
        end, expected = truth(root / "truth" / node / "state-END.jsonl")
        assert loader.image.next_offset == end
        assert state_of(loader.image) == expected, node
        compared += 1
    assert compared > 0


@needs_shared
def test_a_snapshot_of_an_image_folds_to_the_same_image(logs: Any) -> None:
    """At random offsets of a busy log: image -> records -> image."""
    rng = random.Random(4)
    loader = Loader()
    for offset, epoch, record in stream(logs("p-quorum") / "nodes" / "2" / "__cluster_metadata-0"):
        fold(loader, offset, epoch, record)
        if rng.random() < 0.01 and not loader.in_transaction:
            again = Image()
            for one, version in image_records(loader.image):
                apply(again, type(one).decode(one.encode(version), version))
            assert state_of(again) == state_of(loader.image)


def test_a_transaction_shows_when_it_ends_and_never_when_it_is_aborted() -> None:
    loader = Loader()
    for end, names in ((AbortTransactionRecord(), []), (EndTransactionRecord(), ["a"])):
        at = loader.image.next_offset
        loader.load(BeginTransactionRecord(), at, 1)
        loader.load(TopicRecord(name="a", topic_id=TOPIC), at + 1, 1)
        assert (loader.in_transaction, list(loader.image.topic_ids), loader.image.next_offset) == (
            True,
            [],
            at,
        )
        loader.load(end, at + 2, 1)
        assert (list(loader.image.topic_ids), loader.image.next_offset) == (names, at + 3)


def test_transactions_out_of_place() -> None:
    loader = Loader()
    with pytest.raises(FoldError, match="no transaction is open"):
        loader.load(EndTransactionRecord(), 0, 1)
    loader.load(BeginTransactionRecord(), 0, 1)
    with pytest.raises(FoldError, match="inside another"):
        loader.load(BeginTransactionRecord(), 1, 1)


def test_epochs_of_a_partition() -> None:
    image = Image()
    apply(image, TopicRecord(name="a", topic_id=TOPIC))
    apply(
        image,
        PartitionRecord(
            topic_id=TOPIC,
            partition_id=0,
            replicas=[1, 2],
            isr=[1, 2],
            leader=1,
            leader_epoch=5,
            partition_epoch=7,
        ),
    )
    assert image.partitions[TOPIC][0].directories == [ZERO_UUID, ZERO_UUID]
    apply(image, PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[2]))
    apply(image, PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=1))
    partition = image.partitions[TOPIC][0]
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ([2], 6, 9)


@pytest.mark.parametrize("replicas", [[3, 1, 2, 4], [1]])
def test_unassigned_directories_are_as_many_as_the_replicas(replicas: list[int]) -> None:
    before = PartitionRecord(replicas=[1, 2], directories=[ZERO_UUID, ZERO_UUID])
    assert merge(before, PartitionChangeRecord(replicas=replicas)).directories == [ZERO_UUID] * len(
        replicas
    )
    assert merge(before, PartitionChangeRecord(isr=[1])).directories is before.directories


def test_a_change_keeps_every_field_of_the_partition_that_it_does_not_name() -> None:
    before = PartitionRecord()
    for name in PartitionRecord.__slots__:
        setattr(before, name, object())
    before.partition_epoch = 6
    after = merge(before, PartitionChangeRecord())
    assert after.partition_epoch == 7
    for name in PartitionRecord.__slots__:
        assert name == "partition_epoch" or getattr(after, name) is getattr(before, name)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            RemoveTopicRecord(topic_id=OTHER),
            f"RemoveTopicRecord for topic {OTHER}, which does not exist",
        ),
        (
            PartitionRecord(topic_id=OTHER),
            f"PartitionRecord for topic {OTHER}, which does not exist",
        ),
        (
            PartitionChangeRecord(topic_id=OTHER),
            f"PartitionChangeRecord for topic {OTHER}, which does not exist",
        ),
        (
            PartitionChangeRecord(topic_id=TOPIC, partition_id=3),
            "for partition 3 of a, which does not exist",
        ),
        (ClearElrRecord(topic_name="b"), "ClearElrRecord for topic b, which does not exist"),
        (
            UnregisterBrokerRecord(broker_id=8),
            "UnregisterBrokerRecord for broker 8, which is not registered",
        ),
        (
            FenceBrokerRecord(id=7, epoch=5),
            "FenceBrokerRecord for broker 7 with epoch 5, its epoch is 4",
        ),
        (RemoveAccessControlEntryRecord(id=OTHER), f"for ACL {OTHER}, which does not exist"),
    ],
)
def test_record_that_does_not_fit_raises_and_changes_nothing(record: Message, text: str) -> None:
    image = Image()
    apply(image, TopicRecord(name="a", topic_id=TOPIC))
    apply(image, RegisterBrokerRecord(broker_id=7, broker_epoch=4))
    before = state_of(image)
    with pytest.raises(FoldError, match=text):
        apply(image, record)
    assert state_of(image) == before


@pytest.mark.parametrize("second", [("a", OTHER), ("a", TOPIC), ("b", TOPIC)])
def test_second_topic_of_a_name_or_an_id_is_refused(second: tuple[str, Uuid]) -> None:
    image = Image()
    apply(image, TopicRecord(name="a", topic_id=TOPIC))
    name, topic_id = second
    with pytest.raises(FoldError, match=r"which exists with id|which is the id of a"):
        apply(image, TopicRecord(name=name, topic_id=topic_id))
    assert image.topic_ids == {"a": TOPIC} and image.topics == {TOPIC: "a"}
    apply(image, RemoveTopicRecord(topic_id=TOPIC))
    apply(image, TopicRecord(name="a", topic_id=OTHER))
    assert image.topic_ids == {"a": OTHER} and image.topics == {OTHER: "a"}


def test_controller_that_leaves_is_forgotten() -> None:
    image = Image()
    apply(image, RegisterControllerRecord(controller_id=3))
    apply(image, UnregisterControllerRecord(controller_id=3))
    apply(image, UnregisterControllerRecord(controller_id=3))
    assert image.controllers == {}


def test_a_transaction_with_a_record_that_does_not_fit() -> None:
    loader = Loader()
    loader.load(BeginTransactionRecord(), 0, 1)
    loader.load(RemoveTopicRecord(topic_id=OTHER), 1, 1)
    with pytest.raises(FoldError, match="which does not exist"):
        loader.load(EndTransactionRecord(), 2, 1)


def test_an_ordinary_message_is_no_metadata_record() -> None:
    from kwire.messages.fetch_request import FetchRequest

    with pytest.raises(FoldError, match="FetchRequest is no metadata record"):
        apply(Image(), FetchRequest())


def test_record_that_does_not_fit_is_reported_and_loading_continues() -> None:
    """As in a broker, inside a transaction too."""
    told: list[FoldError] = []
    loader = Loader()
    records = [EndTransactionRecord(), BeginTransactionRecord(), RemoveTopicRecord(topic_id=TOPIC)]
    records += [
        BeginTransactionRecord(),
        TopicRecord(name="a", topic_id=TOPIC),
        EndTransactionRecord(),
    ]
    for offset, record in enumerate(records):
        loader.load(record, offset, 1, refused=told.append)
    assert [str(error).split(",")[0] for error in told] == [
        "EndTransactionRecord at offset 0", "a transaction begins at offset 3 inside another",
        f"RemoveTopicRecord for topic {TOPIC}",
    ]  # fmt: skip
    assert (list(loader.image.topic_ids), loader.image.next_offset) == (["a"], 6)


def test_quota_entity_with_a_repeated_type_is_that_of_the_last() -> None:
    """No controller writes that; Kafka reads it so (``ClientQuotasDelta.replay``), and sorting both
    names would fail.
    """
    image = Image()
    for names in ([None, "ann"], ["ann", None]):
        parts = [EntityData(entity_type="user", entity_name=name) for name in names]
        apply(image, ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=5.0))
    assert image.quotas == {
        (("user", name),): {"producer_byte_rate": 5.0} for name in ("ann", None)
    }
