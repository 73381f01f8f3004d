"""Batches as a producer sends them."""

from __future__ import annotations

from typing import Any

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import ProducedBatch, TopicRules, check_batch
from gateway.ports.pending_response import Work
from gateway.ports.work import completed
from kwire.records import Record, encode_batch

NOW_MS = 1_700_000_000_000


def produced(*values: bytes | None, key: bytes | None = None, **header: Any) -> bytearray:
    """A batch of records with these values, from offset 0 on."""
    records = [
        Record(offset=offset, timestamp=NOW_MS, key=key, value=value)
        for offset, value in enumerate(values)
    ]
    return bytearray(encode_batch(records, **header))


def check(
    data: bytes | bytearray | None, version: int = 9, now_ms: int = NOW_MS, **rules: Any
) -> ProducedBatch:
    """The outcome of the check, with functions for threads called here."""

    def work() -> Work:
        batches.append((yield from check_batch(data, version, TopicRules(**rules), now_ms)))
        return None

    batches: list[ProducedBatch] = []
    completed(work())
    return batches[0]


def refusal(data: bytes | bytearray | None, version: int = 9, **rules: Any) -> BatchRefused:
    """Why a batch is refused."""
    try:
        check(data, version, **rules)
    except BatchRefused as refused:
        return refused
    raise AssertionError("the batch was not refused")
