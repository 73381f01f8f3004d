"""Reads the batches of a segment or snapshot, and checks what each has to have by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kwire.conformance.log import rules
from kwire.conformance.log.findings import Findings
from kwire.errors import DecodeError
from kwire.records import (
    BATCH_OVERHEAD,
    BatchHeader,
    ControlRecord,
    Record,
    TimestampType,
    decode_control_record,
    decode_records,
    read_header,
    verify_crc,
)

_LENGTH_AT: Final = 8
_LOG_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_LENGTH_MIN: Final = BATCH_OVERHEAD - _LOG_OVERHEAD


class ReadBatch(NamedTuple):
    """A batch of a file. ``records`` is None where they cannot be read."""

    file: Path
    header: BatchHeader
    records: list[Record] | None

    @property
    def position(self) -> int:
        """The byte of the file at which the batch begins."""
        return self.header.position


def read_batches(
    findings: Findings, file: Path, data: bytes, *, may_be_torn: bool
) -> Iterator[ReadBatch]:
    """Return the batches of a file, each with its own faults reported.

    ``may_be_torn``: the file is the last segment, which can end within a batch. Reading ends at a
    header that is none, as nothing behind it can be found.
    """
    at = 0
    while at < len(data):
        fault = _header_fault(data, at)
        if fault is not None:
            _report_header(findings, file, at, data, fault, may_be_torn=may_be_torn)
            return
        header = read_header(data, at)
        yield ReadBatch(file, header, _records(findings, file, data, header))
        at = header.end


def _header_fault(data: bytes, at: int) -> tuple[bool, str] | None:
    """Return (whether the file ends within the batch, sentence) if no whole batch is at ``at``."""
    left = len(data) - at
    if left < _MAGIC_AT + 1:
        return True, f"{left} bytes are left, no batch header"
    length = int.from_bytes(data[at + _LENGTH_AT : at + _LOG_OVERHEAD], "big", signed=True)
    if length < _LENGTH_MIN:
        return False, f"a batch has length {length}, the least is {_LENGTH_MIN}"
    if data[at + _MAGIC_AT] != 2:
        return False, f"a batch has format {data[at + _MAGIC_AT]}, metadata logs have 2"
    if _LOG_OVERHEAD + length > left:
        return True, f"a batch of {_LOG_OVERHEAD + length} bytes begins, {left} are left"
    return None


def _report_header(
    findings: Findings,
    file: Path,
    at: int,
    data: bytes,
    fault: tuple[bool, str],
    *,
    may_be_torn: bool,
) -> None:
    is_short, sentence = fault
    # Blocks that were allocated and never written are zeros: a torn end, too.
    torn = may_be_torn and (is_short or not any(data[at:]))
    if torn:
        findings.wrong(rules.WHOLE_TAIL, file, at, sentence)
    else:
        rule_id = rules.BATCH_WHOLE if is_short else rules.BATCH_HEADER
        findings.damaged(rule_id, file, at, sentence)


def _records(
    findings: Findings, file: Path, data: bytes, header: BatchHeader
) -> list[Record] | None:
    try:
        verify_crc(data, header)
    except DecodeError as error:
        findings.damaged(rules.BATCH_CRC, file, header.position, error.reason)
        return None
    try:
        records = decode_records(data, header)
    except DecodeError as error:
        findings.wrong(rules.RECORDS, file, header.position, str(error))
        return None
    _check_header(findings, file, header, records)
    return records


def _check_header(
    findings: Findings, file: Path, header: BatchHeader, records: list[Record]
) -> None:
    at = header.position
    offsets = [record.offset for record in records]
    if offsets != list(range(header.base_offset, header.next_offset)):
        findings.wrong(
            rules.RECORDS, file, at,
            f"a batch of offsets {header.base_offset} to {header.last_offset} has "
            f"{len(offsets)} records",
        )  # fmt: skip
    if header.producer_id != -1 or header.is_transactional or not records:
        findings.wrong(
            rules.PRODUCER, file, at,
            f"the batch at offset {header.base_offset} has producer id {header.producer_id} and "
            f"{len(records)} records",
        )  # fmt: skip
    largest = max((record.timestamp for record in records), default=header.max_timestamp)
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if largest != header.max_timestamp and not is_append_time:
        findings.wrong(
            rules.TIMESTAMPS, file, at,
            f"the largest timestamp is {header.max_timestamp}, of the records {largest}",
        )  # fmt: skip


def control_records(findings: Findings, batch: ReadBatch) -> list[ControlRecord]:
    """Return the control records of a control batch; those that do not decode are reported."""
    found = []
    for record in batch.records or ():
        try:
            found.append(decode_control_record(record))
        except DecodeError as error:
            findings.wrong(rules.CONTROL_RECORDS, batch.file, batch.position, str(error))
    return found
