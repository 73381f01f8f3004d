"""Says what is wrong with the records that are left of a run, from what was acknowledged. Pure."""

from __future__ import annotations

import itertools
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


class Session(NamedTuple):
    """Names a producer as brokers do; its sequence numbers begin anew in each epoch."""

    producer_id: int
    epoch: int


class Numbered(NamedTuple):
    """A record of a producer that numbers its records, and the session that it was sent in."""

    offset: int
    number: int
    session: Session


def record_faults(
    partition: int,
    records: Sequence[Numbered],
    acknowledged: Mapping[int, int],
    elsewhere: Set[int] = frozenset(),
) -> Iterator[str]:
    """Yield what is wrong with the records of one producer in a partition; ``acknowledged`` has the
    number at each offset that was acknowledged, ``elsewhere`` those that were without an offset:
    librdkafka infers it from the answer to a later batch.

    Within a session every record is there once, in order. A record may come again in a later
    session if its first time was not acknowledged: librdkafka begins an epoch when a broker refuses
    a batch behind one that failed, and sends what is not acknowledged again, of all partitions,
    though it may be in the log (https://github.com/confluentinc/librdkafka/issues/4953). No broker
    can know it then.
    """
    for fault in itertools.islice(_order_faults(records, acknowledged), 1):
        yield f"partition {partition}: {fault}"
    at = {one.offset: one.number for one in records}
    lost = [offset for offset, number in acknowledged.items() if at.get(offset) != number]
    if lost:
        yield f"partition {partition}: lost at {lost[:5]}"
    missing = sorted(elsewhere - set(at.values()))
    if missing:
        yield f"partition {partition}: lost are the records {missing[:5]}"


def _order_faults(records: Sequence[Numbered], acknowledged: Mapping[int, int]) -> Iterator[str]:
    newest: dict[int, Numbered] = {}  # by number
    epochs: dict[int, int] = {}  # the newest one of each producer id
    highest, before = -1, None
    for one in records:
        number, (producer_id, epoch) = one.number, one.session
        known = newest.get(number)
        where = f"record {number} at offset {one.offset} of {one.session}"
        if before is None or one.session != before.session:
            if epoch <= epochs.get(producer_id, -1):
                yield f"{where} comes after epoch {epochs[producer_id]}"
        elif number <= before.number:
            yield f"{where} comes after record {before.number}: it is there twice, or out of order"
        if known is None and number < highest:
            yield f"{where} comes after record {highest}: it is out of order"
        if known is not None and acknowledged.get(known.offset) == number:
            yield f"{where} was acknowledged at offset {known.offset}: it is there twice"
        newest[number], before, epochs[producer_id] = one, one, epoch
        highest = max(highest, number)


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
