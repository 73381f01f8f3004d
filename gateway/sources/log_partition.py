"""Implements what all sources over log files share: ``gateway.ports.services.Partition`` over a
chain.

A subclass defines the state and the problems, and replaces the chain. Reading bytes is in
``gateway.sources.log_reader``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Final

from gateway.log.files.problem import Problem
from gateway.log.reading.log_view import LogView, Moment
from gateway.ports.services import (
    AbortedTransaction,
    Isolation,
    OffsetAt,
    OffsetOutOfRange,
    Read,
    State,
)
from gateway.sources import log_reader
from gateway.sources.unreplicated import Unreplicated

EMPTY_LOG: Final = LogView((), 0, 0, (), 0)


class Callbacks:
    """Functions to call, in the order of subscription, whenever something moves."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe ``callback``; return the function that unsubscribes."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    def __call__(self) -> None:
        for callback in tuple(self._callbacks):
            callback()


class LogPartition(Unreplicated, abc.ABC):
    """Serves ``served``. A subclass replaces the chain with :meth:`serve`, on the event loop."""

    def __init__(self, *, cluster_id: str, log_dir: str) -> None:
        self.cluster_id = cluster_id
        self.log_dir = log_dir
        self._moment = Moment.of(EMPTY_LOG)
        self._advanced = Callbacks()

    @property
    def served(self) -> LogView:
        """The chain that is served."""
        return self._moment.view

    def serve(self, view: LogView, *, notify: bool) -> None:
        """Serve ``view`` from now on. ``notify``: run the callbacks of ``on_advance``, because
        clients see a change.
        """
        self._moment = Moment.of(view)
        if notify:
            self._advanced()

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """As in ``gateway.ports.services.Partition``: call ``callback`` when clients see a change;
        return the function that unsubscribes.
        """
        return self._advanced.add(callback)

    @property
    @abc.abstractmethod
    def state(self) -> State:
        """Whether the partition can be served."""

    @property
    @abc.abstractmethod
    def problems(self) -> Sequence[Problem]:
        """The current faults of the files, the worst first."""

    @property
    def leader_epoch(self) -> int:
        """Epoch of the last batch; of the snapshot at the log start if the log holds none."""
        return self.served.epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset served, the snapshot's records below the log start included."""
        return self._moment.start_offset

    @property
    def snapshot_end(self) -> int:
        """The end of the snapshot whose records are served below the log's own start; 0 where there
        are none.
        """
        first = self.served.slices[0] if self.served.slices else None
        return first.end_offset if first is not None and first.shift else 0

    @property
    def high_watermark(self) -> int:
        """One past the last offset served."""
        return self._moment.end_offset

    def visible_end(self, isolation: Isolation) -> int:
        """The high watermark for every reader: there are no transactions (KIP-98)."""
        return self.high_watermark

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments from the log start on."""
        return sum(piece.end - piece.start for piece in self.served.slices if piece.shift == 0)

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        """As in ``Partition``. While loading every offset is out of range."""
        if self.state is State.LOADING:
            raise OffsetOutOfRange("the log is still being loaded")
        return log_reader.read(self.served, offset, max_bytes)

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        """As in ``gateway.ports.services.Partition``."""
        return self.read(offset, max_bytes), ()

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        """As in ``gateway.ports.services.Partition``."""
        if limit == 1 and self.log_start_offset <= offset < self.high_watermark:
            return limit  # a short way for fetch.min.bytes=1, the default: any batch is enough
        return log_reader.bytes_available(self.served, offset, limit)

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """As in ``gateway.ports.services.Partition``."""
        return log_reader.offset_for_timestamp(self.served, timestamp)

    def max_timestamp(self) -> OffsetAt | None:
        """As in ``gateway.ports.services.Partition``."""
        return log_reader.max_timestamp(self.served)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka (``LeaderEpochFileCache.endOffsetFor``): for an epoch before the first known
        one, that epoch and the first known one's start offset.
        """
        return self.served.end_offset_for_epoch(epoch)

    def epoch_at(self, offset: int) -> int:
        """As in ``gateway.ports.services.Partition``."""
        return self.served.epoch_at(offset)
