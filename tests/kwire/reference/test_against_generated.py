"""Two codecs, written apart from one another: on every message and version they accept and refuse
the same, and read the same.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import random
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from kwire.codegen.naming import snake
from kwire.errors import DecodeError, EncodeError
from kwire.message import Message, Struct
from kwire.reference import UNKNOWN_TAGS, Reference, reference, valid_versions
from kwire.reference.facts import families
from tests.kwire.values import random_message

#: Mutants that are compared; KWIRE_COMPARE_MUTANTS makes it more.
MUTANTS = int(os.environ.get("KWIRE_COMPARE_MUTANTS", "20000"))
FAMILIES = ("kafka", "kip/497", "kip/590", "kip/595", "kip/631")


def _pairs(family: str) -> list[tuple[type[Message], Reference]]:
    """Every message and version of a family, in both codecs."""
    found = []
    for name, schema in families()[family].items():
        for version in valid_versions(schema):
            found.append((_generated(name, family), reference(name, version, family)))
    return found


@functools.cache
def _generated(name: str, family: str) -> type[Message]:
    package = "kwire.messages" + (
        "" if family == "kafka" else f".kip.kip{family.removeprefix('kip/')}"
    )
    cls: type[Message] = getattr(importlib.import_module(f"{package}.{snake(name)}"), name)
    return cls


def plain(message: Struct, version: int) -> dict[str, Any]:
    """A generated object as the reference shows it."""
    value = {
        f.name: _plain(getattr(message, f.attr), version) for f in message.fields() if f.at(version)
    }
    if message.unknown_tags:
        value[UNKNOWN_TAGS] = list(message.unknown_tags)
    return value


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return plain(value, version)
    if isinstance(value, list | tuple):
        return [_plain(item, version) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def comparable(value: Any) -> Any:
    """Without what compares otherwise than it looks: NaN is not equal to itself, true is equal to
    1, 0.0 to -0.0.
    """
    if isinstance(value, Mapping):
        return {name: comparable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    return ("bool", value) if isinstance(value, bool) else value


@pytest.mark.parametrize("family", FAMILIES)
def test_both_codecs_have_the_same_messages(family: str) -> None:
    for cls, codec in _pairs(family):
        assert codec.version in cls.VERSIONS
        assert len(valid_versions(codec.schema)) == len(cls.VERSIONS)
        assert codec.schema["type"] == cls.TYPE and codec.schema.get("apiKey") == cls.API_KEY


@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_written_and_read_alike(family: str) -> None:
    """Seeded random messages: the same bytes from both, and from these the same values."""
    rng = random.Random(5)
    for cls, codec in _pairs(family):
        for _ in range(2):
            message = random_message(cls, codec.version, rng)
            raw = message.encode(codec.version)
            value = codec.parse(raw)
            where = (codec.name, codec.version, raw.hex())
            assert comparable(value) == comparable(plain(message, codec.version)), where
            assert codec.build(plain(message, codec.version)) == raw, where
            assert codec.build(value) == raw, where


def test_mutated_bytes_have_one_verdict() -> None:
    """Bytes of random messages, damaged: both refuse, or both read the same value and the same
    number of bytes.
    """
    rng = random.Random(6)
    pairs = [pair for family in FAMILIES for pair in _pairs(family)]
    rng.shuffle(pairs)
    verdicts: Counter[str] = Counter()
    for cls, codec in itertools.cycle(pairs):
        raw = random_message(cls, codec.version, rng).encode(codec.version)
        for _ in range(5 if len(raw) < 2000 else 1):
            verdicts[_compare(cls, codec, _mutated(raw, rng))] += 1
        if verdicts.total() >= MUTANTS:
            break
    print(dict(verdicts))
    assert verdicts["read"] > MUTANTS / 10 and verdicts["refused"] > MUTANTS / 10


def _compare(cls: type[Message], codec: Reference, data: bytes) -> str:
    where = (codec.name, codec.version, data.hex())
    expected: Any = None
    try:
        expected, expected_end = codec.parse_from(data)
    except DecodeError:
        expected_end = -1
    try:
        message, end = cls.decode_from(data, codec.version)
    except DecodeError as error:
        assert expected is None, (where, "only the generated code refuses", error)
        return "refused"
    assert expected is not None, (where, "only the reference refuses")
    assert end == expected_end, where
    assert comparable(plain(message, codec.version)) == comparable(expected), where
    assert _written(lambda: message.encode(codec.version)) == _written(
        lambda: codec.build(expected)
    ), where
    return "read"


def _written(write: Any) -> bytes | None:
    try:
        data: bytes = write()
    except EncodeError:
        return None
    return data


#: Bytes that mean something: ends of varints and lengths, signs, markers, UTF-8.
_TELLING = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xC3, 0xED, 0xF0, 0xFE, 0xFF)


def _mutated(raw: bytes, rng: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(7)
        if how == 0:
            del data[at:]
        elif how == 1:
            data[at : at + rng.choice((1, 1, 2, 4))] = b""
        elif how == 2:
            data[at:at] = bytes([rng.choice(_TELLING)]) * rng.choice((1, 1, 2, 4, 5))
        elif how == 3:
            data[at : at + 1] = rng.choice(
                (
                    b"\x80\x00",
                    b"\xff\xff\xff\xff\x0f",
                    b"\xff\xff\xff\xff\x1f",
                    b"\x81\x80\x80\x80\x80\x00",
                )
            )
        elif at < len(data):
            data[at] = rng.choice(_TELLING) if how < 6 else data[at] ^ 1 << rng.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_tag_that_comes_twice_is_read_twice_and_never_written(family: str) -> None:
    """As the classes of Kafka 4.3.1 do: reading keeps both fields, writing refuses the second."""
    twice, done = [(5000, b"a"), (5000, b"b")], 0
    section = b"\x02" + b"".join(b"\x88\x27\x01" + data for _, data in twice)
    for cls, codec in _pairs(family):
        if codec.version not in cls.FLEXIBLE_VERSIONS:
            continue
        blank = cls().encode(codec.version)
        assert blank[-1:] == b"\0", "the tag section of the message itself is its end"
        data = blank[:-1] + section
        message, value = cls.decode(data, codec.version), codec.parse(data)
        assert message.unknown_tags == value[UNKNOWN_TAGS] == twice
        with pytest.raises(EncodeError, match="5000 after 5000"):
            message.encode(codec.version)
        with pytest.raises(EncodeError, match="5000 after 5000"):
            codec.build(value)
        done += 1
    assert done or family != "kafka"
