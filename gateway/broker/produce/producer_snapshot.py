"""Writes and reads the content of a producer snapshot, ``OFFSET.snapshot``, as Kafka does: the
producers of a partition as the batches below an offset left them.

Kafka writes one entry for each producer, with its newest batch. Here a producer has an entry for
each of its newest batches, the oldest first: Kafka takes the last entry of a producer, and a batch
that comes again after a restart is recognized though it is not the newest. Source:
``ProducerStateManager.writeSnapshot``, ``readSnapshot``, ``loadProducerEntry``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import crc32c

from gateway.broker.produce.producer_state import BatchSeen, ProducerState
from kwire.errors import DecodeError
from kwire.messages.producer_snapshot import ProducerEntry, ProducerSnapshot

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_CRC: Final = struct.Struct(">I")


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Return the content of the file."""
    entries = [entry for state in states for entry in _entries(state)]
    data = bytearray(struct.pack(">h", _VERSION))
    data += ProducerSnapshot(producer_entries=entries).encode(_VERSION)
    _CRC.pack_into(data, 2, crc32c.crc32c(memoryview(data)[_HEAD.size :]))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """Return the producers in the file. Raises DecodeError."""
    if len(data) < _HEAD.size:
        raise DecodeError(f"a producer snapshot of {len(data)} bytes", rule="truncated")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DecodeError(f"a producer snapshot of version {version}", rule="snapshot-version")
    if crc != crc32c.crc32c(memoryview(data)[_HEAD.size :]):
        raise DecodeError("a producer snapshot with a wrong CRC", rule="crc")
    message, _ = ProducerSnapshot.decode_from(data, _VERSION, offset=2)
    states: dict[int, ProducerState] = {}
    for state in map(_state, message.producer_entries):
        before = states.pop(state.producer_id, None)
        if before is not None and before.epoch == state.epoch:
            before.batches.extend(state.batches)
            state.batches = before.batches
        states[state.producer_id] = state
    return list(states.values())


def _entries(state: ProducerState) -> list[ProducerEntry]:
    return [_entry(state, batch) for batch in state.batches] or [_entry(state, None)]


def _entry(state: ProducerState, last: BatchSeen | None) -> ProducerEntry:
    return ProducerEntry(
        producer_id=state.producer_id,
        epoch=state.epoch,
        last_sequence=-1 if last is None else last.last_sequence,
        last_offset=-1 if last is None else last.last_offset,
        offset_delta=0 if last is None else last.last_offset - last.first_offset,
        timestamp=state.timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_first_offset=state.txn_first_offset,
    )


def _state(entry: ProducerEntry) -> ProducerState:
    state = ProducerState(
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.timestamp,
        max(-1, entry.current_txn_first_offset),
    )
    if entry.last_offset >= 0:
        first = entry.last_sequence - entry.offset_delta
        # Behind the largest sequence number comes 0.
        if first < 0 <= entry.last_sequence:
            first += 1 << 31
        state.batches.append(
            BatchSeen(
                first if entry.last_sequence >= 0 else -1,
                entry.last_sequence,
                entry.last_offset - entry.offset_delta,
                entry.last_offset,
            )
        )
    return state
