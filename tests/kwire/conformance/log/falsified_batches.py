"""Falsifies batches of segments: bytes, headers, order, and whole segments."""

from __future__ import annotations

import struct

from kwire.conformance.outcome import Outcome
from tests.kwire.conformance.log.falsification import (
    ABORT,
    ADDED,
    EVERY_LOG,
    MANY_SEGMENTS,
    QUORUM,
    SHORT,
    Where,
    told_by,
    whole_log,
)
from tests.kwire.conformance.log.log_copy import LogCopy, Place, base_of, end_of

DAMAGED, FAIL, ADVICE = Outcome.DAMAGED, Outcome.FAIL, Outcome.ADVICE


def batches(log: LogCopy) -> list[Place]:
    return [Place(file, n) for file in log.segments() for n in range(len(log.headers(file)))]


def inner_batches(log: LogCopy) -> list[Place]:
    """Batches of metadata with a batch before and two behind them in their segment."""
    return [
        Place(file, n)
        for file in log.segments()
        for n, header in enumerate(log.headers(file)[:-2])
        if n > 0 and not header.is_control
    ]


def later_epochs(log: LogCopy) -> list[Place]:
    """Those of them that are behind a batch of epoch 1 or later, as the batch behind them is."""
    found = []
    for file in log.segments():
        headers = log.headers(file)
        found += [
            Place(file, n)
            for n, header in enumerate(headers[:-2])
            if n > 0 and headers[n - 1].partition_leader_epoch > 0 and not header.is_control
        ]
    return found


def last_batches(log: LogCopy) -> list[Place]:
    file = log.segments()[-1]
    return [Place(file, len(log.headers(file)) - 1)]


def batches_before_others(log: LogCopy) -> list[Place]:
    """The last batch of each segment but the last."""
    return [Place(file, len(log.headers(file)) - 1) for file in log.segments()[:-1]]


def inner_segments(log: LogCopy) -> list[str]:
    """Segments with others before and behind them."""
    return log.segments()[1:-1]


def at(log: LogCopy, place: Place) -> Where:
    return place.file, log.position(place)


# --- bytes ------------------------------------------------------------------------------------


@told_by("batch-crc", DAMAGED, batches, (*EVERY_LOG, ABORT), 2)
def a_byte_of_a_batch(log: LogCopy, place: Place) -> Where:
    data = log.read(place.file)
    header = log.headers(place.file)[place.batch]
    middle = (header.position + 21 + header.end) // 2
    log.patch(place, middle - header.position, bytes([data[middle] ^ 0x10]), crc=False)
    return at(log, place)


@told_by("batch-crc", DAMAGED, batches, EVERY_LOG)
def the_crc_of_a_batch(log: LogCopy, place: Place) -> Where:
    log.patch(place, 17, b"\0\1\2\3", crc=False)
    return at(log, place)


@told_by("batch-header", DAMAGED, inner_batches, EVERY_LOG)
def a_length_that_is_too_small(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.patch(place, 8, struct.pack(">i", 5), crc=False)
    return where


@told_by("batch-header", DAMAGED, batches, (*EVERY_LOG, ABORT))
def a_batch_of_format_1(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.patch(place, 16, b"\1", crc=False)
    return where


@told_by("batch-whole", DAMAGED, batches_before_others, MANY_SEGMENTS)
def a_length_beyond_the_segment(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.patch(place, 8, struct.pack(">i", 1 << 20), crc=False)
    return where


@told_by("whole-tail", ADVICE, last_batches, EVERY_LOG)
def a_length_beyond_the_log(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.patch(place, 8, struct.pack(">i", 1 << 20), crc=False)
    return where


@told_by("batch-whole", DAMAGED, batches_before_others, MANY_SEGMENTS)
def a_segment_that_is_cut(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.write(place.file, log.read(place.file)[:-5])
    return where


@told_by("whole-tail", ADVICE, last_batches, (*EVERY_LOG, ABORT))
def a_log_that_is_cut(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.write(place.file, log.read(place.file)[:-5])
    return where


@told_by("whole-tail", ADVICE, last_batches, EVERY_LOG)
def zeros_behind_the_log(log: LogCopy, place: Place) -> Where:
    data = log.read(place.file)
    log.write(place.file, data + bytes(500))
    return place.file, len(data)


@told_by("batch-header", DAMAGED, last_batches, EVERY_LOG)
def rubbish_behind_the_log(log: LogCopy, place: Place) -> Where:
    data = log.read(place.file)
    log.write(place.file, data + bytes(8) + b"\0\0\0\5" + b"\7" * 90)
    return place.file, len(data)


# --- fields of headers ------------------------------------------------------------------------


@told_by("offsets-contiguous", FAIL, inner_batches, EVERY_LOG, 2)
def another_base_offset(log: LogCopy, place: Place) -> Where:
    base = log.headers(place.file)[place.batch].base_offset
    log.patch(place, 0, struct.pack(">q", base + 1), crc=True)
    return at(log, place)


@told_by("epochs-ascend", FAIL, later_epochs, EVERY_LOG, 2)
def an_epoch_that_was(log: LogCopy, place: Place) -> Where:
    log.patch(place, 12, struct.pack(">i", 0), crc=True)
    return at(log, place)


@told_by("epochs-ascend", FAIL, inner_batches, EVERY_LOG)
def an_epoch_below_0(log: LogCopy, place: Place) -> Where:
    log.patch(place, 12, struct.pack(">i", -1), crc=True)
    return at(log, place)


@told_by("leader-change-first", FAIL, inner_batches, EVERY_LOG)
def an_epoch_of_the_future(log: LogCopy, place: Place) -> Where:
    log.patch(place, 12, struct.pack(">i", 900), crc=True)
    return at(log, place)


@told_by("epochs-ascend", FAIL, inner_batches, EVERY_LOG)
def an_epoch_that_ends_after_one_batch(log: LogCopy, place: Place) -> Where:
    log.patch(place, 12, struct.pack(">i", 900), crc=True)
    return at(log, Place(place.file, place.batch + 1))


@told_by("records", FAIL, inner_batches, EVERY_LOG)
def a_count_that_is_too_high(log: LogCopy, place: Place) -> Where:
    count = log.headers(place.file)[place.batch].record_count
    log.patch(place, 57, struct.pack(">i", count + 1), crc=True)
    return at(log, place)


@told_by("records", FAIL, inner_batches, EVERY_LOG)
def a_last_offset_that_is_too_high(log: LogCopy, place: Place) -> Where:
    last = log.headers(place.file)[place.batch].last_offset_delta
    log.patch(place, 23, struct.pack(">i", last + 5), crc=True)
    return at(log, place)


@told_by("records", FAIL, inner_batches, EVERY_LOG)
def a_compression_that_is_none(log: LogCopy, place: Place) -> Where:
    log.patch(place, 21, struct.pack(">h", 1), crc=True)
    return at(log, place)


@told_by("no-producer", FAIL, inner_batches, EVERY_LOG)
def a_producer_id(log: LogCopy, place: Place) -> Where:
    log.patch(place, 43, struct.pack(">q", 4), crc=True)
    return at(log, place)


@told_by("no-producer", FAIL, inner_batches, (QUORUM, SHORT))
def a_batch_of_a_producer_s_transaction(log: LogCopy, place: Place) -> Where:
    log.patch(place, 21, struct.pack(">h", 0x10), crc=True)
    return at(log, place)


@told_by("timestamps", FAIL, inner_batches, EVERY_LOG)
def a_largest_timestamp_of_no_record(log: LogCopy, place: Place) -> Where:
    log.patch(place, 35, struct.pack(">q", 1), crc=True)
    return at(log, place)


# --- order ------------------------------------------------------------------------------------


@told_by("offsets-contiguous", FAIL, inner_batches, EVERY_LOG, 2)
def a_batch_that_is_missing(log: LogCopy, place: Place) -> Where:
    where = at(log, place)
    log.replace(place, b"")
    return where


@told_by("offsets-contiguous", FAIL, inner_batches, EVERY_LOG, 2)
def two_batches_that_are_swapped(log: LogCopy, place: Place) -> Where:
    first, second = log.headers(place.file)[place.batch : place.batch + 2]
    data = log.read(place.file)
    log.replace(Place(place.file, place.batch + 1), data[first.position : first.end])
    log.replace(place, data[second.position : second.end])
    return at(log, place)


@told_by("offsets-contiguous", FAIL, inner_batches, EVERY_LOG)
def a_batch_that_is_there_twice(log: LogCopy, place: Place) -> Where:
    header = log.headers(place.file)[place.batch]
    log.replace(place, log.read(place.file)[header.position : header.end] * 2)
    return place.file, header.end


# --- segments ---------------------------------------------------------------------------------


@told_by("offsets-contiguous", FAIL, inner_segments, (QUORUM, ADDED, SHORT), 2)
def a_segment_that_is_missing(log: LogCopy, file: str) -> Where:
    following = log.segments()[log.segments().index(file) + 1]
    log.remove(file)
    return following, 0


@told_by("snapshot-in-log", ADVICE, whole_log, MANY_SEGMENTS)
def a_log_without_its_end(log: LogCopy, _: None) -> Where:
    """Without the segments from which the newest snapshot is."""
    newest = log.snapshots()[-1]
    for file in log.segments():
        headers = log.headers(file)
        if headers[-1].next_offset >= end_of(newest):
            log.remove(file)
    assert log.segments()
    return newest, -1


@told_by("starts-at", FAIL, whole_log, MANY_SEGMENTS)
def a_log_without_its_beginning(log: LogCopy, _: None) -> Where:
    """Without its first segment and every snapshot."""
    log.remove(log.segments()[0])
    for file in log.snapshots():
        log.remove(file)
    return log.segments()[0], -1


@told_by("segment-name", FAIL, lambda log: log.segments()[-1:], EVERY_LOG)
def a_segment_of_another_name(log: LogCopy, file: str) -> Where:
    renamed = f"{base_of(file) + 1:020d}.log"
    log.rename(file, renamed)
    return renamed, 0


@told_by("offsets-contiguous", FAIL, inner_segments, (QUORUM, ADDED, SHORT))
def two_segments_that_are_swapped(log: LogCopy, file: str) -> Where:
    following = log.segments()[log.segments().index(file) + 1]
    log.rename(file, "aside")
    log.rename(following, file)
    log.rename("aside", following)
    return file, 0
