"""Rules of the batches in Fetch answers: damaged, cut, compacted, compressed, of transactions."""

from __future__ import annotations

import functools
import struct
from dataclasses import replace
from typing import Final

from kwire.conformance.client.faults import Answer, with_records
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.state import Batch, Log, fill, known_batch, value_of
from kwire.conformance.client.traffic import fetch_offset
from kwire.conformance.rule import CLIENT, Family, Level, Rule
from kwire.messages.end_txn_marker import EndTxnMarker
from kwire.messages.fetch_response import AbortedTransaction
from kwire.protocol import ApiKey
from kwire.records import Compression, Record, decode_batches, encode_batch, encode_control_record

FAMILY: Final = Family("client-records", "Batches in Fetch answers")

_FETCH: Final = ApiKey.FETCH
_APIS: Final = (_FETCH,)
_PRODUCER: Final = 4000
#: More than the limit of a partition in a Fetch request, which is 1 MiB by default.
_LARGE_BYTES: Final = 1_200_000


def _reads(probe: ClientProbe, *batches: Batch, before: int = 1, after: int = 1) -> None:
    """Let the client read a log with these batches between ordinary ones."""
    log = Log()
    fill(log, probe.token, batches=before)
    for batch in batches:
        log.batches.append(batch)
    fill(log, probe.token, batches=after)
    probe.prepare(log=log)
    probe.start()
    # All records may be printed before the client stops at a batch that has none.
    probe.until(
        lambda: probe.has_read_all() or probe.running.status is not None,
        f"a Fetch request at the end of the log, offset {log.end}",
    )
    probe.reads_all()


def _damage(data: bytes) -> bytes:
    # A digit of the last value: the batch still decodes.
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


@FAMILY.rule(
    "crc", source="DefaultRecordBatch", section="ensureValid", level=Level.SHOULD, roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def crc(probe: ClientProbe) -> None:
    """A client hands no record of a batch with a wrong CRC to the application: it fetches again,
    or ends with an error.
    """
    probe.prepare()
    fault = probe.fault("a byte of the batch is changed", _FETCH, act=with_records(_damage))
    probe.start()
    seen = probe.happened(fault)
    offset = fetch_offset(seen)

    def again() -> list[int]:
        return [
            found for one in probe.traffic.after(seen, _FETCH) if (found := fetch_offset(one)) >= 0
        ]

    probe.until(
        lambda: probe.running.status is not None or again(),
        "another Fetch request or the end of the program",
    )
    if probe.running.status is not None:
        # Kafka's console consumer logs the exception and ends with status 0.
        told = probe.running.status or probe.running.last_error()
        probe.expect(told, "the program ended without an error")
    else:
        following = again()[0]
        probe.expect(
            following == offset, f"the client fetches on from {following}, after the batch"
        )
    last = probe.state.log.batches[0].values[-1]
    wrong = last[:-1] + bytes([last[-1] ^ 1])
    probe.stop()
    probe.expect(wrong not in probe.printed()[:5], "the program prints the changed record")


def _cut_second(probe: ClientProbe, answer: Answer) -> None:
    second = probe.state.log.batches[1].data
    for topic in answer.body.responses:
        for partition in topic.partitions:
            partition.records += second[: len(second) // 2]


@FAMILY.rule("cut-batch", source="KIP-74", section="Proposed Changes", roles=CLIENT, apis=_APIS)
def cut_batch(probe: ClientProbe) -> None:
    """A client reads the whole batches of an answer that ends in the middle of a batch, and
    fetches on from their end.
    """
    probe.prepare()
    fault = probe.fault(
        "half a batch at the end", _FETCH, act=functools.partial(_cut_second, probe)
    )
    probe.start()
    probe.happened(fault)
    probe.works()


@FAMILY.rule(
    "begins-inside-batch", source="FetchResponse.json", section="Records", roles=CLIENT, apis=_APIS
)
def begins_inside_batch(probe: ClientProbe) -> None:
    """A client whose offset is inside a batch gets the whole batch, and skips the records below
    the offset.
    """
    probe.prepare()
    probe.state.log.start = 3
    probe.start()
    probe.reads_all(probe.state.log.values()[3:])


@FAMILY.rule(
    "gaps", source="DefaultRecordBatch", section="iterator", roles=CLIENT, apis=_APIS
)  # fmt: skip
def gaps(probe: ClientProbe) -> None:
    """A client reads batches from which compaction took records, also the first and the last."""
    whole = known_batch(5, probe.token)
    [decoded] = decode_batches(whole.data)
    data = encode_batch(
        decoded.records[1:4:2], base_offset=5, last_offset=9, partition_leader_epoch=5
    )
    _reads(probe, replace(whole, data=data, values=whole.values[1:4:2]))


@FAMILY.rule(
    "empty-batch", source="DefaultRecordBatch", section="writeEmptyHeader", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def empty_batch(probe: ClientProbe) -> None:
    """A client fetches on behind a batch from which compaction took every record."""
    data = encode_batch([], base_offset=5, last_offset=9, partition_leader_epoch=5)
    _reads(probe, Batch(5, 9, data))


@FAMILY.rule(
    "empty-batch-at-end", source="DefaultRecordBatch", section="writeEmptyHeader", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def empty_batch_at_end(probe: ClientProbe) -> None:
    """A client fetches on behind a batch without records at the end of the log."""
    data = encode_batch([], base_offset=5, last_offset=9, partition_leader_epoch=5)
    _reads(probe, Batch(5, 9, data), after=0)


def _marker(offset: int, kind: str, token: str) -> Batch:
    """A marker, with a text at its end that is found in the output of a program that prints it."""
    record = encode_control_record(kind, EndTxnMarker(), offset=offset, timestamp=1)
    record.value = (record.value or b"") + value_of(token, 99_999)
    data = encode_batch(
        [record], is_transactional=True, is_control=True, producer_id=_PRODUCER, producer_epoch=0,
        partition_leader_epoch=5,
    )  # fmt: skip
    return Batch(offset, offset, data)


def _transactional(batch: Batch) -> Batch:
    [decoded] = decode_batches(batch.data)
    data = encode_batch(
        decoded.records, is_transactional=True, producer_id=_PRODUCER, producer_epoch=0,
        base_sequence=0, partition_leader_epoch=5,
    )  # fmt: skip
    return replace(batch, data=data)


@FAMILY.rule(
    "control-batch", source="KIP-98", section="Control Messages", since="0.11", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def control_batch(probe: ClientProbe) -> None:
    """A client reads a committed transaction, and does not hand its marker to the application."""
    _reads(probe, _transactional(known_batch(5, probe.token)), _marker(10, "COMMIT", probe.token))


@FAMILY.rule(
    "control-batch-at-end", source="KIP-98", section="Control Messages", since="0.11",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def control_batch_at_end(probe: ClientProbe) -> None:
    """A client fetches on behind a marker that is the last record of the log."""
    committed = _transactional(known_batch(5, probe.token))
    _reads(probe, committed, _marker(10, "COMMIT", probe.token), after=0)


@FAMILY.rule(
    "aborted-transaction", source="KIP-98", section="Aborted transactions", since="0.11",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def aborted_transaction(probe: ClientProbe) -> None:
    """A client with isolation level read_committed skips the records of aborted transactions."""
    log = Log()
    fill(log, probe.token, batches=1)
    log.batches += [_transactional(known_batch(5, probe.token)), _marker(10, "ABORT", probe.token)]
    fill(log, probe.token, batches=1)
    probe.prepare(log=log)

    def aborted(answer: Answer) -> None:
        if fetch_offset(answer.seen) <= 10:
            for partition in answer.body.responses[0].partitions:
                partition.aborted_transactions = [
                    AbortedTransaction(producer_id=_PRODUCER, first_offset=5)
                ]

    probe.fault("a transaction is aborted", _FETCH, act=aborted, times=100)
    probe.start()
    first = probe.until(lambda: probe.traffic.all(_FETCH), "a Fetch request")[0]
    if not first.request.isolation_level:
        probe.not_applicable("the program reads uncommitted records")
    values = log.values()
    probe.reads_all(values[:5] + values[10:])


@FAMILY.rule(
    "above-limit", source="KIP-74", section="Proposed Changes", since="0.10.1", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def above_limit(probe: ClientProbe) -> None:
    """A client reads a batch that is larger than the limits of its Fetch request, as a broker sends
    the first batch whole.
    """
    value = known_batch(5, probe.token, records=1).values[0]
    record = Record(offset=5, timestamp=1, value=value + b"\n" + bytes(_LARGE_BYTES))
    data = encode_batch([record], partition_leader_epoch=5)
    _reads(probe, Batch(5, 5, data, (value,)))


@FAMILY.rule(
    "log-append-time", source="KIP-32", section="Proposed Changes", since="0.10", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def log_append_time(probe: ClientProbe) -> None:
    """A client reads batches whose timestamps are those of the append."""
    batch = known_batch(5, probe.token)
    data = bytearray(batch.data)
    [attributes] = struct.unpack_from(">h", data, 21)
    struct.pack_into(">h", data, 21, attributes | 8)
    _reads(probe, replace(batch, data=_with_crc(data)))


def _with_crc(data: bytearray) -> bytes:
    import crc32c

    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def compressed(kind: Compression, probe: ClientProbe) -> None:
    """Let the client read a log of compressed batches."""
    if kind is Compression.ZSTD:
        probe.uses(_FETCH, 10)
    log = Log()
    fill(log, probe.token, compression=kind)
    probe.prepare(log=log)
    probe.start()
    probe.reads_all()


for _kind, _since in (
    (Compression.GZIP, "0.8"),
    (Compression.SNAPPY, "0.8"),
    (Compression.LZ4, "0.8.2"),
    (Compression.ZSTD, "2.1"),
):
    FAMILY.add(
        Rule(
            id=f"client-records.{_kind.name.lower()}",
            says=f"A client reads batches that are compressed with {_kind.name.lower()}.",
            check=functools.partial(compressed, _kind),
            source="KIP-110" if _kind is Compression.ZSTD else "CompressionType",
            level=Level.SHOULD,  # many clients take codecs from libraries that are optional
            since=_since,
            roles=CLIENT,
            apis=_APIS,
        )
    )
