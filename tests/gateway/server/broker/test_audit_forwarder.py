"""Entries of the audit log get into the audit topic in their order, each once: whatever its leader
answers, and whenever the node crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditRecord
from gateway.log.audit.forwarding_position import FILE_NAME, ForwardingFile
from gateway.log.files.disk import Disk
from gateway.server.broker import audit_forwarder
from gateway.server.broker.audit_forwarder import AuditForwarder
from gateway.server.broker.audit_topic_leader import NotAppended
from gateway.sources.audit_partition import DIRECTORY, AuditPartition
from kwire.records import decode_batches
from kwire.uuid import Uuid
from tests.gateway.sources.test_audit_partition import show, write
from tests.waiting import until_async

TOPIC_ID, OTHER_ID = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")
SETTINGS = replace(AUDIT_SETTINGS, fsync=False)
SMALL = replace(SETTINGS, segment_bytes=1, retention_bytes=0)


class Crash(BaseException):
    """The process is killed here."""


@dataclass
class Topic:
    """The partition, its leader and the producers that it knows; ``faults`` are the outcomes of the
    next appends.
    """

    topic_id: Uuid | None = TOPIC_ID
    values: list[bytes] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)  # numbers of records
    faults: list[str] = field(default_factory=list)
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)  # last batch
    producer_ids: int = 0

    @property
    def partition(self) -> Any:
        return None if self.topic_id is None else SimpleNamespace(topic_id=self.topic_id, leader=1)

    async def new_producer(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    async def append(self, partition: Any, data: bytes) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "crash before":
            raise Crash
        if fault == "unknown producer":
            self.producers.clear()
            raise NotAppended(fault, needs_producer=True)
        if fault == "no leader":
            raise NotAppended(fault)
        self._append(data)
        if fault == "crash behind":
            raise Crash
        if fault == "no answer":
            raise NotAppended(fault)

    def _append(self, data: bytes) -> None:
        """As ``ProducerAppendInfo``: a batch that is known is not written again."""
        (batch,) = decode_batches(data)
        header = batch.header
        first, count = header.base_sequence, len(batch.records)
        last = self.producers.get(header.producer_id)
        if last == (first, count):
            return
        if last is not None and first != sum(last):
            raise NotAppended("out of order", needs_producer=True)
        self.producers[header.producer_id] = first, count
        self.values += [record.value or b"" for record in batch.records]
        self.batches.append(count)


@dataclass
class Told:
    """The events of the forwarder."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def report(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def bug(self, event: str, error: Exception) -> None:
        raise AssertionError(event) from error


class Node:
    """The audit log in ``data_dir``, and its forwarder."""

    def __init__(self, data_dir: Path, topic: Topic, settings: Any = SETTINGS) -> None:
        self.audit = AuditPartition(data_dir, settings, cluster_id="c")
        self.topic, self.told = topic, Told()
        leader: Any = topic
        told: Any = self.told
        self.forwarder = AuditForwarder(
            self.audit, ForwardingFile(data_dir / DIRECTORY, Disk(fsync=False)), leader, told
        )

    async def run_until(self, done: Callable[[], bool]) -> None:
        """Run the forwarder until ``done``. A crash ends it before."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.forwarder.run)
            await until_async(done)
            nursery.cancel_scope.cancel()


def run(main: Callable[[], Any]) -> bool:
    """Whether ``main`` has ended, and not crashed."""
    try:
        trio.run(main, clock=trio.testing.MockClock(rate=100), strict_exception_groups=True)
    except BaseExceptionGroup as group:
        assert group.subgroup(Crash) is not None, group
        return False
    return True


def forward(node: Node, wanted: Sequence[bytes]) -> bool:
    """Run until the topic has ``wanted``, and the forwarder knows; whether it has not crashed."""
    return run(
        lambda: node.run_until(
            lambda: len(node.topic.values) >= len(wanted) and node.forwarder.waiting == 0
        )
    )


def test_entries_of_before_and_of_now_are_in_the_topic_in_their_order(tmp_path: Path) -> None:
    topic = Topic()
    node = Node(tmp_path, topic)
    write(node.audit, "a", "b")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run_until, lambda: topic.values == [b"a", b"b", b"c"])
            await until_async(lambda: len(topic.values) == 2)
            write(node.audit, "c")

    assert run(main)
    assert topic.values == [b"a", b"b", b"c"] and node.told.events == []


def test_entry_that_is_not_on_disk_is_not_sent(tmp_path: Path) -> None:
    topic = Topic()
    node = Node(tmp_path, topic)
    write(node.audit, "a")
    node.audit.append([AuditRecord(1, b"b")])
    assert run(lambda: node.run_until(lambda: bool(topic.values)))
    assert topic.values == [b"a"] and node.forwarder.waiting == 1
    show(node.audit)
    assert forward(node, [b"a", b"b"]) and topic.values == [b"a", b"b"]


@pytest.mark.parametrize("fault", ["crash before", "crash behind"])
@pytest.mark.parametrize("number", range(3))
def test_each_entry_is_in_the_topic_once_after_a_crash(
    number: int, fault: str, tmp_path: Path
) -> None:
    """The process is killed at the append of the first, second or third batch."""
    topic = Topic(faults=[""] * number + [fault])
    wanted = [b"%d" % at for at in range(6)]
    node, crashes = Node(tmp_path, topic), 0
    for at in range(0, 6, 2):
        write(node.audit, *(value.decode() for value in wanted[at : at + 2]))
        while not forward(node, wanted[: at + 2]):
            crashes += 1
            node = Node(tmp_path, topic)
    assert topic.values == wanted and crashes == 1


def test_crash_before_the_acknowledgement_is_stored_repeats_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic()
    for number in range(2):
        node = Node(tmp_path, topic)
        write(node.audit, f"{number}")
        writes = 0

        def write_file(position: Any, file: Any = node.forwarder._file) -> None:
            nonlocal writes
            writes += 1
            if writes == 2:  # the batch is in the topic
                raise Crash
            ForwardingFile.write(file, position)

        monkeypatch.setattr(node.forwarder._file, "write", write_file)
        assert not forward(node, [b"0", b"1"])
    node = Node(tmp_path, topic)
    assert forward(node, [b"0", b"1"]) and topic.values == [b"0", b"1"]


@pytest.mark.parametrize("fault", ["no leader", "no answer"])
def test_batch_is_sent_again_until_the_leader_acknowledges_it(fault: str, tmp_path: Path) -> None:
    topic = Topic(faults=[fault] * 5)
    node = Node(tmp_path, topic)
    write(node.audit, "a", "b")
    assert forward(node, [b"a", b"b"]) and topic.values == [b"a", b"b"]
    assert [event for event, _ in node.told.events] == ["audit entries wait"] * 3, "not the first"
    assert node.told.events[0][1] == {"error": fault, "count": 2}


def test_entries_that_come_while_a_batch_has_no_answer_are_in_the_next_one(tmp_path: Path) -> None:
    topic = Topic(faults=["crash behind"])
    node = Node(tmp_path, topic)
    write(node.audit, "a")
    assert not forward(node, [b"a"])
    again = Node(tmp_path, topic)
    write(again.audit, "b")
    assert forward(again, [b"a", b"b"]) and topic.values == [b"a", b"b"]


def test_new_producer_begins_where_the_leader_forgot_the_old_one(tmp_path: Path) -> None:
    topic = Topic()
    node = Node(tmp_path, topic)
    write(node.audit, "a")
    assert forward(node, [b"a"])
    topic.faults = ["unknown producer"]
    write(node.audit, "b")
    assert forward(node, [b"a", b"b"]) and topic.values == [b"a", b"b"]
    assert topic.producer_ids == 2


def test_nothing_is_sent_before_the_topic_exists(tmp_path: Path) -> None:
    topic = Topic(topic_id=None)
    node = Node(tmp_path, topic)
    write(node.audit, "a")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run_until, lambda: topic.values == [b"a"])
            await trio.testing.wait_all_tasks_blocked()
            assert topic.values == [] and node.forwarder.waiting == 0
            topic.topic_id = TOPIC_ID
            image: Any = None
            node.forwarder.on_update(None, image)

    assert run(main)


def test_another_topic_gets_all_entries_that_are_kept(tmp_path: Path) -> None:
    node = Node(tmp_path, Topic())
    write(node.audit, "a", "b")
    assert forward(node, [b"a", b"b"])
    other = Topic(OTHER_ID)
    again = Node(tmp_path, other)
    assert forward(again, [b"a", b"b"]) and other.values == [b"a", b"b"]


def test_entries_that_retention_deleted_before_are_reported(tmp_path: Path) -> None:
    topic = Topic(faults=["no leader"] * 3)
    node = Node(tmp_path, topic, SMALL)
    write(node.audit, "a", "b", "c")
    assert run(lambda: node.run_until(lambda: not topic.faults))
    node.audit.clean(2000)
    node.audit.publish(node.audit.end_offset)
    start, end = node.audit.log_start_offset, node.audit.end_offset
    assert 0 < start < end or start == end == 3
    write(node.audit, "d")
    again = Node(tmp_path, topic, SMALL)
    assert forward(again, [b"d"])
    assert topic.values[-1] == b"d" and len(topic.values) == 4 - start
    assert ("audit entries lost", {"count": start}) in again.told.events


def test_damaged_position_is_begun_anew(tmp_path: Path) -> None:
    node = Node(tmp_path, Topic())
    write(node.audit, "a")
    (tmp_path / DIRECTORY / FILE_NAME).write_bytes(b"{")
    assert forward(node, [b"a"]) and node.topic.values == [b"a"]
    assert [event for event, _ in node.told.events] == ["audit log repaired"]


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_forwarder, "_BATCH_BYTES_MAX", 25)
    topic = Topic()
    node = Node(tmp_path, topic)
    values = [str(number) * 10 for number in range(5)] + ["x" * 40]
    node.audit.append([AuditRecord(1, value.encode()) for value in values])
    show(node.audit)
    assert forward(node, [value.encode() for value in values])
    assert topic.values == [value.encode() for value in values] and topic.batches == [2, 2, 1, 1]
