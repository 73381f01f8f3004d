"""Says what is wrong with what consumers saw of a partition during a run, and with the logs of its
replicas after it. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple


class Seen(NamedTuple):
    """A record that a consumer got."""

    offset: int
    value: str


class LoggedBatch(NamedTuple):
    """A batch in the log of a replica; ``digest`` is of all its bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    digest: int


def reading_faults(reader: str, seen: Sequence[Seen], final: Sequence[Seen]) -> Iterator[str]:
    """Yield what is wrong with the records that one consumer got of a partition, in their order,
    where ``final`` are those that are there after the run, by offset.

    A consumer never goes back, gets no record that is taken back later, and none is left out.
    """
    offsets = [one.offset for one in seen]
    for before, after in itertools.pairwise(offsets):
        if after <= before:
            yield f"{reader}: offset {after} came after {before}"
            return
    kept = dict(final)
    gone = [one.offset for one in seen if kept.get(one.offset) != one.value]
    if gone:
        yield f"{reader}: saw {len(gone)} records that are not there any more, at {gone[:5]}"
    got = set(offsets)
    left_out = [one.offset for one in final if offsets and one.offset <= offsets[-1]]
    left_out = [offset for offset in left_out if offset not in got]
    if left_out:
        yield f"{reader}: was not given {len(left_out)} records, at {left_out[:5]}"


class FreshRead(NamedTuple):
    """A new consumer read a partition after ``offset`` with ``value`` was acknowledged: the log
    ends at ``end`` by the ``leader``, and has the value ``found`` there (None: it got no record).
    """

    partition: str
    offset: int
    value: str
    leader: int
    end: int
    found: str | None


def stale_faults(read: FreshRead, deposed: Set[int]) -> Iterator[str]:
    """Yield what is wrong with a read. A leader answers with what was acknowledged before; those
    in ``deposed`` may not know yet that they are none any more, which Kafka's do not ask either.
    """
    where = f"{read.partition}: offset {read.offset} was acknowledged, and leader {read.leader}"
    if read.end <= read.offset and read.leader not in deposed:
        yield f"{where} said that the log ends at {read.end}: a stale read"
    if read.found is not None and read.found != read.value:
        yield f"{where} had {read.found} there, not {read.value}"


def replica_faults(partition: str, logs: Mapping[int, Sequence[LoggedBatch]]) -> Iterator[str]:
    """Yield how the logs of the replicas of a partition differ, by the node of each: after a run
    all of them are in sync, and hold the same batches.
    """
    for node, batches in sorted(logs.items()):
        for before, after in itertools.pairwise(batches):
            if after.base_offset != before.last_offset + 1 or after.epoch < before.epoch:
                yield f"{partition} on node {node}: {after} follows {before}"
                break
    (first, expected), *others = sorted(logs.items())
    for node, batches in others:
        if list(batches) != list(expected):
            at = next(
                (
                    n
                    for n, pair in enumerate(zip(expected, batches, strict=False))
                    if len({*pair}) > 1
                ),
                min(len(expected), len(batches)),
            )
            yield (
                f"{partition}: the logs of nodes {first} and {node} have {len(expected)} and"
                f" {len(batches)} batches, and differ from number {at} on"
            )
