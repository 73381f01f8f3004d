"""The reference codec against bytes, JSON and verdicts of Kafka's own classes (two releases)."""

from __future__ import annotations

import itertools
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.reference import valid_versions
from kwire.reference.facts import facts, families, name_by_key
from kwire.reference.frames import (
    dissect_metadata_record,
    dissect_request,
    dissect_response,
    parse_request,
    parse_response,
    peek,
    request_header_version,
    response_header_version,
)
from tests.kwire.reference.jsonform import to_json, unknown_tags
from tests.kwire.reference.releases import reference_of
from tests.shared import SHARED, needs_shared, vectors

pytestmark = needs_shared
RELEASES = ("4.4.0", "4.3.1")


def _count(name: str, kafka: str) -> int:
    lines = (SHARED / "vectors" / kafka / "COUNTS").read_text().splitlines()
    return next(int(n) for n, what in (line.split() for line in lines) if what == name)


@pytest.mark.parametrize("kafka", RELEASES)
def test_messages_are_equal_both_ways(kafka: str) -> None:
    """Bytes -> value -> the same bytes; the value is what Kafka's converter printed; unknown tags
    path by path.
    """
    done = 0
    for v in vectors("messages", kafka):
        codec, raw = reference_of(v["api"], v["version"], kafka), bytes.fromhex(v["hex"])
        value = codec.parse(raw)
        where = (v["api"], v["version"], v["mode"])
        assert codec.build(value) == raw, where
        assert to_json(codec, value) == v["json"], where
        assert _unordered(unknown_tags(codec, value)) == _unordered(v.get("unknown", [])), where
        done += 1
    assert done == _count("messages", kafka)
    print(f"Kafka {kafka}: {done} messages equal both ways")


def _unordered(tags: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(str, tags))


def test_a_dissection_holds_every_byte_once() -> None:
    """The leaves of a tree lie behind one another without a gap, except for the inside of strings
    and the like.
    """
    for v in itertools.islice(vectors("messages"), 0, None, 7):
        codec, raw = reference_of(v["api"], v["version"], "4.4.0"), bytes.fromhex(v["hex"])
        tree = codec.dissect(raw)
        assert tree.failure() is None
        assert (tree.start, tree.end) == (0, len(raw))
        leaves = [node for _, node in tree.walk() if not node.children]
        at = 0
        for leaf in leaves:
            assert leaf.start == at, (v["api"], v["version"], leaf)
            at = leaf.end
        assert at == len(raw)


#: Where the reference refuses what Kafka's readers take, by rule (docs/strictness.md), with the
#: number of vectors.
STRICTER = {
    ("4.4.0", "variants"): {"bad-utf8": 2185, "varint-range": 370, "tag-size": 113, "version": 143},
    ("4.4.0", "messages-mutants"): {"bad-utf8": 152, "tag-size": 3},
    ("4.3.1", "variants"): {"bad-utf8": 2145, "varint-range": 509, "tag-size": 114, "version": 137},
    ("4.3.1", "messages-mutants"): {"bad-utf8": 155, "tag-size": 3},
}


@pytest.mark.parametrize(
    ("kafka", "name"), list(itertools.product(RELEASES, ("variants", "messages-mutants")))
)
def test_verdicts_are_never_laxer_than_kafkas(kafka: str, name: str) -> None:
    """Every message that Kafka refuses is refused; the others are read the same, or refused by a
    named rule that is counted.
    """
    stricter: Counter[str] = Counter()
    done = 0
    for v in vectors(name, kafka):
        rule = _verdict(v, kafka)
        stricter[rule] += bool(rule)
        done += 1
    print(kafka, name, dict(+stricter))
    assert dict(+stricter) == STRICTER[kafka, name]
    assert done == _count(name, kafka)


def _verdict(v: dict[str, Any], kafka: str) -> str:
    """The rule that refuses what Kafka takes, or "" where both agree."""
    raw = bytes.fromhex(v["hex"])
    where = (v["api"], v["version"], v["mut"], v["hex"])
    try:
        codec = reference_of(v["api"], v["version"], kafka)
        value, end = codec.parse_from(raw)
    except UnsupportedVersion:
        return "version" if v["ok"] else ""
    except DecodeError as error:
        assert error.rule and 0 <= error.offset <= len(raw), where
        return error.rule if v["ok"] else ""
    assert v["ok"], f"laxer than Kafka: {where}: {v['error']}"
    assert to_json(codec, value) == v["json"], where
    assert len(raw) - end == v["remaining"], where
    assert codec.dissect(raw, allow_trailing=True).failure() is None, where
    _same_rewrite(codec, value, v)
    return ""


def _same_rewrite(codec: Any, value: dict[str, Any], v: dict[str, Any]) -> None:
    """The decoded message is written as Kafka writes it, or refused where Kafka refuses."""
    raw = bytes.fromhex(v["hex"])
    if "rewrite_error" in v:
        with pytest.raises(EncodeError):
            codec.build(value)
    else:
        expected = bytes.fromhex(v["rehex"]) if "rehex" in v else raw[: len(raw) - v["remaining"]]
        assert codec.build(value) == expected, (v["api"], v["version"], v["mut"])


@pytest.mark.parametrize("kafka", RELEASES)
def test_requests_and_responses_with_their_headers(kafka: str) -> None:
    done = 0
    for v in vectors("requests", kafka):
        if v["kind"] == "header":
            _check_header(v, kafka)
        else:
            _check_frame(v, kafka)
        done += 1
    assert done == _count("requests", kafka)


def _check_frame(v: dict[str, Any], kafka: str) -> None:
    raw, key, version = bytes.fromhex(v["hex"]), v["key"], v["version"]
    if v["kind"] == "request":
        header, body = parse_request(raw)
        header_version, tree = request_header_version(key, version), dissect_request(raw)
    else:
        header, body = parse_response(raw, key, version)
        header_version, tree = (
            response_header_version(key, version),
            dissect_response(raw, key, version),
        )
    assert header_version == v["header_version"]
    head = reference_of(
        "RequestHeader" if v["kind"] == "request" else "ResponseHeader", header_version, "4.4.0"
    )
    codec = reference_of(v["api"], version, kafka)
    # Field names, unlike bytes, changed between the releases.
    named, _ = codec.parse_from(raw, v["header_size"])
    assert to_json(head, dict(header)) == v["header"]
    assert to_json(codec, named) == v["json"]
    assert head.build(header) + codec.build(named) == raw
    assert tree.failure() is None
    assert tree.children[1].value == body
    assert tree.children[1].start == v["header_size"]


def _check_header(v: dict[str, Any], kafka: str) -> None:
    raw = bytes.fromhex(v["hex"])
    head = dissect_request(raw).children[0]
    assert (head.failure() is None) == v["ok"], v
    if v["ok"]:
        assert request_header_version(v["api_key"], v["api_version"]) == v["header_version"]
        assert len(raw) - head.end == v["left"]
        key, version = peek(raw)
        name = name_by_key("request", key)
        assert _supported(name, version, kafka) == v["supported"]


def _supported(name: str, version: int, kafka: str) -> bool:
    try:
        reference_of(name, version, kafka)
    except UnsupportedVersion:
        return False
    return True


@pytest.mark.parametrize("kafka", RELEASES)
def test_prefixed_blobs(kafka: str) -> None:
    """Coordinator records and consumer protocol blobs stand behind two bytes of type or version."""
    done = 0
    for v in vectors("prefixed", kafka):
        raw, codec = bytes.fromhex(v["hex"]), reference_of(v["api"], v["version"], kafka)
        value, end = codec.parse_from(raw, 2)
        assert end == len(raw)
        assert codec.build(value) == raw[2:]
        assert to_json(codec, value) == v["json"]
        done += 1
    assert done == _count("prefixed", kafka)


@pytest.mark.parametrize("kafka", RELEASES)
def test_metadata_records_in_their_frame(kafka: str) -> None:
    for v in vectors("frames", kafka):
        tree = dissect_metadata_record(bytes.fromhex(v["hex"]))
        assert tree.failure() is None, v
        assert [node.value for node in tree.children[:3]] == [1, v["key"], v["version"]]
        codec = reference_of(v["api"], v["version"], kafka)
        assert tree.children[3].name == v["api"]
        assert to_json(codec, tree.children[3].value) == v["json"]


#: Kafka takes versions above the highest of most records: nothing says what such bytes mean.
STRICTER_FRAMES = {
    ("4.4.0", "frames-negative"): {"version": 35},
    ("4.4.0", "frames-mutants"): {"bad-utf8": 10, "tag-size": 3, "version": 1},
    ("4.3.1", "frames-negative"): {"version": 34},
    ("4.3.1", "frames-mutants"): {"bad-utf8": 10, "tag-size": 3, "version": 2},
}


@pytest.mark.parametrize(
    ("kafka", "name"), list(itertools.product(RELEASES, ("frames-negative", "frames-mutants")))
)
def test_verdicts_on_metadata_records(kafka: str, name: str) -> None:
    stricter: Counter[str] = Counter()
    for v in vectors(name, kafka):
        failure = dissect_metadata_record(bytes.fromhex(v["hex"])).failure()
        assert failure is not None or v["ok"], f"laxer than Kafka: {v}"
        if failure is not None and v["ok"]:
            stricter[failure.rule] += 1
    assert dict(stricter) == STRICTER_FRAMES[kafka, name]


@pytest.mark.parametrize("kafka", RELEASES)
def test_defaults_are_kafkas(kafka: str) -> None:
    """The default of every field, in a value that is built from nothing and read back."""
    checked = 0
    for name, schema in families()["kafka"].items():
        for version in valid_versions(facts(name)):
            codec = reference_of(name, version, "4.4.0")
            assert codec.build({}) == codec.build(codec.declaration.default()), (name, version)
            assert schema["name"] == name
            checked += 1
    by_mode = [v for v in vectors("messages", kafka) if v["mode"] == "default"]
    for v in by_mode:
        built = reference_of(v["api"], v["version"], kafka).build({})
        assert built == bytes.fromhex(v["hex"]), (v["api"], v["version"])
    assert checked == 744
    assert len(by_mode) == {"4.4.0": 744, "4.3.1": 728}[kafka]


@pytest.mark.parametrize("kafka", RELEASES)
def test_writer_refuses_and_drops_the_same_fields_as_kafkas(kafka: str) -> None:
    verdicts: Counter[str] = Counter()
    for v in vectors("writechecks", kafka):
        codec = reference_of(v["api"], v["version"], kafka)
        path = v["path"].split(".")
        value = _with_field(
            codec.schema,  # type: ignore[arg-type]
            codec.schema["fields"],
            path,
            None if v["what"].startswith("null") else ...,
        )
        if v["verdict"] == "refused":
            with pytest.raises(EncodeError):
                codec.build(value)
        else:
            blank = (
                _with_field(codec.schema, codec.schema["fields"], path[:-1], ...)  # type: ignore[arg-type]
                if path[1:]
                else _records({}, codec.schema["fields"])
            )
            assert codec.build(value) == codec.build(blank), v
        verdicts[v["verdict"]] += 1
    assert verdicts["refused"] > 900 and verdicts.total() == _count("writechecks", kafka)


def _with_field(
    schema: dict[str, Any], fields: list[dict[str, Any]], path: list[str], value: Any
) -> dict[str, Any]:
    """A value with one element in every array on the way to ``path``, where ``value`` (``...``: not
    the default) stands.
    """
    field = next(f for f in fields if f["name"][0].lower() + f["name"][1:] == path[0])
    inner_fields = _inner(schema, field)
    if len(path) > 1:
        inner: Any = _with_field(schema, inner_fields, path[1:], value)
    elif value is not ...:
        return _records({field["name"]: value}, fields)
    elif inner_fields:
        inner = (
            _records({}, inner_fields)
            if field["type"].startswith("[]")
            else _changed(schema, inner_fields)
        )
    else:
        inner = _other(field["type"].removeprefix("[]"), field.get("default"))
    return _records({field["name"]: [inner] if field["type"].startswith("[]") else inner}, fields)


def _inner(schema: dict[str, Any], field: dict[str, Any]) -> list[dict[str, Any]]:
    common = {s["name"]: s["fields"] for s in schema.get("commonStructs", ())}
    found: list[dict[str, Any]] = field.get(
        "fields", common.get(field["type"].removeprefix("[]"), [])
    )
    return found


def _records(value: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Records, which start at null and which some versions refuse so, are empty where nothing is
    said.
    """
    return {f["name"]: b"" for f in fields if f["type"] == "records"} | value


def _changed(schema: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    field = next((f for f in fields if not _inner(schema, f)), fields[0])
    if inner := _inner(schema, field):
        return {field["name"]: [{}] if field["type"].startswith("[]") else _changed(schema, inner)}
    other = _other(field["type"].removeprefix("[]"), field.get("default"))
    return {field["name"]: [other] if field["type"].startswith("[]") else other}


def _other(type_: str, default: Any) -> Any:
    if type_ in ("bytes", "records"):
        return b"x"
    if type_ == "string":
        return "other"
    if type_ == "uuid":
        return bytes(range(16))
    if type_ == "bool":
        return str(default).lower() != "true"
    return 1 if str(default) != "1" else 2


def test_captured_frames_are_dissected_and_built_again() -> None:
    """Every fifth frame that real Kafka processes exchanged, without the deliberate junk."""
    done = 0
    for frame in itertools.islice(_captured(), 0, None, 5):
        raw = bytes.fromhex(frame["hex"])
        tree = (
            dissect_request(raw)
            if frame["direction"] == "req"
            else dissect_response(raw, frame["api_key"], frame["version"])
        )
        assert tree.failure() is None, (frame["scenario"], frame["seq"])
        head, body = tree.children[:2]
        rebuilt = b"".join(
            reference_of(n.name, int(n.type.removeprefix("version ")), "4.4.0").build(n.value)
            for n in (head, body)
        )
        assert rebuilt == raw[: body.end]
        done += 1
    assert done == 2589


def _captured() -> Iterator[dict[str, Any]]:
    """The frames that Kafka itself decodes and encodes again to the same bytes."""
    good = {
        (line["scenario"], line["seq"], line["direction"])
        for line in _lines("public.decoded.jsonl.xz")
        if line.get("decoded", {}).get("reencodes_equal")
    }
    for frame in _lines("public.frames.jsonl.xz"):
        if (frame["scenario"], frame["seq"], frame["direction"]) in good:
            yield frame


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with lzma.open(SHARED / "wire" / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
