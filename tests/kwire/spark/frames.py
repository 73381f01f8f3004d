"""Metadata records as the bytes of a record's value, and Arrow batches of them as Spark hands them
to a worker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

import kwire
from kwire.messages import BY_KEY
from tests.kwire.values import random_message

METADATA = sorted((key, name) for (kind, key), name in BY_KEY.items() if kind == "metadata")


def frame(
    message: kwire.Message, version: int, *, frame_version: int = 1, key: int | None = None
) -> bytes:
    """The value of a metadata record: three unsigned varints, then the message. Every number here
    is below 128.
    """
    key = message.API_KEY if key is None else key
    assert key is not None
    return bytes([frame_version, key, version]) + message.encode(version)


def every_record(seed: int = 1, each: int = 3) -> list[tuple[kwire.Message, int, bytes]]:
    """(message, version, value) of every metadata record type and version, ``each`` times with
    random fields.
    """
    rng = random.Random(seed)
    found = []
    for _, name in METADATA:
        cls = kwire.message_type(name)
        for version in cls.VERSIONS:
            for _ in range(each):
                message = random_message(cls, version, rng)
                found.append((message, version, frame(message, version)))
    return found


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    """A batch with the columns that the functions of kwire.spark need, and one more."""
    count = len(values)
    times = pa.array(
        [1_700_000_000_000_000 + n for n in range(count)], pa.timestamp("us", tz="UTC")
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(range(100, 100 + count), pa.int64()),
            times,
            pa.array(values, pa.binary()),
            pa.array(["x"] * count),
        ],
        names=["offset", "timestamp", "value", "note"],
    )
