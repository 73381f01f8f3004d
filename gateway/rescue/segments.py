"""Reads the segments of a copy up to the last whole batch: marks of batches, voters, time, damage.

It changes and repairs nothing; ``gateway.log.metadata.recovery`` does, for a log that is opened.
Source: ``LogSegment.recover``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.files.problem import Problem
from gateway.log.metadata.listing import Listing
from gateway.log.segments.batch_check import HEADER, Tail, check_file
from gateway.rescue.copies import Copy, Position
from kwire.errors import DecodeError, WireError
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.reader import read_log_file
from kwire.records import BatchHeader, Record, decode_control_record
from kwire.records.header import BATCH_OVERHEAD, LOG_OVERHEAD

#: ``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``: the next batch lies within so many bytes.
_SEARCHED_BYTES: Final = 8 * MIB
_MAGIC: Final = b"\x02"
_MAGIC_AT: Final = 16
_LENGTH: Final = "the length of a batch reaches behind the end, and whole batches follow it"


def read_segments(copy: Copy, directory: Path, listing: Listing) -> None:
    """Read the segments in order, up to the first damage. Raises nothing for bad bytes; OSError."""
    tail = Tail(-1, 0)
    for base, _ in listing.segments:
        path = directory / segment_name(base)
        if tail.next_offset not in (-1, base):
            _damaged(copy, path, -1, _gap(tail.next_offset, base))
            return
        good, tail, fault = _whole_end(path, Tail(base, tail.epoch))
        if not _read_batches(copy, path, good):
            return
        copy.segments += ((path.name, good),)
        copy.end = Position(tail.epoch if len(copy.marks) else -1, tail.next_offset)
        if fault is None:
            continue
        behind = _batch_behind(path, fault, tail.next_offset)
        if fault.rule == "truncated" and behind is None and base == listing.segments[-1][0]:
            copy.notes.append(
                f"{path}: ends inside a batch at byte {fault.offset}: being written, or cut off"
            )
        else:
            is_length = fault.rule == "truncated" and behind is not None
            _damaged(copy, path, fault.offset, _LENGTH if is_length else fault.reason)
            _look_behind(copy, path, behind)
        return


def _whole_end(path: Path, tail: Tail) -> tuple[int, Tail, DecodeError | None]:
    """Return the position behind the last whole batch, the log's end there, and the fault behind
    it.
    """
    file = OpenFile(str(path))
    size, _ = file.status()
    end = 0
    for checked in check_file(file, 0, size, tail):
        end, tail = checked.end or end, checked.tail
        if checked.fault is not None:
            return end, tail, checked.fault
    if end < size:
        cut = DecodeError("ends inside a batch", path=str(path), offset=end, rule="truncated")
        return end, tail, cut
    return end, tail, None


def _read_batches(copy: Copy, path: Path, end: int) -> bool:
    """Read the batches before position ``end``. False, with the damage noted, if the records of one
    cannot be read.
    """
    if not end:
        return True
    position = 0
    try:
        for header, records in read_log_file(path):
            position = header.position
            if header.is_control:
                _read_control(copy, path, header, records)
            _take(copy, header)
            if header.end >= end:
                break
    except WireError as error:
        at = error.offset if isinstance(error, DecodeError) and error.offset >= 0 else position
        reason = error.reason if isinstance(error, DecodeError) else str(error)
        _damaged(copy, path, at, reason)
        return False
    return True


def _take(copy: Copy, header: BatchHeader) -> None:
    if not len(copy.marks):
        copy.start_offset = header.base_offset
    copy.marks.add(header.base_offset, header.partition_leader_epoch, header.crc)
    copy.end = Position(header.partition_leader_epoch, header.next_offset)
    copy.see_epoch(header.partition_leader_epoch)
    if header.max_timestamp >= 0:
        copy.last_timestamp = header.max_timestamp


def _read_control(copy: Copy, path: Path, header: BatchHeader, records: list[Record]) -> None:
    """Take KRAFT_VERSION and KRAFT_VOTERS records that are newer than those of the snapshot. Raises
    DecodeError.
    """
    for record in records:
        try:
            message = decode_control_record(record).message
        except DecodeError as error:
            reason = f"control record at offset {record.offset}: {error.reason}"
            raise DecodeError(reason, offset=header.position, rule=error.rule) from None
        if isinstance(message, KRaftVersionRecord) and _is_newer(copy.kraft_versions, record):
            copy.kraft_versions += ((record.offset, message.k_raft_version),)
        if isinstance(message, VotersRecord) and _is_newer(copy.voters, record):
            copy.add_voters(record.offset, message, str(path), header.position)


def _is_newer(known: tuple[tuple[int, object], ...], record: Record) -> bool:
    return not known or record.offset > known[-1][0]


def _batch_behind(path: Path, fault: DecodeError, next_offset: int) -> int | None:
    """Return where whole batches go on behind the fault; None if none is found.

    A batch that is being written has none behind it: one that reaches behind the end of the file
    and has some is a batch whose length is damaged.
    """
    if fault.rule not in ("crc", "truncated"):
        return None
    file = OpenFile(str(path))
    size, _ = file.status()
    data = file.read(fault.offset, min(size - fault.offset, _SEARCHED_BYTES))
    limit = len(data) - BATCH_OVERHEAD + _MAGIC_AT + 1
    at = data.find(_MAGIC, LOG_OVERHEAD + _MAGIC_AT, limit)
    while at >= 0:
        start = at - _MAGIC_AT
        base, length, *_ = HEADER.unpack_from(data, start)
        # Cheaper than the CRC of whatever lies there.
        if 0 < base - next_offset <= len(data) and length <= len(data) - start:
            checked = next(check_file(file, fault.offset + start, size, Tail(-1, 0)))
            if checked.batches:
                return fault.offset + start
        at = data.find(_MAGIC, at + 1, limit)
    return None


def _look_behind(copy: Copy, path: Path, position: int | None) -> None:
    """Note the epochs and the end of what lies behind a damaged batch: they count for the new
    epoch, and show how much the damage hides.
    """
    if position is None:
        return
    file = OpenFile(str(path))
    size, _ = file.status()
    last = None
    for checked in check_file(file, position, size, Tail(-1, 0)):
        last = checked.batches[-1] if checked.batches else last
    if last is not None:
        copy.see_epoch(last.epoch)
        copy.notes.append(
            f"{path}: behind the damage whole batches follow, up to offset {last.last_offset} of"
            f" epoch {last.epoch}"
        )


def _damaged(copy: Copy, path: Path, position: int, reason: str) -> None:
    copy.damage.append(Problem(str(path), position, reason))


def _gap(expected: int, base: int) -> str:
    if base > expected:
        return f"offsets {expected} to {base - 1} are missing before it"
    return f"begins at offset {base}, and the segment before it ends at {expected}"
