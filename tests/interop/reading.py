"""Base of the client drivers: a record, the hash of many records, and a reader that consumes a
topic in a thread.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

from tests.waiting import PATIENCE_S, until


class Record(NamedTuple):
    """A record as a client hands it to its application. ``timestamp`` is in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def digest(records: Iterable[Record]) -> str:
    """SHA-256 over offsets, timestamps and bytes, absent and empty kept apart."""
    total = hashlib.sha256()
    for record in records:
        total.update(struct.pack(">qq", record.offset, record.timestamp))
        for part in (record.key, record.value):
            total.update(struct.pack(">i", -1 if part is None else len(part)))
            total.update(part or b"")
    return total.hexdigest()


class Reader(ABC):
    """One client reading partition 0 of a topic from the beginning, and on: assigned by hand, or in
    a group.
    """

    #: The client's name in test ids and tables.
    client = ""

    def __init__(self, bootstrap: str, topic: str, group: str | None) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.records: list[Record] = []
        self.stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self.client} reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def read_until(self, count: int) -> None:
        """Return when it has ``count`` records. Fails when it ends before that."""

        def read() -> int:
            if len(self.records) < count and not self._thread.is_alive():
                how = "ended" if self._failure is None else f"failed: {self._failure!r}"
                pytest.fail(
                    f"{self.client} {how}, after {len(self.records)} records: {self.output_end()}"
                )
            return len(self.records)

        until(read, f"{self.client} has {count} records", lambda number: number >= count)

    def stop(self, timeout_s: float = PATIENCE_S) -> None:
        """Commit and leave the group as the client does on closing. Raises AssertionError when it
        fails.
        """
        self.stopping.set()
        self.interrupt()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), (
            f"{self.client} did not stop within {timeout_s:.0f} s: {self.output_end()}"
        )
        assert self._failure is None, f"{self.client} failed: {self._failure!r}"

    def _run(self) -> None:
        try:
            self.read()
        except BaseException as error:
            self._failure = error

    @abstractmethod
    def read(self) -> None:
        """Append to ``records`` until ``stopping`` is set; runs in a thread of its own."""

    def interrupt(self) -> None:  # noqa: B027 - most readers look at `stopping`
        """Called after ``stopping`` was set, for readers that do not look at it."""

    def output_end(self) -> str:
        """The end of the client's own log, for error messages."""
        return ""


def first_difference(seen: Sequence[Record], expected: Sequence[Record]) -> str:
    """Where two readings part, in words; empty when they are equal."""
    for number, (one, other) in enumerate(zip(seen, expected, strict=False)):
        if one != other:
            return f"record {number}: {one} instead of {other}"
    if len(seen) != len(expected):
        return f"{len(seen)} records instead of {len(expected)}"
    return ""
