"""Declares, as a Protocol, what handlers use of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.broker.transactions.events import Event
    from gateway.broker.transactions.queries import Filter
    from gateway.broker.transactions.transaction import Transaction
    from kwire.protocol import ErrorCode


class Transactions(Protocol):
    """The transaction coordinator (``TransactionCoordinator``)."""

    def find_coordinator(self, transactional_id: str) -> int | ErrorCode:
        """Return the id of the node that coordinates the transactional id. The topic is created if
        it does not exist: COORDINATOR_NOT_AVAILABLE until it does.
        """
        ...

    def partition_of_group(self, group_id: str) -> int | None:
        """Return the partition of ``__consumer_offsets`` that has the offsets of a group; None
        while the topic does not exist.
        """
        ...

    def submit(self, event: Event, on_done: Callable[[Any], None]) -> None:
        """Carry out one event. ``on_done`` is called once, on the event loop, with its result, when
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
        """Tell to which of the partitions the producer may write in its transaction. With ``add``
        they are added to it first (KIP-890); without, those that are not in it get
        TRANSACTION_ABORTABLE. ``on_done`` is called once, on the event loop.
        """
        ...

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return the transaction, without the partitions that have its marker."""
        ...

    def matching(self, wanted: Filter, now_ms: int) -> Slices[list[Transaction] | ErrorCode]:
        """Return the transactions that ``wanted`` takes."""
        ...
