"""A batch with runs of partitions is folded as one record after the other, whatever is in it."""

from __future__ import annotations

import pytest

from gateway.sources.metadata_batch_loader import MetadataBatchLoader
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.fence_broker_record import FenceBrokerRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.records.batch import decode_batch, decode_chunks
from kwire.records.uniform_records import UniformRecords
from kwire.uuid import Uuid
from tests.gateway.sources.metadata_files import UNKNOWN_TYPE, UNKNOWN_VERSION, values_batch
from tests.reference_cycles import no_reference_cycles

OTHER = Uuid(bytes([8]) * 16)


def topic(number: int) -> TopicRecord:
    return TopicRecord(topic_id=Uuid(bytes([number]) * 16), name=f"t{number}")


def partitions(number: int, count: int) -> list[Message]:
    found: list[Message] = [
        PartitionRecord(
            partition_id=n,
            topic_id=Uuid(bytes([number]) * 16),
            replicas=[n % 3],
            isr=[n % 3],
            leader=n % 3,
            directories=[Uuid(bytes([9]) * 16)],
        )
        for n in range(count)
    ]
    return found


def folded(
    records: list[Message], version: int, *, runs: bool, damaged: bool
) -> MetadataBatchLoader:
    fold = MetadataBatchLoader()
    values = []
    for one in records:
        at = 0
        if isinstance(one, PartitionRecord):
            at = version
            if not version:
                one = one.copy(directories=[])
        values.append(encode_metadata_record(one, at))
    if damaged:
        values[20] = values[20][:-1] + b"\1"  # a tagged field that is not there
    data = encode_batch([Record(offset=n, value=one) for n, one in enumerate(values)])
    header, found = decode_chunks(data)
    assert any(isinstance(one, UniformRecords) for one in found)
    fold.take_log(header, found if runs else decode_batch(data).records)
    return fold


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "records",
    [
        [topic(1), *partitions(1, 40), topic(2), *partitions(2, 30)],
        [topic(1), *partitions(1, 40), *partitions(2, 30), topic(2)],
        [topic(1), BeginTransactionRecord(), *partitions(1, 40), EndTransactionRecord()],
        [topic(1), BeginTransactionRecord(), *partitions(1, 40), AbortTransactionRecord()],
        [topic(1), *partitions(1, 40), BeginTransactionRecord(), *partitions(1, 40)],
    ],
    ids=["all", "one does not exist", "transaction", "aborted", "open"],
)
def test_runs_are_folded_as_single_records(
    records: list[Message], version: int, damaged: bool
) -> None:
    one, other = (folded(records, version, runs=runs, damaged=damaged) for runs in (True, False))
    assert one.image == other.image != Image()
    assert one.take_counts() == other.take_counts()
    assert (one.position, one.taken, one.last_control, one.in_transaction, one.aligned) == (
        other.position, other.taken, other.last_control, other.in_transaction, other.aligned
    )  # fmt: skip


def lacking(*values: bytes) -> MetadataBatchLoader:
    """A fold of topic 1 and of records with ``values``."""
    fold = MetadataBatchLoader()
    data = values_batch(0, encode_metadata_record(topic(1), 0), *values)
    fold.take_log(*decode_chunks(data))
    return fold


@pytest.mark.parametrize(
    ("value", "cause", "remedy"),
    [
        (UNKNOWN_TYPE, "number 70", "upgrade"),
        (UNKNOWN_VERSION, "version 9", "upgrade"),
        (FeatureLevelRecord(name="metadata.version", feature_level=60), "level 60", "upgrade"),
        (FeatureLevelRecord(name="group.version", feature_level=7), "newest", "upgrade"),
        (FeatureLevelRecord(name="quantum.version", feature_level=1), "quantum", "upgrade"),
        (b"", "offset 1", "restore"),
        (encode_metadata_record(topic(2), 0)[:-1], "offset 1", "restore"),
        (TopicRecord(name="t1", topic_id=Uuid(bytes([7]) * 16)), "which exists", "restore"),
        (TopicRecord(name="t9", topic_id=topic(1).topic_id), "is the id of t1", "restore"),
        (RemoveTopicRecord(topic_id=OTHER), "does not exist", "restore"),
        (PartitionRecord(topic_id=OTHER), "does not exist", "restore"),
        (PartitionChangeRecord(topic_id=OTHER), "does not exist", "restore"),
        (ClearElrRecord(topic_name="none"), "does not exist", "restore"),
        (FenceBrokerRecord(id=7, epoch=1), "not registered", "restore"),
        (UnregisterBrokerRecord(broker_id=7), "not registered", "restore"),
        (BrokerRegistrationChangeRecord(broker_id=7), "not registered", "restore"),
        (RemoveAccessControlEntryRecord(id=OTHER), "does not exist", "restore"),
        (EndTransactionRecord(), "no transaction is open", "restore"),
    ],
    ids=lambda one: getattr(one, "NAME", None),
)
def test_fold_says_what_it_lacks_of_the_log_and_what_to_do(
    value: bytes | Message, cause: str, remedy: str
) -> None:
    assert lacking().lacks is None
    data = value if isinstance(value, bytes) else encode_metadata_record(value, 0)
    lacks = lacking(data).lacks
    assert lacks is not None and cause in lacks and remedy in lacks


def test_level_that_is_lowered_again_is_lacked_no_more() -> None:
    levels = [
        encode_metadata_record(FeatureLevelRecord(name="metadata.version", feature_level=one), 0)
        for one in (60, 30)
    ]
    assert lacking(levels[0]).lacks is not None
    assert lacking(*levels).lacks is None


def test_second_topic_of_a_name_changes_nothing() -> None:
    second = TopicRecord(name="t1", topic_id=OTHER)
    partition = PartitionRecord(topic_id=OTHER, replicas=[1], isr=[1], leader=1)
    fold = lacking(*(encode_metadata_record(one, 0) for one in (second, partition)))
    assert fold.image.topic_ids == {"t1": topic(1).topic_id}
    assert list(fold.image.partitions) == [topic(1).topic_id]
    assert fold.skipped == {"does not fit": 2}


def test_fold_that_is_dropped_releases_its_image() -> None:
    with no_reference_cycles(MetadataBatchLoader, Image):
        folded([topic(1), *partitions(1, 40)], 1, runs=True, damaged=False)
