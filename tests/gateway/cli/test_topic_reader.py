"""A reader of a topic while its server is lost, has no leader or sends bytes that are no records.

The time is that of trio's mock clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.base.address import Address
from gateway.cli import tail_audit
from gateway.cli.server_nodes import Nodes, ServerError, ServerLost
from gateway.cli.server_options import Server
from gateway.cli.topic_reader import Fetched, TopicReader, _batches
from gateway.ports.services import AUDIT_TOPIC
from gateway.security.client_properties import ClientSecurity
from kwire.records import Record, RecordBatch, decode_batches, encode_batch

SERVER = Server((Address("h", 1),), ClientSecurity())
LOST = ServerLost("h:1: it closed the connection")
ELECTING = ServerError("h:1: no leader", is_transient=True)
REFUSED = ServerError("h:1: refused")


def batch(offset: int, timestamp: int = 5) -> list[RecordBatch]:
    record = Record(offset=offset, timestamp=timestamp, value=b"v")
    return list(decode_batches(encode_batch([record], base_offset=offset)))


class Scripted(TopicReader):
    """A reader whose fetches give the next of ``answers``: batches, or an error."""

    def __init__(self, answers: Iterator[Any], patience_s: float = 30) -> None:
        super().__init__(Nodes(SERVER, "test"), "t", patience_s)
        self.leaders = {0: Address("h", 1)}
        self.answers = answers

    async def _fetch(self, partition: int, offset: int) -> Any:
        await trio.sleep(0.5)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def read(reader: TopicReader, end: int | None, count: int = 1000) -> list[int]:
    """The offsets that the reader gives, at most ``count``."""
    found: list[int] = []

    async def main() -> None:
        async for records in reader.read(0, 0, end):
            found.extend(one.offset for one in records)
            if len(found) >= count:
                return

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return found


def for_ever(answer: Any) -> Iterator[Any]:
    while True:
        yield answer


def test_lost_server_is_waited_for_while_following_and_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter([batch(0), *[LOST] * 500, batch(1), batch(2)])
    assert read(Scripted(answers), None, count=3) == [0, 1, 2]
    assert capsys.readouterr().err.splitlines() == [
        f"{LOST.message}; trying again",
        "the server answers again",
    ]


def test_lost_server_ends_a_read_up_to_the_end_at_once() -> None:
    answers = iter([batch(0), LOST])
    with pytest.raises(ServerLost, match="closed the connection"):
        read(Scripted(answers), 5)
    assert next(answers, None) is None


@pytest.mark.parametrize("end", [None, 5])
def test_refusal_ends_every_read_at_once(end: int | None) -> None:
    with pytest.raises(ServerError, match="refused"):
        read(Scripted(iter([REFUSED])), end)


def test_election_is_waited_for_up_to_the_patience() -> None:
    assert read(Scripted(iter([*[ELECTING] * 20, batch(0)])), 1) == [0]
    with pytest.raises(ServerError, match="no leader"):
        read(Scripted(for_ever(ELECTING)), 1)


def test_server_without_records_below_its_end_is_given_up() -> None:
    with pytest.raises(ServerError, match="no records from offset 1 on, of 5, for 30 s"):
        read(Scripted(iter([batch(0), *[[]] * 500])), 5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:30], "is not whole"),
        (lambda data: data[:-1] + b"x", "cannot be read"),
        (lambda data: b"HTTP/1.1 400 Bad Request" * 4, "cannot be read"),
    ],
)
def test_bytes_that_are_no_records_are_named(change: Callable[[bytes], bytes], says: str) -> None:
    data = encode_batch([Record(offset=7, timestamp=5, value=b"a")], base_offset=7)
    upstream: Any = SimpleNamespace(address=Address("h", 1))
    with pytest.raises(ServerError, match=says):
        list(_batches(upstream, change(data), 7))


class Enough(Exception):
    pass


class Partitioned(TopicReader):
    """Two partitions of the audit topic: the second one's node is down until it was asked often."""

    asked = 0

    def another(self, connect_s: float) -> TopicReader:
        return self

    async def _bounds(self, partition: int) -> tuple[int, int]:
        if partition == 1:
            Partitioned.asked += 1
            if Partitioned.asked < 40:
                raise LOST
        return 0, 2

    async def _fetch(self, partition: int, offset: int) -> Any:
        await trio.sleep(0.5)
        return batch(offset, 10 * offset + partition) if offset < 2 else []


def test_audit_entries_of_a_node_that_comes_back_are_followed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = Partitioned(Nodes(SERVER, "test"), AUDIT_TOPIC)
    reader.leaders = {0: Address("h", 1), 1: Address("h", 2)}
    found: list[tuple[int, int]] = []

    def take(record: Fetched) -> None:
        found.append((record.partition, record.offset))
        if len(found) == 4:
            raise Enough

    async def main() -> None:
        with contextlib.suppress(Enough):
            try:
                await tail_audit.follow_all(reader, "beginning", False, take)
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from None

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert f"entries of {AUDIT_TOPIC}-1 are missing: {LOST.message}" in capsys.readouterr().err
