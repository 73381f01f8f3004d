"""Records and batches of views: JSON, tombstones, Connect's schemas, and the limits of a batch."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from gateway.ports.view_topics import CHANGES, VIEWS
from gateway.views.encode import BATCH_BYTES, ViewEncoder, end_marker_batch
from gateway.views.fold import READ, Snapshot, Source
from gateway.views.schemas import (
    KEY_FIELDS,
    connect_schema,
    headers_schema,
    json_schema,
    spark_schema,
    spark_schemas,
)
from kwire.cluster import view_offsets as offsets
from kwire.records import Compression
from kwire.records.batch import decode_batch
from tests.gateway.views.test_fold import changes_of, config, partition, removed, topic


def test_entity_that_is_gone_has_a_tombstone() -> None:
    created, gone = changes_of(topic(1), removed(1))
    encoder = ViewEncoder("c")
    first, last = (encoder.record("topics", one) for one in (created, gone))
    assert first.key == last.key == b'{"name":"t1"}'
    assert json.loads(first.value or b"")["name"] == "t1" and last.value is None
    assert b'"op":"d"' in (encoder.record(CHANGES, gone).value or b"")


def test_only_the_kinds_of_a_view_are_in_it() -> None:
    changes = changes_of(topic(1), partition(1, 0), config("a", "1"))
    encoder = ViewEncoder("c")
    for view, count in (
        ("topics", 2),
        ("partitions", 1),
        ("configs", 1),
        ("acls", 0),
        (CHANGES, 4),
    ):
        batches = list(encoder.batches(view, changes))
        assert sum(len(decode_batch(one.data).records) for one in batches) == count


def test_batch_ends_before_its_offsets_span_what_every_client_can_read() -> None:
    near = changes_of(topic(1)) + changes_of(topic(2), first=63)
    far = changes_of(topic(3), first=64)
    batches = list(ViewEncoder("c").batches("topics", near + far))
    assert [one.last_offset for one in batches] == [offsets.at(63), offsets.at(64)]
    assert [len(decode_batch(one.data).records) for one in batches] == [2, 1]
    for one in batches:
        header = decode_batch(one.data).header
        assert header.last_offset - header.base_offset < 2**30


def test_batch_ends_at_its_size_and_large_ones_are_compressed() -> None:
    changes = changes_of(topic(1), *(partition(1, index) for index in range(1)))
    many = [changes[1]._replace(offset=offsets.at(1) + number) for number in range(1000)]
    batches = [decode_batch(one.data) for one in ViewEncoder("c").batches("partitions", many)]
    assert len(batches) > 1
    for batch in batches:
        assert batch.header.compression == Compression.GZIP
        assert sum(len(one.value or b"") for one in batch.records) <= BATCH_BYTES + 1000
    (small,) = ViewEncoder("c").batches("partitions", many[:1])
    assert decode_batch(small.data).header.compression == Compression.NONE


def test_batch_has_one_epoch() -> None:
    (one,) = changes_of(topic(1))
    other = one._replace(offset=offsets.at(1), epoch=4)
    batches = list(ViewEncoder("c").batches("topics", [one, other]))
    epochs = [decode_batch(batch.data).header.partition_leader_epoch for batch in batches]
    assert epochs == [3, 4]


def test_filler_is_a_control_batch_before_the_end() -> None:
    batch = decode_batch(end_marker_batch(offsets.at(7), 3))
    assert batch.header.is_control and batch.header.next_offset == offsets.at(7)
    assert batch.header.partition_leader_epoch == 3


COMPLETE = Snapshot(14, 3, offsets.of_snapshot(14), 2, 900)


def test_every_record_names_its_cluster_and_one_of_a_snapshot_the_snapshot() -> None:
    created, gone = changes_of(topic(1), removed(1))
    of_snapshot = created._replace(op=READ, source=Source(13, 3, None, 0, None))
    encoder = ViewEncoder("c1")
    for view in (CHANGES, "topics"):
        for change in (created, gone):
            assert encoder.record(view, change).headers == (("cluster_id", b"c1"),)
        headers = encoder.record(view, of_snapshot).headers
        assert headers == (("cluster_id", b"c1"), ("snapshot", b"14-3"))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("schemas", [False, True])
def test_every_view_says_that_a_snapshot_is_complete(view: str, schemas: bool) -> None:
    (batch,) = ViewEncoder("c1", schemas=schemas).batches(view, [], COMPLETE)
    (marker,) = decode_batch(batch.data).records
    assert marker.offset == batch.last_offset == offsets.at(14) - 1
    assert marker.timestamp == 900
    headers = {name: (value or b"").decode() for name, value in marker.headers}
    assert headers == {
        "cluster_id": "c1", "snapshot": "14-3", "snapshot_complete": str(offsets.of_snapshot(14)),
    }  # fmt: skip
    jsonschema.validate(headers, headers_schema(view))
    key = json.loads(marker.key or b"")
    if schemas:
        assert conforms(key["payload"], key["schema"])
        return
    jsonschema.validate(key, json_schema(view, key=True))
    if view != CHANGES:
        assert marker.value is None and set(key.values()) <= {"", -1}
        assert key.keys() == set(KEY_FIELDS[view])
        return
    value = json.loads(marker.value or b"")
    jsonschema.validate(value, json_schema(view))
    named = {"endOffset": 14, "epoch": 3}
    assert key == {"kind": "snapshot", **named} and value["key"] == named
    first = offsets.of_snapshot(14)
    assert value["after"] == {**named, "firstOffset": first, "entities": 2}
    assert (value["op"], value["kind"], value["before"]) == ("r", "snapshot", None)


def test_marker_is_behind_the_entities_of_the_snapshot() -> None:
    (change,) = changes_of(topic(1))
    one = change._replace(offset=offsets.of_snapshot(14), op=READ)
    (batch,) = ViewEncoder("c").batches("topics", [one], COMPLETE)
    keys = [record.key for record in decode_batch(batch.data).records]
    assert keys == [b'{"name":"t1"}', b'{"name":""}']


@pytest.mark.parametrize("schemas", [False, True])
@pytest.mark.parametrize("view", ["changes", "topics"])
def test_first_byte_of_the_key_tells_a_control_record_from_a_record(
    view: str, schemas: bool
) -> None:
    """As docs/clients.md tells readers whose client does not hide control records."""
    (one,) = ViewEncoder("c", schemas=schemas).batches(view, changes_of(topic(1)))
    keys = [record.key or b"" for record in decode_batch(one.data).records]
    control = [
        record.key or b"" for record in decode_batch(end_marker_batch(offsets.at(7), 3)).records
    ]
    assert {key[0] for key in keys} == {ord("{")} and {key[0] for key in control} == {0}


@pytest.mark.parametrize("view", VIEWS)
def test_schemas_are_valid(view: str) -> None:
    for key in (False, True):
        jsonschema.Draft202012Validator.check_schema(json_schema(view, key=key))
        jsonschema.Draft202012Validator.check_schema(headers_schema(view))
        assert connect_schema(view, key=key)["optional"] is False


def test_schemas_of_values_have_a_version() -> None:
    for schema in (json_schema, connect_schema):
        assert [schema(view)["version"] for view in ("topics", "acls", CHANGES)] == [3, 2, 2]
        assert "version" not in schema("topics", key=True)


def test_columns_for_spark_have_every_field_once() -> None:
    shape = "`partitions` INT, `replicationFactor` INT, `configs` MAP<STRING, STRING>"
    assert spark_schema("topics") == f"`name` STRING, `id` STRING, {shape}"
    listener = "`listenerName`: STRING, `securityProtocol`: STRING, `host`: STRING, `port`: INT"
    controllers = spark_schema("controllers")
    assert f"`listeners` ARRAY<STRUCT<{listener}>>, " in controllers
    assert "`supportedFeatures` MAP<STRING, STRING>" in controllers
    assert spark_schema("quotas") == "`entity` STRING, `quotas` MAP<STRING, DOUBLE>"
    assert "`before` STRING, `after` STRING, `source` STRUCT<" in spark_schema(CHANGES)
    assert spark_schema("brokers", key=True) == "`id` INT"
    partitions = spark_schemas()["partitions"]
    assert partitions["topic"] == "__cluster_metadata.partitions"
    assert partitions["keys"] == ["topic", "partition"]
    assert partitions["key"] == "`topic` STRING, `partition` INT"
    assert partitions["value"] == spark_schema("partitions")


#: The Python types of Connect's (``JsonConverter``).
_TYPES: dict[str, Any] = {
    "string": str, "int32": int, "int64": int, "boolean": bool, "double": float,
    "array": list, "map": dict, "struct": dict,
}  # fmt: skip


def conforms(value: Any, schema: Any) -> bool:
    """Whether ``JsonConverter`` reads ``value`` by ``schema``."""
    if value is None:
        return bool(schema["optional"])
    if not isinstance(value, _TYPES[schema["type"]]):
        return False
    match schema["type"]:
        case "array":
            return all(conforms(one, schema["items"]) for one in value)
        case "map":
            return all(conforms(one, schema["values"]) for one in value.values())
        case "struct":
            fields = {one["field"]: one for one in schema["fields"]}
            return value.keys() == fields.keys() and all(
                conforms(value[name], one) for name, one in fields.items()
            )
        case _:
            return True


def test_records_with_schemas_are_what_connect_reads() -> None:
    changes = changes_of(topic(1), partition(1, 0), config("retention.ms", "1"), removed(1))
    plain, encoder = ViewEncoder("c"), ViewEncoder("c", schemas=True)
    for change in changes:
        for view in (CHANGES, str(change.kind.view)):
            record, same = encoder.record(view, change), plain.record(view, change)
            key = json.loads(record.key or b"")
            assert key.keys() == {"schema", "payload"} and conforms(key["payload"], key["schema"])
            assert key["schema"] == connect_schema(view, key=True)
            if record.value is None:
                assert same.value is None
                continue
            value = json.loads(record.value)
            assert conforms(value["payload"], value["schema"])
            expected = json.loads(same.value or b"")
            if view == CHANGES:
                assert json.loads(key["payload"]) == json.loads(same.key or b"")
                for member in ("key", "before", "after"):
                    shown = value["payload"][member]
                    value["payload"][member] = None if shown is None else json.loads(shown)
            else:
                assert key["payload"] == json.loads(same.key or b"")
            assert value["payload"] == expected
