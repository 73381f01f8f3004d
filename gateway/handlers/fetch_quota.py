"""Counts the responses to Fetch, in the quotas of clients and for the metrics, and empties that of
a client that is throttled (``KafkaApis.handleFetchRequest``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.fetch_sessions import INVALID_SESSION_ID
from gateway.ports.services import FileRecords
from kwire.messages.fetch_response import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def is_within_quota(response: FetchResponse, context: Context) -> bool:
    """Count the response; False if the client is throttled, and nothing of it is counted."""
    quota = context.quota
    if quota is None or quota.is_exempt:
        return True
    return quota.fetched(_SIZE + sum(map(len, response.encode_parts(context.version))))


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
