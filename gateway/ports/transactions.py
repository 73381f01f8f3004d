"""Declares, as Protocols, what handlers use of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.broker.transactions.events import Event
    from gateway.broker.transactions.transaction import Transaction
    from kwire.protocol import ErrorCode


class Transactions(Protocol):
    """The transaction coordinator (``TransactionCoordinator``)."""

    def submit(self, event: Event, on_done: Callable[[Any], None]) -> None:
        """Carry out one event. ``on_done`` is called once on the event loop with its result, when
        everything that it says is in the log.
        """
        ...

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        on_done: Callable[[Mapping[tuple[str, int], ErrorCode]], None],
    ) -> None:
        """Tell which of the partitions the producer may write to in its transaction. With ``add``
        they are added to it first (KIP-890); otherwise those that are not in it get
        TRANSACTION_ABORTABLE. ``on_done`` is called once, on the event loop.
        """
        ...

    def find_coordinator(self, transactional_id: str) -> int | ErrorCode:
        """Return the id of the node that coordinates the transactional id, or the error of a
        partition without a leader. The topic is created if it does not exist.
        """
        ...

    def find(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return what the log says of the transactional id, without the partitions that have their
        markers.
        """
        ...

    def matching(
        self,
        *,
        states: Iterable[str],
        producer_ids: Iterable[int],
        duration_ms: int,
        now_ms: int,
    ) -> Slices[list[Transaction]] | ErrorCode:
        """Return the transactions that match every filter that is not empty or negative."""
        ...
