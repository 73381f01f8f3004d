"""Makes the table of handlers of a worker, a process that serves clients beside its node.

A worker answers what it can read from the log and its own image. It forwards what only the node
knows or may do: groups, changes, and questions to the quorum. A few answers must not be older than
one that another process has given: a consumer that reads up to an offset, and connects to another
process, would take an end before that offset for lost records. These wait until the worker has
caught up with the node. (A follower of KIP-392 answers a Fetch above its high watermark with no
records, but has no ListOffsets.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from gateway.handlers.apis import controller_requests, voter_changes
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse, Work
from gateway.ports.work import in_slices
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Handler, Peer
    from gateway.handlers.gateway_port import Gateway
    from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
    from kwire.messages.fetch_response import FetchResponse


class Node(Protocol):
    """The node that a worker belongs to: it writes the log and coordinates groups."""

    def forward(self, frame: bytes, peer: Peer) -> PendingResponse:
        """Have the node handle the request in ``frame`` (header and body) as that of ``peer``."""
        ...

    def catch_up(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, later, when this process serves at least what the node served at the
        time of this call; or when that took too long.
        """
        ...


#: Requests that the node answers: those of its group coordinator, of the active controller, and of
#: the leader of the quorum.
FORWARDED: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_QUORUM,
        *(handler.api_key for handler in controller_requests.HANDLERS),
        *(handler.api_key for handler in voter_changes.HANDLERS),
    }
)
#: Requests about the end of the log, or about where an epoch ended.
_OF_THE_END: Final = frozenset({ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH})


def worker_handlers(node: Node) -> Mapping[int, Handler]:
    """Return every handler by API key: the same keys and versions as without workers."""
    return MappingProxyType({key: _of_worker(one, node) for key, one in handlers().items()})


def _of_worker(handler: Handler, node: Node) -> Handler:
    if handler.api_key in FORWARDED:
        return replace(handler, is_forwarded=True)
    if handler.api_key in _OF_THE_END:
        return replace(handler, handle=_caught_up_first(handler.handle, node))
    if handler.api_key == ApiKey.FETCH:
        return replace(handler, handle=_caught_up_beyond_the_end(handler.handle, node))
    return handler


def _caught_up_first(handle: Callable[[Any, Context], Any], node: Node) -> Callable[..., Any]:
    """Return a handler that answers when this process has caught up with the node."""

    def handle_caught_up(request: Any, context: Context) -> PendingResponse:
        return _later(handle, request, context, node)

    return handle_caught_up


def _caught_up_beyond_the_end(
    handle: Callable[[Any, Context], Any], node: Node
) -> Callable[..., Any]:
    """Return a handler of Fetch that catches up with the node first if a fetch offset is above this
    process's high watermark: the client may have read it from another process.
    """

    def handle_fetch(request: FetchRequest, context: Context) -> Any:
        size = sum(len(topic.partitions) for topic in request.topics)
        return in_slices(_work_on(handle, request, context, node), size)

    return handle_fetch


def _work_on(
    handle: Callable[[Any, Context], Any], request: FetchRequest, context: Context, node: Node
) -> Work:
    for topic in request.topics:
        for partition in topic.partitions:
            if _is_beyond_the_end(topic, partition, context.gateway):
                request.max_wait_ms = 0  # it has waited, and the client fetches again
                return _later(handle, request, context, node)
            yield None
    return cast("FetchResponse | PendingResponse | Work", handle(request, context))


def _is_beyond_the_end(topic: FetchTopic, asked: FetchPartition, gateway: Gateway) -> bool:
    """Whether the offset is above the high watermark of its log, as far as this process knows."""
    log = gateway.partitions.find(topic.topic or topic.topic_id, asked.partition)
    return not isinstance(log, ErrorCode) and asked.fetch_offset > log.high_watermark


def _later(
    handle: Callable[[Any, Context], Any], request: Any, context: Context, node: Node
) -> PendingResponse:
    """Return the response of ``handle``, which must not be a pending one, after catching up."""
    pending = PendingResponse(ready=lambda: handle(request, context))
    node.catch_up(pending.try_complete)
    return pending
