"""Compares the position of a client of Fetch with the log: whether it has everything, whether its
records are those of this log (KIP-595), and how far a follower is.

Source: ``Partition.fetchRecords``, ``Partition.updateFollowerFetchState``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.topic import end_of_epoch, partition_fault
from gateway.ports.services import Isolation, OffsetOutOfRange, Partition, ReplicaFetch
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.replica.follower_state import Contact
    from gateway.handlers.context import Context
    from gateway.handlers.fetch_sessions import FetchedPartition

#: The end at which a client of a session has everything.
_END_OF: Final = {
    Isolation.LOG_END: Isolation.LOG_END,
    Isolation.HIGH_WATERMARK: Isolation.HIGH_WATERMARK,
    Isolation.TXN_COMMITTED: Isolation.HIGH_WATERMARK,
}


def note_progress(
    one: FetchedPartition, broker_id: int, broker_epoch: int, contact: Contact
) -> None:
    """Tell the log of a partition how far its follower is: what the leader commits depends on it.
    A follower whose request gets an error, or whose log differs, has told nothing.
    """
    log, one.fault, one.is_compared = one.log, ErrorCode.NONE, False
    if log is None or isinstance(log, ErrorCode) or partition_fault(log, one.leader_epoch):
        return
    if not log.log_start_offset <= one.fetch_offset <= log.visible_end(Isolation.LOG_END):
        return
    try:
        if diverging(log, one) is not None:
            return
    except OffsetOutOfRange:
        return  # as the response will say
    is_compared = one.last_fetched_epoch < 0 or log.log_start_offset < one.fetch_offset
    one.fault = log.note_fetch(
        ReplicaFetch(
            broker_id,
            broker_epoch,
            one.fetch_offset,
            one.follower_start_offset,
            contact,
            is_compared,
        )
    )
    one.is_compared = log.has_compared(broker_id)


def diverging(log: Partition, wanted: FetchedPartition) -> tuple[int, int] | None:
    """Return the (epoch, end offset) to which the client must truncate, if it sent the epoch of its
    last record and that is not in this log (KIP-595); None if its log agrees with this one.

    Raises OffsetOutOfRange where ``Partition.readRecords`` does.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    if wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"offset {wanted.fetch_offset} is below the log start {log.log_start_offset}"
        )
    epoch, end = end_of_epoch(log, wanted.last_fetched_epoch)
    if epoch < 0:
        raise OffsetOutOfRange(f"epoch {wanted.last_fetched_epoch} is not in this log")
    return (epoch, end) if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset else None


def held_back(follower: int, context: Context) -> Callable[[Partition], bool] | None:
    """Return what tells whether a follower gets no records of a partition now, because the leader
    is throttled (KIP-73); None without a quota.
    """
    replicas = context.gateway.replicas
    if replicas is None or not replicas.are_throttled:
        return None
    return lambda partition: replicas.holds_back(partition, follower)


def is_settled(one: FetchedPartition, isolation: Isolation) -> bool:
    """Whether a partition of a session has nothing new for its client until its log advances."""
    log = one.log
    return (
        log is not None
        and not isinstance(log, ErrorCode)
        and not one.fault
        # Also of committed transactions: the log tells when they end.
        and one.fetch_offset == log.visible_end(_END_OF[isolation])
        and one.high_watermark == log.high_watermark
        and one.log_start_offset == log.log_start_offset
    )
