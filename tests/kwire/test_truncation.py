"""Truncated messages: the generated reader refuses each, and the error names the field."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

import kwire
from kwire.diagnose import _Reader
from kwire.errors import DecodeError
from kwire.message import _NO_BUDGET, _READ_FAULTS, Message
from tests.kwire.values import random_message


def test_generated_reader_refuses_every_prefix_of_every_message() -> None:
    """The generated reader raises one of the faults that ``decode`` expects, or ends behind the
    bytes that it was given.
    """
    for cls, version, data in encoded_messages():
        reader = cls._DECODERS[version]
        for size in range(len(data)):
            try:
                _, end = reader(data[:size], 0, _NO_BUDGET)
            except _READ_FAULTS:
                continue
            assert end > size, (cls.NAME, version, size)


def test_truncated_message_is_a_decode_error_with_its_path_and_offset() -> None:
    """Each kind of field of each message is cut at its first and before its last byte, where it
    comes first and where it comes last; so are five other places, taken at random.
    """
    rng = random.Random(5)
    for cls, version, data in encoded_messages():
        cuts = field_cuts(cls, version, data)
        cuts |= set(rng.sample(range(len(data)), min(len(data), 5)))
        for size in cuts:
            with pytest.raises(DecodeError) as caught:
                cls.decode(data[:size], version)
            assert caught.value.path.startswith(cls.NAME)
            assert 0 <= caught.value.offset <= size


def encoded_messages() -> Iterator[tuple[type[Message], int, bytes]]:
    """A random message of every class at every version, the same ones each time."""
    rng = random.Random(2)
    for name in kwire.message_names():
        cls = kwire.message_type(name)
        for version in cls.VERSIONS:
            yield cls, version, random_message(cls, version, rng).encode(version)


def field_cuts(cls: type[Message], version: int, data: bytes) -> set[int]:
    """Offsets of the first and the last byte of each kind of field: of its first and last one."""
    flexible = version in cls.FLEXIBLE_VERSIONS
    reader = FieldRecorder(cls, data, version, 0, _NO_BUDGET, flexible)
    reader.message()
    starts = [start for _, start in reader.fields]
    spans: dict[str, list[tuple[int, int]]] = {}
    for (kind, start), end in zip(reader.fields, [*starts[1:], len(data)], strict=False):
        spans.setdefault(kind, []).append((start, end))
    found = {
        cut
        for kind in spans.values()
        for start, end in (kind[0], kind[-1])
        for cut in (start, end - 1)
    }
    return {cut for cut in found if 0 <= cut < len(data)}


class FieldRecorder(_Reader):
    """Reads a message and records (path without indices, offset) of each field and element."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.fields: list[tuple[str, int]] = []

    def step(self) -> None:
        self.fields.append((re.sub(r"\[\d+\]", "[]", self.path()), self.at))
