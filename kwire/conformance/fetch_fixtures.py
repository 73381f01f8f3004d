"""Fetches from a partition for the rules, and reads the batches of an answer."""

from __future__ import annotations

from typing import Any

from kwire.conformance.fixtures import LATEST, Partition, fetch, list_offset
from kwire.conformance.probe import Probe
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.records import BatchHeader, iter_batches


def batches_of(probe: Probe, one: Any) -> list[BatchHeader]:
    """Return the whole batches of an answer. Fails the rule for bytes that are none."""
    try:
        return list(iter_batches(bytes(one.records or b""), check_crc=True))
    except DecodeError as error:
        probe.fail(f"the records do not decode: {error}")


def good_fetch(probe: Probe, where: Partition, offset: int, **more: Any) -> Any:
    """Return the partition's part of the answer to Fetch. Fails the rule for an error."""
    one = fetch(probe, where, offset, **more)
    probe.expect_error(one.error_code, ErrorCode.NONE, where=f"Fetch at offset {offset}")
    return one


def end_of(probe: Probe, where: Partition) -> int:
    """Return the end of the partition now."""
    one = list_offset(probe, where.topic, where.index, LATEST)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    offset: int = one.offset
    return offset
