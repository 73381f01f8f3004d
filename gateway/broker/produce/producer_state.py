"""Keeps the newest batches of each idempotent producer of a partition, and finds what it sends
twice or out of order (``ProducerStateManager``, ``ProducerAppendInfo``).

The states follow from the batches of the log, so a restart makes them again. There are no
transactions.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.refusal import BatchRefused
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from kwire.records.header import BatchHeader

#: Batches of a producer that may be in flight, and are recognized when they come again
#: (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``).
BATCHES_MAX: Final = 5
#: Producers that a partition keeps: each may be of a client that made its id up.
PRODUCERS_MAX: Final = 10_000
_INT32_MAX: Final = (1 << 31) - 1


class BatchSeen(NamedTuple):
    """A batch that was appended (``BatchMetadata``)."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp: int  #: the largest of the batch, ms


class ProducerState(NamedTuple):
    """The epoch of a producer, and its newest batches in it, the newest last."""

    epoch: int
    batches: deque[BatchSeen]


class ProducerStates:
    """The producers of one partition, those that were silent longest first."""

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def newest(self) -> list[tuple[int, int, BatchSeen]]:
        """Return the id and the epoch of each producer, and its newest batch. Another thread may
        add a batch meanwhile.
        """
        # The list is made in one step of the interpreter.
        return [
            (producer_id, state.epoch, state.batches[-1])
            for producer_id, state in list(self._states.items())
        ]

    def check(self, batch: BatchHeader) -> BatchSeen | None:
        """Return the batch that ``batch`` repeats, None if it is new. Raises BatchRefused if the
        producer was replaced, or a batch before it is missing.
        """
        state = self._states.get(batch.producer_id)
        # Without a state any sequence is taken: it may have gone with old segments (KIP-360).
        if batch.producer_id < 0 or state is None:
            return None
        if batch.producer_epoch < state.epoch:
            raise BatchRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, which is "
                f"smaller than the last seen epoch {state.epoch}",
            )
        if batch.producer_epoch > state.epoch:
            if batch.base_sequence != 0:
                raise self._out_of_order(batch, "a new epoch begins with sequence 0")
            return None
        for seen in state.batches:
            if (seen.first_sequence, seen.last_sequence) == (
                batch.base_sequence,
                batch.last_sequence,
            ):
                return seen
        last = state.batches[-1].last_sequence
        if batch.base_sequence != (0 if last == _INT32_MAX else last + 1):
            raise self._out_of_order(batch, f"{last} was the last sequence")
        return None

    def append(self, batch: BatchHeader) -> None:
        """Note a batch that was appended."""
        if batch.producer_id < 0:
            return
        # Removed first: the producer moves behind all that were silent since.
        state = self._states.pop(batch.producer_id, None)
        if state is None or state.epoch != batch.producer_epoch:
            state = ProducerState(batch.producer_epoch, deque(maxlen=BATCHES_MAX))
            if len(self._states) >= PRODUCERS_MAX:
                del self._states[next(iter(self._states))]
        state.batches.append(
            BatchSeen(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.max_timestamp
            )
        )
        self._states[batch.producer_id] = state

    @staticmethod
    def _out_of_order(batch: BatchHeader, why: str) -> BatchRefused:
        return BatchRefused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: the batch begins with "
            f"{batch.base_sequence}, and {why}",
        )
