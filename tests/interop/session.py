"""Runs all clients against one server at once: they read the log, follow an append, and leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.interop.clients import WAYS, Way
from tests.interop.reading import Reader, Record
from tests.waiting import PATIENCE_S


@dataclass
class Decision:
    """The result of one client; ``error`` is empty when it got every record and stopped without
    an error.
    """

    records: Sequence[Record]
    committed: int | None
    error: str


def read_with_every_client(
    bootstrap: str, topic: str, count: int, append: Callable[[], int], ways: Sequence[Way] = WAYS
) -> dict[Way, Decision]:
    """Start a reader for each way, let it read ``count`` records, call ``append`` once all did,
    wait for the rest.

    ``append`` returns how many records it added. In group mode the outcome holds the offset that
    the group committed.
    """
    readers = {way: way.on(bootstrap, topic) for way in ways}
    errors = dict.fromkeys(ways, "")
    for reader in readers.values():
        reader.start()
    _wait(readers, errors, count)
    _wait(readers, errors, count + append())
    for way, reader in readers.items():
        try:
            reader.stop()
        except AssertionError as error:
            errors[way] = errors[way] or str(error)
    return {
        way: Decision(reader.records, committed(bootstrap, topic, reader.group), errors[way])
        for way, reader in readers.items()
    }


def _wait(readers: dict[Way, Reader], errors: dict[Way, str], count: int) -> None:
    for way, reader in readers.items():
        if not errors[way]:
            try:
                reader.read_until(count)
            except AssertionError as error:
                errors[way] = str(error)


def committed(bootstrap: str, topic: str, group: str | None) -> int | None:
    """The offset that ``group`` committed for partition 0, None without a group."""
    from confluent_kafka import Consumer, TopicPartition

    if group is None:
        return None
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [answer] = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
        return int(answer.offset)
    finally:
        consumer.close()
