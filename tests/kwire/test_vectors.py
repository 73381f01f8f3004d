"""Every message at every version, against bytes and JSON that Kafka's own classes wrote (two
releases).
"""

from __future__ import annotations

import itertools
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.errors import DecodeError, EncodeError, UnknownApi
from kwire.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from kwire.message import FieldInfo, Message, Struct
from kwire.registry import request_type
from tests.kwire.catalog import by_key, every_struct, message_class
from tests.shared import SHARED, needs_shared, vectors

pytestmark = needs_shared
RELEASES = ("4.4.0", "4.3.1")


def _count(name: str, kafka: str) -> int:
    lines = (SHARED / "vectors" / kafka / "COUNTS").read_text().splitlines()
    return next(int(n) for n, what in (line.split() for line in lines) if what == name)


@pytest.mark.parametrize("kafka", RELEASES)
def test_messages_are_equal_both_ways(kafka: str) -> None:
    """Bytes -> message -> the same bytes, and the JSON of Kafka's converter both ways."""
    done = 0
    for v in vectors("messages", kafka):
        cls, version, raw = message_class(v["api"], kafka), v["version"], bytes.fromhex(v["hex"])
        message = cls.decode(raw, version)
        assert message.encode(version) == raw, (v["api"], version, v["mode"])
        assert message.to_json(version) == v["json"], (v["api"], version, v["mode"])
        assert message.copy() == message
        if "unknown" not in v:
            again = cls.from_json(v["json"], version)
            assert again.encode(version) == raw, (v["api"], version, v["mode"])
            assert again == message
        done += 1
    assert done == _count("messages", kafka)
    print(f"Kafka {kafka}: {done} messages equal both ways")


@pytest.mark.parametrize("kafka", RELEASES)
def test_unknown_tagged_fields_are_kept(kafka: str) -> None:
    """Their tags and bytes are those that Kafka saw, path by path."""
    done = 0
    for v in vectors("messages", kafka):
        if "unknown" in v:
            message = message_class(v["api"], kafka).decode(bytes.fromhex(v["hex"]), v["version"])
            seen = Counter(
                (tag, data.hex()) for one in _structs(message) for tag, data in one.unknown_tags
            )
            assert seen == Counter((u["tag"], u["data"]) for u in v["unknown"]), (
                v["api"],
                v["version"],
            )
            done += 1
    assert done > 0


def _structs(value: Any) -> list[Struct]:
    found: list[Struct] = []
    if isinstance(value, Struct):
        found.append(value)
        for f in value.fields():
            found += _structs(getattr(value, f.attr))
    elif isinstance(value, list):
        for one in value:
            found += _structs(one)
    return found


#: Where we refuse what Kafka's readers take, by rule (docs/strictness.md has the reasons), with the
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
    for v in vectors(name, kafka):
        cls, version, raw = message_class(v["api"], kafka), v["version"], bytes.fromhex(v["hex"])
        if version not in cls.VERSIONS:
            # Kafka's readers check the version in inner structs only; kwire has no reader for it at
            # all.
            stricter["version"] += v["ok"]
            continue
        try:
            message, end = cls.decode_from(raw, version)
        except DecodeError as error:
            assert error.rule and error.path and 0 <= error.offset <= len(raw) + 1, (
                v["api"],
                v["mut"],
                repr(error),
            )
            stricter[error.rule] += v["ok"]
            continue
        assert v["ok"], f"laxer than Kafka: {v['api']} v{version} {v['mut']}: {v['error']}"
        assert message.to_json(version) == v["json"], (v["api"], version, v["mut"])
        assert len(raw) - end == v["remaining"], (v["api"], version, v["mut"])
    print(kafka, name, +stricter)
    assert dict(+stricter) == STRICTER[kafka, name]


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
        header, at = decode_request_header(raw)
        again = encode_request_header(key, version, header.correlation_id, header.client_id)
        assert request_header_version(key, version) == v["header_version"]
        assert header.to_json(v["header_version"]) == v["header"]
    else:
        response, at = decode_response_header(key, version, raw)
        again = encode_response_header(key, version, response.correlation_id)
        assert response_header_version(key, version) == v["header_version"]
        assert response.to_json(v["header_version"]) == v["header"]
    assert at == v["header_size"]
    assert raw[:at] == again or raw[at - 1] != 0, v[
        "api"
    ]  # the second: a header that carries unknown tags
    body, end = by_key(v["kind"], key, kafka).decode_from(raw, version, at)
    assert end == len(raw)
    assert body.encode(version) == raw[at:]
    assert body.to_json(version) == v["json"]


def _check_header(v: dict[str, Any], kafka: str) -> None:
    raw = bytes.fromhex(v["hex"])
    try:
        _, at = decode_request_header(raw)
    except DecodeError:
        assert not v["ok"], v
        return
    assert v["ok"], v
    assert request_header_version(v["api_key"], v["api_version"]) == v["header_version"]
    assert len(raw) - at == v["left"]
    assert (v["api_version"] in by_key("request", v["api_key"], kafka).VERSIONS) == v["supported"]


@pytest.mark.parametrize("kafka", RELEASES)
def test_prefixed_blobs(kafka: str) -> None:
    """Coordinator records and consumer protocol blobs stand behind two bytes of type or version."""
    for v in vectors("prefixed", kafka):
        raw = bytes.fromhex(v["hex"])
        cls = message_class(v["api"], kafka)
        message, end = cls.decode_from(raw, v["version"], 2)
        prefix = v["key"] if v["prefix"].startswith("int16 record type") else v["version"]
        assert (int.from_bytes(raw[:2], "big"), end) == (prefix, len(raw))
        assert message.encode(v["version"]) == raw[2:]
        assert message.to_json(v["version"]) == v["json"]


@pytest.mark.parametrize("kafka", RELEASES)
def test_defaults_are_kafkas(kafka: str) -> None:
    for v in vectors("defaults", kafka):
        cls = next(c for c in every_struct(message_class(v["api"], kafka)) if v["struct"] == c.NAME)
        f = next(f for f in cls.fields() if f.json == v["field"])
        value = getattr(cls(), f.attr)
        assert (f.tag if f.tag is not None else -1) == v["tag"]
        assert _plain(value, f) == v["default"] or isinstance(value, Struct), (v, value)
        if isinstance(value, Struct):
            assert v["default"] == f"fresh {value.NAME}", v


def _plain(value: Any, f: FieldInfo) -> Any:
    if f.type == "uuid" and not f.array:
        return str(value)
    return "" if value == b"" else value


@pytest.mark.parametrize("kafka", RELEASES)
def test_writer_refuses_and_drops_the_same_fields_as_kafkas(kafka: str) -> None:
    for v in vectors("writechecks", kafka):
        cls, version = message_class(v["api"], kafka), v["version"]
        message = _with_field(
            cls, v["path"].split("."), None if v["what"].startswith("null") else ...
        )
        if v["verdict"] == "refused":
            with pytest.raises(EncodeError) as caught:
                message.encode(version)
            assert v["path"].rpartition(".")[2].lower() in caught.value.path.lower(), (
                v,
                caught.value.path,
            )
        else:
            blank = (
                _with_field(cls, v["path"].split(".")[:-1], ...)
                if "." in v["path"]
                else _blank(cls)
            )
            assert message.encode(version) == blank.encode(version), v


def _with_field(cls: type[Struct], path: list[str], value: Any) -> Any:
    """An object with one element in every array on the way to ``path``, where ``value`` (``...``:
    not the default) stands.
    """
    f = next(f for f in cls.fields() if f.json == path[0])
    if len(path) > 1:
        inner = _with_field(cls.struct_class(f.type), path[1:], value)
    elif value is not ...:
        return _blank(cls, **{f.attr: value})
    else:
        inner = (
            _blank(cls.struct_class(f.type)) if f.is_struct else _other(f, getattr(cls(), f.attr))
        )
        if f.is_struct and not f.array:
            inner = _changed(inner)
    return _blank(cls, **{f.attr: [inner] if f.array else inner})


def _blank(cls: type[Struct], **values: Any) -> Any:
    """A default object; but records, which start at null and which some versions refuse so, are
    empty.
    """
    return cls(**({f.attr: b"" for f in cls.fields() if f.type == "records"} | values))


def _changed(value: Struct) -> Struct:
    f = next((f for f in value.fields() if not f.is_struct), value.fields()[0])
    if f.is_struct:
        return value.copy(
            **{
                f.attr: [value.struct_class(f.type)()]
                if f.array
                else _changed(getattr(value, f.attr))
            }
        )
    return value.copy(
        **{f.attr: [_other(f, None)] if f.array else _other(f, getattr(value, f.attr))}
    )


def _other(f: FieldInfo, default: Any) -> Any:
    if f.type in ("bytes", "records"):
        return b"x"
    if f.type == "string":
        return "other"
    if f.type == "uuid":
        return bytes(range(16))
    if f.type == "bool":
        return not default
    return 1 if default != 1 else 2


@pytest.mark.parametrize("kafka", RELEASES)
def test_api_table(kafka: str) -> None:
    """Versions, listeners and header versions of every api key."""
    for v in vectors("apis", kafka):
        if v["highest"] < 0:
            with pytest.raises(UnknownApi):
                request_type(v["key"])  # every version was removed
            continue
        cls: type[Message] = by_key("request", v["key"], kafka)
        assert (cls.VERSIONS[0], cls.VERSIONS[-1]) == (v["lowest"], v["highest"])
        assert set(cls.LISTENERS) == set(v["listeners"])
        assert v["latest_unstable"] == cls.LATEST_VERSION_UNSTABLE
        for version, request, response in zip(
            cls.VERSIONS, v["request_header"], v["response_header"], strict=True
        ):
            assert (
                request_header_version(v["key"], version),
                response_header_version(v["key"], version),
            ) == (
                request,
                response,
            )


def test_captured_frames_decode_and_re_encode() -> None:
    """Every frame that real Kafka processes exchanged, but the deliberate junk, comes back to the
    same bytes.
    """
    truths = {
        (t["scenario"], t["seq"], t["direction"]): t for t in _lines("public.decoded.jsonl.xz")
    }
    done = 0
    for frame in _lines("public.frames.jsonl.xz"):
        truth = truths.get((frame["scenario"], frame["seq"], frame["direction"]), {}).get(
            "decoded", {}
        )
        if truth.get("reencodes_equal"):
            _check_captured(frame, truth)
            done += 1
    print(f"{done} captured frames equal")
    assert done == 12944


def _lines(name: str) -> Iterator[dict[str, Any]]:
    with lzma.open(SHARED / "wire" / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _check_captured(frame: dict[str, Any], truth: dict[str, Any]) -> None:
    raw, key, version = bytes.fromhex(frame["hex"]), frame["api_key"], frame["version"]
    if frame["direction"] == "req":
        header, at = decode_request_header(raw)
        assert (
            encode_request_header(key, version, header.correlation_id, header.client_id) == raw[:at]
        )
        cls = by_key("request", key, "4.3.1")
    else:
        response, at = decode_response_header(key, version, raw)
        assert encode_response_header(key, version, response.correlation_id) == raw[:at]
        cls = by_key("response", key, "4.3.1")
    body, end = cls.decode_from(raw, version, at)
    assert body.encode(version) == raw[at:end]
    assert len(raw) - end == truth.get("trailing_bytes", 0)
    if not _has_records(cls):
        assert body.to_json(version) == truth["body"]


def _has_records(cls: type[Message]) -> bool:
    """Kafka's converter prints ``records`` as nothing, so bodies that hold them are compared as
    bytes only.
    """
    return any(f.type == "records" for one in every_struct(cls) for f in one.fields())
