"""Bent batches of every codec and format against the verdict of real Kafka (``judged/``): never
laxer, never different.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path

from kwire.errors import DecodeError
from kwire.records import decode_batches

JUDGED = Path(__file__).parent / "judged" / "judged.jsonl.xz"

#: Cases that Kafka accepts and kwire refuses, by rule (docs/strictness-records.md): none more, none
#: fewer.
STRICTER = {
    "bad-utf8": 1,
    "compressed-trailing": 86,
    "crc": 25,
    "empty-batch-bytes": 76,
    "inner-magic": 20,
    "inner-truncated": 19,
    "lz4-content-checksum": 6,
    "lz4-content-size": 1,
}


def test_bent_batches_are_judged_as_kafka_judges_them() -> None:
    stricter: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    with lzma.open(JUDGED, "rt", encoding="utf-8") as lines:
        for line in lines:
            judged = json.loads(line)
            taken = judged["verdict"].startswith("OK")
            try:
                seen = _seen(bytes.fromhex(judged["hex"]))
            except DecodeError as error:
                stricter[error.rule] += taken
                verdicts["refused"] += not taken
                continue
            assert taken, f"Kafka refuses this: {judged}"
            assert seen == judged["verdict"], judged
            verdicts["equal"] += 1
    assert +stricter == STRICTER
    assert verdicts == {"refused": 1608, "equal": 1158}


def _seen(data: bytes) -> str:
    """Every record, in the words of Judge.java."""
    out = []
    size = 0
    for batch in decode_batches(data):
        size += batch.header.size
        out.append(f"|{batch.header.last_offset}")
        for record in batch.records:
            values = [record.key, record.value, *(value for _, value in record.headers)]
            out.append(f";{record.offset},{record.timestamp},{','.join(map(_hex, values))}")
    return f"OK {size}{''.join(out)}"


def _hex(data: bytes | None) -> str:
    return "null" if data is None else data.hex()
