"""The reference codec by itself: its interface, defaults, refusals, the tree of a dissection, and
that it stands alone.
"""

from __future__ import annotations

import ast
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import kwire.reference
from kwire.errors import DecodeError, EncodeError, UnknownApi, UnsupportedVersion
from kwire.reference import UNKNOWN_TAGS, Budget, Node, ParseTree, Reference, reference
from kwire.reference.facts import DATA_FILE, facts, families, name_by_key
from kwire.reference.pack import gather
from kwire.uuid import Uuid
from tests.work import work

ROOM = Path(kwire.reference.__file__).parent
SCHEMAS = ROOM.parents[1] / "schemas"


def schema(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A schema of one's own, flexible from version 1."""
    base = {"name": "Sample", "type": "data", "validVersions": "0-1", "flexibleVersions": "1+"}
    return base | {"fields": [{"versions": "0+"} | f for f in fields]} | more


def test_a_value_is_plain_python() -> None:
    codec = reference("FetchRequest", 12)
    value = codec.parse(
        codec.build(
            {"MaxWaitMs": 500, "Topics": [{"Topic": "t", "Partitions": [{"Partition": 3}]}]}
        )
    )
    assert value["MaxWaitMs"] == 500
    assert value["MaxBytes"] == 0x7FFFFFFF  # the default, hexadecimal in the schema
    assert value["ClusterId"] is None  # tagged, not in the bytes
    assert "ReplicaState" not in value  # of a later version
    assert value["Topics"][0]["Partitions"][0]["Partition"] == 3
    assert reference("FetchRequest", 13).parse(
        reference("FetchRequest", 13).build({"Topics": [{}]})
    )["Topics"][0]["TopicId"] == Uuid(16)


def test_unknown_tagged_fields_are_kept_in_order() -> None:
    codec = reference("FetchRequest", 12)
    value = codec.parse(codec.build({"ClusterId": "c", UNKNOWN_TAGS: [(7, b"x"), (300, b"")]}))
    assert value[UNKNOWN_TAGS] == [(7, b"x"), (300, b"")]
    assert value["ClusterId"] == "c"


@pytest.mark.parametrize(
    "tags",
    [[(2, b""), (2, b"")], [(3, b""), (2, b"")], [(0, b"")], [(2**31 - 1, b"")], [(-1, b"")]],
)
def test_unknown_tags_that_kafka_cannot_write_are_refused(tags: list[tuple[int, bytes]]) -> None:
    with pytest.raises(EncodeError):
        reference("FetchRequest", 12).build({UNKNOWN_TAGS: tags})


def test_unknown_tags_need_a_flexible_version() -> None:
    with pytest.raises(EncodeError, match="not flexible"):
        reference("FetchRequest", 11).build({UNKNOWN_TAGS: [(7, b"x")]})


def test_unknown_names_and_versions_are_refused() -> None:
    with pytest.raises(UnknownApi, match="FetchRequests"):
        reference("FetchRequests", 12)
    with pytest.raises(UnknownApi, match="kip/595"):
        reference("FetchRequest", 12, "kip/1")
    with pytest.raises(UnsupportedVersion, match="4 to 18"):
        reference("FetchRequest", 3)
    with pytest.raises(UnsupportedVersion, match="none any more"):
        reference("LeaderAndIsrRequest", 1)
    with pytest.raises(UnknownApi):
        name_by_key("request", 9999)


def test_numbers_of_metadata_records_are_the_metadata_logs() -> None:
    assert name_by_key("metadata", 2) == "TopicRecord"
    assert name_by_key("metadata", 3) == "PartitionRecord"


def test_forms_of_design_texts_stand_beside_the_shipped_ones() -> None:
    assert reference("AlterIsrRequest", 0, "kip/497").parse(bytes(16))["Topics"] == []
    with pytest.raises(UnknownApi):
        reference("AlterIsrRequest", 0)
    assert facts("VoteRequest", "kip/595") != facts("VoteRequest")
    envelope = reference("EnvelopeRequest", 0, "kip/590")
    value = envelope.parse(envelope.build({"RequestHeader": b"head", "RequestData": b"body"}))
    assert (value["RequestHeader"], value["RequestData"]) == (b"head", b"body")


def test_an_error_names_field_offset_and_rule() -> None:
    codec = reference("MetadataRequest", 1)
    with pytest.raises(DecodeError) as caught:
        codec.parse(codec.build({"Topics": [{"Name": "a"}, {"Name": "bcd"}]})[:-1])
    error = caught.value
    assert (error.path, error.offset, error.rule) == ("Topics[1].Name", 7, "truncated")
    with pytest.raises(DecodeError) as caught:
        codec.parse(codec.build({}) + b"x")
    assert (caught.value.offset, caught.value.rule) == (4, "trailing-bytes")
    assert codec.parse(codec.build({}) + b"x", allow_trailing=True) == {"Topics": []}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"Topics": [{"Partitions": [{"Partition": 2**31}]}]}, "Topics[0].Partitions[0].Partition"),
        ({"MaxWaitMs": True}, "MaxWaitMs"),
        ({"MaxWaitMs": None}, "MaxWaitMs"),
        ({"RackId": None}, "RackId"),
        ({"RackId": b"bytes"}, "RackId"),
        ({"RackId": "\ud800"}, "RackId"),
        ({"RackId": "x" * 32768}, "RackId"),
        ({"Topics": None}, "Topics"),
        ({"Topics": {}}, "Topics"),
        ({"Topics": [[]]}, "Topics[0]"),
        ({"ClusterId": 7}, "ClusterId"),
        ({"NoSuchField": 7}, ""),
        ({"ReplicaState": {"ReplicaId": 7}}, ""),
    ],
)
def test_values_that_cannot_be_written_name_the_field(value: dict[str, Any], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        reference("FetchRequest", 12).build(value)
    assert caught.value.path == path


def test_a_null_struct_outside_of_a_tag_and_inside_of_one() -> None:
    inner = {
        "name": "S",
        "type": "S",
        "nullableVersions": "0+",
        "fields": [{"name": "X", "type": "int8", "versions": "0+"}],
    }
    outside = Reference(schema(inner | {"default": "null"}), 1)
    assert outside.build({"S": None}) == b"\xff\x00"
    assert outside.build({"S": {"X": 5}}) == b"\x01\x05\x00\x00"
    inside = Reference(schema(inner | {"taggedVersions": "1+", "tag": 0, "default": "null"}), 1)
    assert inside.build({"S": None}) == b"\x00"
    assert inside.build({"S": {"X": 5}}) == b"\x01\x00\x03\x01\x05\x00"
    assert inside.parse(b"\x01\x00\x01\x00") == {"S": None}


def test_a_json_null_default_is_no_default() -> None:
    """Only the string is: the member starts empty, so null has to be written."""
    codec = reference("ConsumerGroupMemberMetadataValue", 0)
    empty = codec.parse(codec.build({}))["ClassicMemberMetadata"]
    assert empty == {"SessionTimeoutMs": 0, "SupportedProtocols": []}
    assert codec.build({"ClassicMemberMetadata": empty}) == codec.build({})
    assert codec.build({"ClassicMemberMetadata": None}).endswith(b"\x01\x00\x01\x00")


def test_defaults_are_new_objects_every_time() -> None:
    codec = reference("ConsumerGroupMemberMetadataValue", 0)
    first = codec.parse(codec.build({}))
    first["ClassicMemberMetadata"]["SupportedProtocols"].append("changed")
    assert codec.parse(codec.build({}))["ClassicMemberMetadata"]["SupportedProtocols"] == []


def test_a_tag_of_another_version_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        data = reference("FetchRequest", 12).build({})[:-1] + b"\x01\x01\x00"
        reference("FetchRequest", 12).parse(data)
    assert caught.value.rule == "tag-of-other-version"


def test_a_struct_that_contains_itself_is_refused() -> None:
    loop = schema(
        {"name": "A", "type": "[]Loop"},
        commonStructs=[
            {
                "name": "Loop",
                "versions": "0+",
                "fields": [{"name": "B", "type": "[]Loop", "versions": "0+"}],
            }
        ],
    )
    with pytest.raises(ValueError, match="contains itself"):
        Reference(loop, 0)


def test_field_of_an_undeclared_type_is_refused() -> None:
    with pytest.raises(ValueError, match="not declared: Nothing"):
        Reference(schema({"name": "A", "type": "Nothing"}), 0)


HOSTILE = [
    ("array of four billion", "MetadataRequest", 9, b"\xff\xff\xff\xff\x0f"),
    ("array of two billion", "MetadataRequest", 4, b"\x7f\xff\xff\xff\x00"),
    ("endless varint", "MetadataRequest", 9, b"\x80" * 1_000_000),
    ("a million tags", "ApiVersionsRequest", 3, b"\x01\x01\xc0\x84\x3d" + b"\x01\x00" * 10),
    ("a tag of a gigabyte", "ApiVersionsRequest", 3, b"\x01\x01\x01\x07\x80\x80\x80\x80\x04"),
    ("records of two gigabytes", "ProduceRequest", 3,
     bytes.fromhex("ffff 0001 00000000 00000001 0001 74 00000001 00000000 7fffffff")),
    ("bytes of two gigabytes", "SaslAuthenticateRequest", 0, b"\x7f\xff\xff\xff"),
    ("nothing", "FetchRequest", 12, b""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "data"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_hostile_bytes_cost_nothing(name: str, version: int, data: bytes) -> None:
    codec = reference(name, version)

    def parse() -> None:
        with pytest.raises(DecodeError):
            codec.parse(data)

    tracemalloc.start()
    parse()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(data) + 200_000
    print("WORK", name, work(parse))
    assert work(parse) < 3000
    assert codec.dissect(data).failure() is not None


def test_a_message_of_too_many_elements_is_refused() -> None:
    codec = reference("ListConfigResourcesRequest", 1)  # an array of int8
    data = codec.build({"ResourceTypes": [1] * 1000})
    assert len(codec.parse(data)["ResourceTypes"]) == 1000
    tree = ParseTree("root", "", 0, Budget(500))
    with pytest.raises(DecodeError) as caught:
        codec._read(data, 0, tree)
    assert caught.value.rule == "element-budget"
    assert sum(1 for _ in tree.root.walk()) < 510


def test_dissection_has_the_byte_range_of_every_value() -> None:
    codec = reference("MetadataRequest", 9)
    root = codec.dissect(codec.build({"Topics": [{"Name": "ab"}], UNKNOWN_TAGS: [(9, b"z")]}))
    assert (root.name, root.type, root.start, root.end, root.error) == (
        "MetadataRequest",
        "version 9",
        0,
        12,
        None,
    )
    assert root.value == codec.parse(codec.build(root.value))
    found = {
        node.name: (node.type, node.start, node.end, node.value)
        for _, node in root.walk()
        if node is not root
    }
    assert found["Topics"][:3] == ("[]MetadataRequestTopic", 0, 5)
    assert found["[0]"][:3] == ("MetadataRequestTopic", 1, 5)
    assert found["Name"] == ("string", 1, 4, "ab")
    assert found["AllowAutoTopicCreation"] == ("bool", 5, 6, True)
    assert found["unknown tag 9"] == ("bytes", 11, 12, b"z")


def test_a_dissection_ends_where_the_bytes_are_wrong() -> None:
    codec = reference("MetadataRequest", 1)
    data = codec.build({"Topics": [{"Name": "a"}, {"Name": "bcd"}]})[:-1]
    root = codec.dissect(data)
    broken = next(node for _, node in root.walk() if node.error is not None)
    assert (broken.name, broken.start, broken.end, broken.value) == ("Name", 7, len(data), None)
    assert root.failure() is broken.error
    assert [node.value for _, node in root.walk() if node.name == "Name"] == ["a", None]


def test_bytes_left_over_are_a_node_of_their_own() -> None:
    codec = reference("MetadataRequest", 1)
    root = codec.dissect(codec.build({}) + b"rest")
    rest = root.children[-1]
    assert (rest.start, rest.end, rest.value) == (4, 8, b"rest")
    failure = root.failure()
    assert failure is not None and failure.rule == "trailing-bytes"
    assert codec.dissect(codec.build({}) + b"rest", allow_trailing=True).end == 4


def test_shift_moves_nodes_and_their_errors() -> None:
    node = Node("a", "b", 1, 2, children=[Node("c", "d", 1, 2, error=DecodeError("e", offset=1))])
    node.move(10)
    assert (node.start, node.children[0].end) == (11, 12)
    failure = node.failure()
    assert failure is not None and failure.offset == 11


def test_the_shipped_schemas_are_those_of_the_repository() -> None:
    """Run ``python -m kwire.reference.pack`` when this fails."""
    assert families() == gather(SCHEMAS)
    assert len(families()["kafka"]) == 286
    assert facts("FetchRequest")["apiKey"] == 1


def test_pack_writes_the_schemas_that_it_reads(tmp_path: Path) -> None:
    (tmp_path / "kip" / "1").mkdir(parents=True)
    (tmp_path / "kip" / "1" / "Sample.json").write_text(json.dumps(schema()))
    (tmp_path / "kip" / "ORIGIN.json").write_text("{}")
    assert gather(tmp_path) == {"kip/1": {"Sample": schema()}}
    assert lzma.decompress((ROOM / DATA_FILE).read_bytes()).startswith(b'{"kafka":')


def test_reference_shares_no_coding_of_values_with_the_codec() -> None:
    """Independence is the point: a mistake in shared code would be in both."""
    allowed = {"kwire.errors", "kwire.printable", "kwire.uuid"}
    files = list(ROOM.glob("*.py"))
    assert len(files) > 5
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert (
                    not name.startswith("kwire")
                    or name in allowed
                    or name.startswith("kwire.reference")
                ), (path, name)
