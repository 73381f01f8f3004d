"""Keeps a set of partitions in a few bytes each: sorted numbers of partitions, by topic.

A set of tuples takes 150 bytes a partition, and the index of a controller has each partition once
for each replica. Kafka's ``BrokersToIsrs`` has arrays by topic, too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from kwire.uuid import Uuid

#: A partition: the id of its topic, and its number.
PartitionKey = tuple[Uuid, int]
#: Numbers of partitions are int32 in Kafka's messages.
_INT32 = "i"


class PartitionSet:
    """Iteration is in the order in which the topics came, and of numbers within a topic."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[Uuid, array[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSet) and self._topics == other._topics

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[PartitionKey]:
        for topic_id, numbers in self._topics.items():
            for number in numbers:
                yield topic_id, number

    def add(self, topic_id: Uuid, number: int) -> None:
        """Add a partition, if it is not there."""
        numbers = self._topics.get(topic_id)
        if numbers is None:
            self._topics[topic_id] = array(_INT32, (number,))
        elif number > numbers[-1]:
            numbers.append(number)
        else:
            at = bisect_left(numbers, number)
            if numbers[at] != number:
                numbers.insert(at, number)

    def add_all(self, topic_id: Uuid, numbers: Sequence[int]) -> None:
        """Add partitions of a topic, of which none is there."""
        known = self._topics.get(topic_id, ())
        self._topics[topic_id] = array(_INT32, sorted((*known, *numbers)))

    def discard(self, topic_id: Uuid, number: int) -> None:
        """Remove a partition, if it is there."""
        numbers = self._topics.get(topic_id)
        if numbers is None:
            return
        at = bisect_left(numbers, number)
        if at < len(numbers) and numbers[at] == number:
            del numbers[at]
            # A topic without partitions here has no entry, so that deleted topics take no memory.
            if not numbers:
                del self._topics[topic_id]

    def discard_topic(self, topic_id: Uuid) -> None:
        """Remove all partitions of a topic that are there."""
        self._topics.pop(topic_id, None)
