"""Says what is wrong with the records that are left of a run, from what was acknowledged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

#: Records of a transaction.
IN_TRANSACTION: Final = 8


class Kept(NamedTuple):
    """A record that a consumer read."""

    offset: int
    key: str | None
    value: str | None


def record_faults(
    partition: int, records: Sequence[tuple[int, str]], acknowledged: Mapping[int, int]
) -> Iterator[str]:
    """Yield what is wrong with the (offset, number) of the records of one producer in a partition;
    ``acknowledged`` has the number at each offset that was acknowledged.
    """
    before = -1
    for offset, value in records:
        if int(value) <= before:
            yield (
                f"partition {partition}: record {value} at offset {offset} comes after record"
                f" {before}: it is there twice, or out of order"
            )
            break
        before = int(value)
    at = {offset: int(value) for offset, value in records}
    lost = [offset for offset, number in acknowledged.items() if at.get(offset) != number]
    if lost:
        yield f"partition {partition}: lost at {lost[:5]}"


def transaction_faults(
    values: Sequence[str], committed: Set[int], aborted: Set[int]
) -> Iterator[str]:
    """Yield what is wrong with committed records, each of which is NUMBER-PART, after these ends of
    transactions were acknowledged.
    """
    if len(values) != len(set(values)):
        yield "a record of a transaction came twice"
    parts = Counter(int(value.partition("-")[0]) for value in set(values))
    for number, count in sorted(parts.items()):
        if number in aborted:
            yield f"transaction {number} was aborted, and read"
        elif count != IN_TRANSACTION:
            yield f"transaction {number} is there in part"
    for number in sorted(committed - parts.keys()):
        yield f"transaction {number} is lost"


def copy_faults(
    partition: int, source: Sequence[str], copies: Sequence[str], committed: int
) -> Iterator[str]:
    """Yield what is wrong with the committed copies of a partition's committed records, once the
    group of the copier has ``committed`` of them behind it.
    """
    if list(copies) != list(source[:committed]):
        at = next(
            (n for n, (one, other) in enumerate(zip(copies, source, strict=False)) if one != other),
            min(len(copies), committed),
        )
        yield (
            f"partition {partition}: {len(copies)} copies of {committed} records, and they differ"
            f" from number {at} on"
        )


def compaction_faults(
    partition: int, kept: Sequence[Kept], acknowledged: Mapping[int, tuple[str, str | None]]
) -> Iterator[str]:
    """Yield what is wrong with the records of a compacted partition; ``acknowledged`` has key and
    value (None: a tombstone) at each offset. The newest value of each key has to be there.
    """
    wrong = [one.offset for one in kept if acknowledged.get(one.offset) != (one.key, one.value)]
    if wrong:
        yield f"partition {partition}: not what was written at {wrong[:5]}"
    newest: dict[str, tuple[int, str | None]] = {}
    for offset, (key, value) in sorted(acknowledged.items()):
        newest[key] = (offset, value)
    there = {one.offset for one in kept}
    lost = [at for at, value in newest.values() if value is not None and at not in there]
    if lost:
        yield f"partition {partition}: the newest value of a key is lost at {sorted(lost)[:5]}"
    last = {one.key: one for one in kept}
    back = [key for key, (_, value) in newest.items() if value is None and _has_value(last, key)]
    if back:
        yield f"partition {partition}: deleted and there again: {sorted(back)[:5]}"


def _has_value(last: Mapping[str | None, Kept], key: str) -> bool:
    return key in last and last[key].value is not None


def retention_faults(
    partition: int, kept: Sequence[int], acknowledged: Set[int], starts: Sequence[int], least: int
) -> Iterator[str]:
    """Yield what is wrong with the offsets that are kept of a partition whose old records go.

    ``starts`` are the log start offsets that were seen or acknowledged, in their order. At least
    the ``least`` newest records have to be there.
    """
    if list(starts) != sorted(starts):
        yield f"partition {partition}: deleted records were there again: {list(starts)[-5:]}"
    start = max(starts, default=0)
    early = [offset for offset in kept if offset < start]
    if early:
        yield f"partition {partition}: read before the log start {start}: {early[:5]}"
    first = kept[0] if kept else max(acknowledged, default=-1) + 1
    lost = sorted(offset for offset in acknowledged - set(kept) if offset >= first)
    if lost:
        yield f"partition {partition}: lost at {lost[:5]}"
    if len(kept) < min(least, len(acknowledged)):
        yield f"partition {partition}: {len(kept)} records are left, {least} should be"
