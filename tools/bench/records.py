"""Measures record batches: a thousand records decoded and encoded beside kafka-python, kio and
aiokafka.

It compares the bytes first. aiokafka reads and writes batches in compiled Cython: its rows say how
near pure Python comes, and have no bar.
"""

from __future__ import annotations

import datetime
import importlib
import io
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.records import Record, decode_batch, encode_batch
from tools.bench.measure import microseconds
from tools.bench.report import show

_COUNT = 1000
_SECOND = 1_700_000_000_000
#: (peer, direction) -> how many times faster kwire must be.
_BARS = {
    ("kafka-python", "decode"): 2.7,
    ("kafka-python", "encode"): 4.0,
    ("kio", "decode"): 6.0,
    ("kio", "encode"): 6.0,
}
_Row = tuple[int, int, bytes | None, bytes | None]


@dataclass(frozen=True)
class Sample:
    """Records of one kind."""

    title: str
    records: Sequence[Record]


@dataclass(frozen=True)
class Codec:
    """The batch codec of one library: ``prepare`` makes its objects once, ``rows`` returns the
    decoded records.
    """

    name: str
    decode: Callable[[bytes], Any]
    rows: Callable[[Any], list[_Row]]
    prepare: Callable[[Sequence[Record]], Any]
    encode: Callable[[Any], bytes]


def run() -> list[dict[str, Any]]:
    """Return a row for each sample, direction and peer."""
    return [row for sample in samples() for row in _compare(sample)]


def samples() -> Iterator[Sample]:
    """Return records like a producer's, and like a metadata log's: no keys, one timestamp. Whole
    seconds, because kio drops the milliseconds.
    """
    rng = random.Random(1)
    keyed = [
        Record(offset=n, timestamp=_SECOND, key=rng.randbytes(10), value=rng.randbytes(100))
        for n in range(_COUNT)
    ]
    yield Sample(f"batch of {_COUNT}, keys of 10 and values of 100 bytes", keyed)
    bare = [
        Record(offset=n, timestamp=_SECOND, value=rng.randbytes(rng.randint(20, 80)))
        for n in range(_COUNT)
    ]
    yield Sample(f"batch of {_COUNT}, no keys, values of 20 to 80 bytes", bare)


def _compare(sample: Sample) -> Iterator[dict[str, Any]]:
    data = encode_batch(sample.records)
    codecs = [_own(), *_peers()]
    inputs = {codec.name: codec.prepare(sample.records) for codec in codecs}
    expected = [(r.offset, r.timestamp, r.key, r.value) for r in sample.records]
    for codec in codecs:
        if (
            codec.rows(codec.decode(data)) != expected
            or codec.encode(inputs[codec.name])[61:] != data[61:]
        ):
            raise AssertionError(f"{codec.name} reads or writes the {sample.title} otherwise")
    decoded = microseconds({codec.name: _call(codec.decode, data) for codec in codecs})
    encoded = microseconds(
        {codec.name: _call(codec.encode, inputs[codec.name]) for codec in codecs}
    )
    for direction, timings in (("decode", decoded), ("encode", encoded)):
        for codec in codecs[1:]:
            peer_time, own_time = timings[codec.name], timings["kwire"]
            yield {
                "what": f"{direction} {sample.title}",
                "unit": "µs",
                "kwire": own_time,
                "peer": codec.name,
                "peer_value": peer_time,
                "ratio": peer_time / own_time,
                "bar": _BARS.get((codec.name, direction)),
                "bytes": len(data),
            }


def _call(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: function(argument)


def _own() -> Codec:
    return Codec("kwire", decode_batch, lambda batch: _rows(batch.records), list, encode_batch)


def _peers() -> Iterator[Codec]:
    """Return the installed peers; the extra ``bench`` has all of them."""
    for make in (_kafka_python, _kio, _aiokafka):
        try:
            yield make()
        except ImportError:
            continue


def _rows(records: Any) -> list[_Row]:
    return [(r.offset, r.timestamp, r.key, r.value) for r in records]


def _kafka_python() -> Codec:
    reader = importlib.import_module("kafka.record.memory_records").MemoryRecords
    builder = importlib.import_module("kafka.record.default_records").DefaultRecordBatchBuilder

    def encode(records: Sequence[Record]) -> bytes:
        made = builder(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 30,
        )
        for record in records:
            made.append(record.offset, record.timestamp, record.key, record.value, record.headers)
        return bytes(made.build())

    return Codec("kafka-python", _checked(reader), _rows, list, encode)


def _aiokafka() -> Codec:
    reader = importlib.import_module("aiokafka.record.memory_records").MemoryRecords
    builder = importlib.import_module("aiokafka.record.default_records").DefaultRecordBatchBuilder

    def encode(records: Sequence[Record]) -> bytes:
        made = builder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 30,
        )
        for record in records:
            made.append(record.offset, record.timestamp, record.key, record.value, [])
        return bytes(made.build())

    return Codec("aiokafka", _checked(reader), _rows, list, encode)


def _checked(reader: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Decode through the interface that kafka-python and aiokafka share, the checksum included, as
    kwire does.
    """

    def decode(data: bytes) -> Any:
        batch = reader(data).next_batch()
        if not batch.validate_crc():
            raise AssertionError("the checksum is wrong")
        return list(batch)

    return decode


def _kio() -> Codec:
    schema = importlib.import_module("kio.records.schema")
    read = importlib.import_module("kio.records.readers").read_batch
    write = importlib.import_module("kio.records.writers").write_new_batch
    parse = importlib.import_module("kio.static.primitive").TZAwareMicros.parse

    def time_of(timestamp: int) -> Any:
        return parse(datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC))

    def prepare(records: Sequence[Record]) -> Any:
        return schema.NewRecordBatch(
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            attributes=0,
            records=tuple(
                schema.Record(
                    attributes=0,
                    timestamp=time_of(r.timestamp),
                    offset=r.offset,
                    key=r.key,
                    value=r.value,
                    headers=(),
                )
                for r in records
            ),
        )

    def encode(batch: Any) -> bytes:
        out = io.BytesIO()
        write(out, batch)
        return out.getvalue()

    def rows(batch: Any) -> list[_Row]:
        return [
            (r.offset, int(r.timestamp.timestamp() * 1000), r.key, r.value) for r in batch.records
        ]

    return Codec("kio", lambda data: read(data, 0)[0], rows, prepare, encode)


def main() -> None:
    """Print the table."""
    show(run())


if __name__ == "__main__":
    main()
