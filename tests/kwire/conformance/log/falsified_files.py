"""Falsifies the small files of a log directory, and offset indexes."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from kwire.conformance.outcome import Outcome
from tests.kwire.conformance.log.falsification import (
    ABORT,
    BASIC,
    EVERY_LOG,
    OLD,
    QUORUM,
    SAMPLE,
    SEGMENTS,
    SHORT,
    UPGRADE,
    Where,
    told_by,
    whole_log,
)
from tests.kwire.conformance.log.log_copy import LogCopy

DAMAGED, FAIL = Outcome.DAMAGED, Outcome.FAIL
_EPOCHS: Final = "leader-epoch-checkpoint"
_QUORUM_STATE: Final = "quorum-state"
_PARTITION: Final = "partition.metadata"
_META: Final = "meta.properties"
_ENTRY: Final = struct.Struct(">ii")
#: Logs of Kafka, which have indexes and meta.properties.
_KAFKAS: Final = (OLD, BASIC, SEGMENTS, QUORUM, SHORT, UPGRADE)
_MANY_EPOCHS: Final = (OLD, BASIC, QUORUM, UPGRADE)


def _text(log: LogCopy, name: str) -> str:
    return log.read(name).decode()


def _epochs(log: LogCopy) -> list[tuple[int, int]]:
    lines = _text(log, _EPOCHS).splitlines()[2:]
    return [(int(epoch), int(offset)) for epoch, offset in map(str.split, lines)]


def _write_epochs(log: LogCopy, entries: list[tuple[int, int]]) -> Where:
    lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
    log.write(_EPOCHS, "\n".join([*lines, ""]).encode())
    return _EPOCHS, -1


def later_entries(log: LogCopy) -> list[int]:
    """Numbers of the entries behind the first."""
    return list(range(1, len(_epochs(log))))


def inner_entries(log: LogCopy) -> list[int]:
    return later_entries(log)[:-1]


@told_by("leader-epoch-checkpoint", DAMAGED, whole_log, EVERY_LOG)
def a_checkpoint_with_a_line_too_few(log: LogCopy, _: None) -> Where:
    log.write(_EPOCHS, "\n".join(_text(log, _EPOCHS).splitlines()[:-1]).encode())
    return _EPOCHS, -1


@told_by("leader-epoch-checkpoint", DAMAGED, whole_log, (SAMPLE, QUORUM))
def a_checkpoint_of_no_numbers(log: LogCopy, _: None) -> Where:
    log.write(_EPOCHS, _text(log, _EPOCHS).replace(" ", " x").encode())
    return _EPOCHS, -1


@told_by("leader-epoch-checkpoint", FAIL, later_entries, _MANY_EPOCHS)
def an_epoch_at_another_offset(log: LogCopy, number: int) -> Where:
    entries = _epochs(log)
    entries[number] = entries[number][0], entries[number][1] + 1
    return _write_epochs(log, entries)


@told_by("leader-epoch-checkpoint", FAIL, inner_entries, (OLD, QUORUM, UPGRADE))
def an_epoch_that_the_checkpoint_lacks(log: LogCopy, number: int) -> Where:
    entries = _epochs(log)
    del entries[number]
    return _write_epochs(log, entries)


@told_by("leader-epoch-checkpoint", FAIL, whole_log, EVERY_LOG)
def an_epoch_that_the_log_lacks(log: LogCopy, _: None) -> Where:
    epoch, offset = _epochs(log)[-1]
    return _write_epochs(log, [*_epochs(log), (epoch + 1, offset + 1)])


@told_by("leader-epoch-checkpoint", FAIL, whole_log, _MANY_EPOCHS)
def epochs_that_fall(log: LogCopy, _: None) -> Where:
    return _write_epochs(log, _epochs(log)[::-1])


def _set_state(log: LogCopy, **fields: Any) -> Where:
    state = json.loads(_text(log, _QUORUM_STATE)) | fields
    left = {key: value for key, value in state.items() if value is not None}
    log.write(_QUORUM_STATE, json.dumps(left).encode())
    return _QUORUM_STATE, -1


@told_by("quorum-state", DAMAGED, whole_log, EVERY_LOG)
def a_quorum_state_that_is_cut(log: LogCopy, _: None) -> Where:
    log.write(_QUORUM_STATE, log.read(_QUORUM_STATE)[:-5])
    return _QUORUM_STATE, -1


@told_by("quorum-state", DAMAGED, whole_log, (SAMPLE, QUORUM))
def a_quorum_state_without_an_epoch(log: LogCopy, _: None) -> Where:
    return _set_state(log, leaderEpoch=None)


@told_by("quorum-state", DAMAGED, whole_log, (SEGMENTS, UPGRADE))
def a_quorum_state_of_a_later_version(log: LogCopy, _: None) -> Where:
    return _set_state(log, data_version=9)


@told_by("quorum-state", FAIL, whole_log, EVERY_LOG)
def a_quorum_state_of_an_old_epoch(log: LogCopy, _: None) -> Where:
    return _set_state(log, leaderEpoch=0)


@told_by("quorum-state", FAIL, whole_log, (SAMPLE, OLD, BASIC, QUORUM, UPGRADE, ABORT))
def a_quorum_state_with_another_leader(log: LogCopy, _: None) -> Where:
    return _set_state(log, leaderId=55)


@told_by("quorum-state", FAIL, whole_log, (OLD, QUORUM))
def a_quorum_state_with_a_vote_below_0(log: LogCopy, _: None) -> Where:
    return _set_state(log, votedId=-7)


@told_by("partition-metadata", DAMAGED, whole_log, (SAMPLE, OLD, QUORUM))
def a_partition_metadata_of_nothing(log: LogCopy, _: None) -> Where:
    log.write(_PARTITION, b"")
    return _PARTITION, -1


@told_by("partition-metadata", FAIL, whole_log, EVERY_LOG)
def a_partition_metadata_of_another_topic(log: LogCopy, _: None) -> Where:
    log.write(_PARTITION, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    return _PARTITION, -1


def _without(log: LogCopy, key: str) -> Where:
    name = f"../{_META}"
    lines = [line for line in _text(log, name).splitlines() if not line.startswith(key)]
    log.write(name, "\n".join(lines).encode())
    return _META, -1


@told_by("meta-properties", DAMAGED, lambda log: ["version", "node.id", "cluster.id"], _KAFKAS, 2)
def a_meta_properties_that_lacks_a_key(log: LogCopy, key: str) -> Where:
    return _without(log, key)


@told_by("meta-properties", FAIL, whole_log, _KAFKAS)
def a_meta_properties_of_a_later_version(log: LogCopy, _: None) -> Where:
    name = f"../{_META}"
    log.write(name, _text(log, name).replace("version=1", "version=7").encode())
    return _META, -1


def index_entries(log: LogCopy) -> list[tuple[str, int]]:
    """(name of an index, number of an entry) of all entries that have another before them."""
    return [
        (path.name, number)
        for path in sorted(log.directory.glob("*.index"))
        for number in range(1, path.read_bytes().rstrip(b"\0").__len__() // _ENTRY.size)
    ]


def _set_entry(log: LogCopy, place: tuple[str, int], offset: int, position: int) -> Where:
    name, number = place
    data = bytearray(log.read(name))
    _ENTRY.pack_into(data, number * _ENTRY.size, offset, position)
    log.write(name, bytes(data))
    return name, number * _ENTRY.size


def _entry(log: LogCopy, place: tuple[str, int]) -> tuple[int, int]:
    offset, position = _ENTRY.unpack_from(log.read(place[0]), place[1] * _ENTRY.size)
    return int(offset), int(position)


@told_by("offset-index", FAIL, index_entries, _KAFKAS)
def an_index_that_leads_into_a_batch(log: LogCopy, place: tuple[str, int]) -> Where:
    offset, position = _entry(log, place)
    return _set_entry(log, place, offset, position + 1)


@told_by("offset-index", FAIL, index_entries, _KAFKAS)
def an_index_with_another_offset(log: LogCopy, place: tuple[str, int]) -> Where:
    offset, position = _entry(log, place)
    return _set_entry(log, place, offset + 5000, position)


@told_by("offset-index", FAIL, index_entries, _KAFKAS)
def an_index_that_names_a_batch_twice(log: LogCopy, place: tuple[str, int]) -> Where:
    name, number = place
    return _set_entry(log, place, *_entry(log, (name, number - 1)))


@told_by(
    "offset-index",
    DAMAGED,
    lambda log: sorted({name for name, _ in index_entries(log)}),
    (BASIC, QUORUM),
)
def an_index_with_part_of_an_entry(log: LogCopy, name: str) -> Where:
    size = len(log.read(name))
    log.write(name, log.read(name) + b"\0\0\0")
    return name, size
