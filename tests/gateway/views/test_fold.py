"""Changes of entities: numbered by their record, at the end of a transaction, in an order that
depends on the state alone.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.views.encode import ViewEncoder
from gateway.views.fold import Change, ViewFold, ViewOverflow
from kwire.cluster import Image
from kwire.cluster import view_offsets as offsets
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.messages.config_record import ConfigRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.fence_broker_record import FenceBrokerRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.producer_ids_record import ProducerIdsRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.records.batch import decode_batch
from kwire.uuid import Uuid
from tests.reference_cycles import no_reference_cycles


def topic_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=topic_id(number))


def removed(number: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=topic_id(number))


def partition(number: int, index: int, *, elr: bool = False) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id(number),
        partition_id=index,
        replicas=[1],
        isr=[1],
        leader=1,
        eligible_leader_replicas=[1] if elr else None,
        directories=[topic_id(9)],
    )


def config(name: str, value: str | None, *, kind: int = 2, resource: str = "t1") -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def changes_of(
    *messages: Message, timestamp: int = 1000, first: int = 0, fold: ViewFold | None = None
) -> list[Change]:
    """The changes that records of the newest versions make from offset ``first`` on."""
    records = [
        Record(
            offset=first + at,
            timestamp=timestamp,
            value=encode_metadata_record(message, message.VERSIONS[-1]),
        )
        for at, message in enumerate(messages)
    ]
    batch = decode_batch(encode_batch(records, partition_leader_epoch=3))
    made = (fold or ViewFold()).take(batch.header, [batch.records])
    return [one for one in made if isinstance(one, Change)]


def told(changes: list[Change]) -> list[tuple[Any, ...]]:
    """Offset of the record, number, operation, kind and name of each change."""
    return [
        (
            offsets.log_offset(one.offset),
            one.offset % offsets.at(1),
            one.op,
            one.kind.kind,
            *one.kind.name(one.before if one.after is None else one.after),
        )
        for one in changes
    ]


def test_each_change_has_the_number_of_its_record() -> None:
    found = changes_of(topic(1), NoOpRecord(), partition(1, 0), config("retention.ms", "5"))
    assert told(found) == [
        (0, 0, "c", "topic", "t1"),
        (2, 0, "c", "partition", "t1", 0),
        (3, 0, "c", "config", "TOPIC", "t1"),
        (3, 1, "u", "topic", "t1"),
    ]
    assert found[1].source == (2, 3, "PARTITION_RECORD", 2, None)


def test_new_topic_is_told_once_more_at_the_end_of_its_batch() -> None:
    parts = [partition(1, index) for index in range(3)]
    found = changes_of(
        topic(1), config("b.password", "x"), *parts, config("retention.ms", "1"), NoOpRecord()
    )
    assert [one for one in told(found) if one[3] == "topic"] == [
        (0, 0, "c", "topic", "t1"),
        (6, 0, "u", "topic", "t1"),
    ], "behind the last record of the batch"
    assert found[-1].source[:3] == (5, 3, "CONFIG_RECORD"), "the record that changed it last"
    assert found[-1].before == found[0].after
    named = {"name": "t1", "id": str(topic_id(1))}
    assert shapes(found) == [
        named | {"partitions": 0, "replicationFactor": 0, "configs": {}},
        named
        | {
            "partitions": 3,
            "replicationFactor": 1,
            "configs": {"b.password": "(redacted)", "retention.ms": "1"},
        },
    ]


def shapes(changes: list[Change]) -> list[dict[str, Any]]:
    """The topics as changes left them."""
    return [one.kind.fields(one.after) for one in changes if one.kind.kind == "topic"]


def moved(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=-2, **fields)


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        (partition(1, 1), "partitions", 2),
        (moved(replicas=[1, 2]), "replicationFactor", 2),
        (config("retention.ms", "2"), "configs", {"retention.ms": "2"}),
        (config("retention.ms", None), "configs", {}),
    ],
)
def test_topic_is_told_when_its_partitions_factor_or_configs_change(
    record: Message, field: str, value: Any
) -> None:
    fold = ViewFold()
    made = changes_of(topic(1), partition(1, 0), config("retention.ms", "1"), fold=fold)
    (*_, before) = shapes(made)
    found = changes_of(record, first=3, fold=fold)
    assert [one[:4] for one in told(found)][1:] == [(3, 1, "u", "topic")]
    assert shapes(found) == [before | {field: value}]


def test_replicas_count_for_the_factor_when_their_reassignment_ends() -> None:
    fold = ViewFold()
    changes_of(topic(1), partition(1, 0), fold=fold)
    found = changes_of(moved(replicas=[1, 2, 3], adding_replicas=[2, 3]), first=2, fold=fold)
    assert shapes(found) == []
    (end,) = shapes(changes_of(moved(adding_replicas=[], isr=[1, 2, 3]), first=3, fold=fold))
    assert end["replicationFactor"] == 3


def test_changes_of_leaders_and_other_configs_are_none_of_the_topic() -> None:
    fold = ViewFold()
    changes_of(topic(1), partition(1, 0), fold=fold)
    others = [config("a", "1", kind=4, resource="1"), config("a", "1", resource="t2")]
    found = changes_of(moved(isr=[1, 2]), partition(1, 0), *others, first=2, fold=fold)
    assert len(found) == 4 and shapes(found) == []


def test_topic_that_is_deleted_in_the_batch_that_changed_it_was_as_it_was_told() -> None:
    fold = ViewFold()
    *_, last = changes_of(topic(1), partition(1, 0), fold=fold)
    found = changes_of(config("a", "1"), partition(1, 1), removed(1), topic(2), first=2, fold=fold)
    (gone,) = (one for one in found if one.kind.kind == "topic" and one.op == "d")
    assert gone.before == last.after
    assert told(found)[-1] == (5, 0, "c", "topic", "t2")


def test_slices_of_a_batch_do_not_move_the_change_of_a_topic() -> None:
    parts = [partition(1, index) for index in range(4)]
    messages = [topic(1), *parts, config("a", "1"), NoOpRecord()]
    records = [
        Record(offset=at, timestamp=at, value=encode_metadata_record(one, one.VERSIONS[-1]))
        for at, one in enumerate(messages)
    ]
    header = decode_batch(encode_batch(records, partition_leader_epoch=3)).header
    for size in (1, 2, 5):
        slices = [records[at : at + size] for at in range(0, 7, size)]
        found = [one for one in ViewFold().take(header, slices) if isinstance(one, Change)]
        assert told(found) == told(changes_of(*messages))
        assert [one.timestamp for one in found] == [0, 1, 2, 3, 4, 5, 6], "that of the last record"


def test_topic_of_an_aborted_transaction_is_not_told() -> None:
    fold = ViewFold()
    changes_of(topic(1), partition(1, 0), fold=fold)
    within = [BeginTransactionRecord(), partition(1, 1), AbortTransactionRecord()]
    assert changes_of(*within, NoOpRecord(), first=2, fold=fold) == []


def test_deleted_topic_takes_its_partitions_and_configs() -> None:
    parts = [partition(1, index) for index in (10, 2)]
    configs = [config("retention.ms", "5"), config("segment.ms", "6")]
    found = changes_of(topic(1), *parts, *configs, removed(1))
    assert told(found)[-4:] == [
        (5, 0, "d", "partition", "t1", 2),
        (5, 1, "d", "partition", "t1", 10),
        (5, 2, "d", "config", "TOPIC", "t1"),
        (5, 3, "d", "topic", "t1"),
    ]


def test_config_changes_the_entity_of_its_resource() -> None:
    one, two = "retention.ms", "segment.bytes"
    found = changes_of(
        topic(1), config(one, "1"), config(two, "2"), config(one, None), config(two, None)
    )
    assert [change.op for change in found[1:]] == ["c", "u", "u", "d"], "the topic is as before"
    kind, before, after = found[2].kind, found[2].before, found[2].after
    assert kind.fields(before)["configs"] == {one: "1"}
    assert kind.fields(after)["configs"] == {one: "1", two: "2"}


def test_order_of_a_record_with_many_changes_does_not_depend_on_history() -> None:
    elr = [partition(number, index, elr=True) for number in (2, 1) for index in (1, 0)]
    first, again = ViewFold(), ViewFold()
    changes_of(topic(2), topic(1), *elr, fold=first)
    changes_of(topic(1), topic(2), *reversed(elr), fold=again)
    found, same = (
        told(changes_of(ClearElrRecord(topic_name=""), first=6, fold=one)) for one in (first, again)
    )
    assert found == same
    assert [one[4:] for one in found] == [("t1", 0), ("t1", 1), ("t2", 0), ("t2", 1)]


def test_transaction_makes_its_changes_at_its_end() -> None:
    records = [BeginTransactionRecord(), topic(1), partition(1, 0), EndTransactionRecord()]
    found = changes_of(*records, topic(2), first=10)
    assert told(found) == [
        (13, 0, "c", "topic", "t1"),
        (13, 1, "c", "partition", "t1", 0),
        (14, 0, "c", "topic", "t2"),
        (14, 1, "u", "topic", "t1"),
    ]
    assert [one.source.offset for one in found] == [11, 12, 14, 12]
    assert [one.source.transaction_end for one in found] == [13, 13, None, 13]


def test_transaction_over_several_batches() -> None:
    fold = ViewFold()
    assert changes_of(BeginTransactionRecord(), topic(1), fold=fold) == []
    assert changes_of(topic(2), first=2, fold=fold) == []
    found = changes_of(EndTransactionRecord(), first=3, timestamp=2000, fold=fold)
    assert [(one.source.offset, one.timestamp) for one in found] == [(1, 2000), (2, 2000)]


def test_aborted_transaction_makes_no_changes() -> None:
    found = changes_of(BeginTransactionRecord(), topic(1), AbortTransactionRecord(), topic(2))
    assert told(found) == [(3, 0, "c", "topic", "t2")]


def test_record_that_changes_nothing_makes_no_change() -> None:
    broker = RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True)
    found = changes_of(broker, FenceBrokerRecord(id=1, epoch=5), config("a", "1"), config("a", "1"))
    assert [one[2:4] for one in told(found)] == [("c", "broker"), ("c", "config")]


def test_record_that_does_not_fit_or_cannot_be_decoded_is_passed_over() -> None:
    fold = ViewFold()
    records = [Record(offset=at, timestamp=1, value=value) for at, value in enumerate((b"x", None))]
    batch = decode_batch(encode_batch(records, partition_leader_epoch=3))
    assert list(fold.take(batch.header, [batch.records])) == [None]
    assert told(changes_of(removed(7), topic(1), first=2, fold=fold)) == [
        (3, 0, "c", "topic", "t1")
    ]
    offsets_told = [notice.partition(":")[0] for notice in fold.notices]
    assert offsets_told == ["log, offset 0", "log, offset 1", "log, offset 2"]


def test_more_changes_than_numbers_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "CHANGES_MAX", 2)
    with pytest.raises(ViewOverflow, match="offset 4"):
        changes_of(BeginTransactionRecord(), topic(1), topic(2), topic(3), EndTransactionRecord())


def test_every_other_kind_has_its_names() -> None:
    entity = [EntityData(entity_type="user", entity_name="ann")]
    found = changes_of(
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.5),
        ProducerIdsRecord(next_producer_id=1000),
        UserScramCredentialRecord(name="ann", mechanism=2, salt=b"s", iterations=4096),
        config("num.io.threads", "4", kind=4, resource=""),
    )
    assert [one[3:] for one in told(found)] == [
        ("feature", "metadata.version"),
        ("quota", "user(ann)"),
        ("producer_ids",),
        ("user", "ann", "SCRAM-SHA-512"),
        ("config", "BROKER", ""),
    ]
    values = [one.kind.fields(one.after) for one in found]
    assert values[0] == {"feature": "metadata.version", "level": 25, "release": "4.0-IV3"}
    assert values[1] == {"entity": "user(ann)", "quotas": {"producer_byte_rate": 1.5}}
    assert values[2] == {"nextProducerId": 1000}
    assert values[3]["salt"] == "(redacted)" and values[3]["iterations"] == 4096


def test_change_has_what_was_before_and_what_is_now() -> None:
    found = changes_of(topic(1), config("my.secret", "x"), config("my.secret", "y"))
    record = ViewEncoder("cluster").record("changes", found[-2])
    assert json.loads(record.key or b"") == {
        "kind": "config",
        "resourceType": "TOPIC",
        "resourceName": "t1",
    }
    hidden = {"resourceType": "TOPIC", "resourceName": "t1", "configs": {"my.secret": "(redacted)"}}
    assert json.loads(record.value or b"") == {
        "op": "u",
        "kind": "config",
        "key": {"resourceType": "TOPIC", "resourceName": "t1"},
        "before": hidden,
        "after": hidden,
        "source": {
            "cluster_id": "cluster",
            "offset": 2,
            "epoch": 3,
            "record_type": "CONFIG_RECORD",
            "record_version": 0,
            "transaction_end": None,
        },
        "ts_ms": 1000,
    }


def test_fold_that_is_dropped_releases_its_image() -> None:
    """A view is folded anew each time the log is cut at a snapshot."""
    with no_reference_cycles(ViewFold, Image):
        changes_of(topic(1), partition(1, 0))
