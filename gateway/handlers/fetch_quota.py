"""Counts the responses to Fetch, in the quotas of clients and for the metrics, and empties that of
a client that is throttled (``KafkaApis.handleFetchRequest``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.handlers.fetch_sessions import INVALID_SESSION_ID
from gateway.ports.services import FileRecords
from kwire.messages.fetch_response import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from gateway.handlers.context import Context
    from gateway.handlers.fetch_sessions import FetchSession
    from gateway.ports.services import Partition

#: Bytes of the size in front of a response.
_SIZE: Final = 4


def bytes_max(most: int, context: Context) -> int:
    """Return how many of ``most`` bytes a response may have: more than the quota allows at once
    would be throttled for certain, so that a client could never go on.
    """
    quota = context.quota
    if quota is None or quota.is_exempt:
        return most
    return int(min(most, quota.fetch_bytes_max()))


def counted_size(response: FetchResponse, context: Context) -> int:
    """Return the bytes of a response; 0 if these count in no quota."""
    return size_of(response, context) if _counts_bytes(context) else 0


def counted_size_in_thread(
    response: FetchResponse, context: Context
) -> Generator[Callable[[], int], int, int]:
    """Return the same for a long response, which is encoded in a thread."""
    return (yield partial(size_of, response, context)) if _counts_bytes(context) else 0


def _counts_bytes(context: Context) -> bool:
    quota = context.quota
    return quota is not None and not quota.is_exempt and quota.counts_fetched


def size_of(response: FetchResponse, context: Context) -> int:
    """Return the bytes of a response, for which it is encoded."""
    return _SIZE + sum(map(len, response.encode_parts(context.version)))


def is_within_quota(size: int, context: Context) -> bool:
    """Count a response of :func:`counted_size`; False if the client is throttled, and nothing of
    it is counted.
    """
    quota = context.quota
    return quota is None or quota.is_exempt or quota.fetched(size)


def throttled(response: FetchResponse, session: FetchSession | None) -> FetchResponse:
    """Return the empty response of a client that is throttled (``getThrottledResponse``). The
    caller has the partitions of the session served again.
    """
    release(response)
    return FetchResponse(session_id=INVALID_SESSION_ID if session is None else session.id)


def counted(
    read: Iterable[tuple[Partition, int]], context: Context, of_follower: bool
) -> Iterator[None]:
    """Count for the metrics what a response has, partitions and bytes, one in each step."""
    replicas = context.gateway.replicas
    if replicas is not None:
        for partition, size in read:
            replicas.count_fetch(partition, size, of_follower=of_follower)
            yield


def release(response: FetchResponse) -> None:
    """Give up what a response would have read."""
    for data in (data for topic in response.responses for data in topic.partitions):
        if isinstance(data.records, FileRecords):
            data.records.read.release()
