"""Calls the group coordinator, and authorizes operations on groups, for the group APIs.

It knows no API.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.handlers.access import Operation
from gateway.ports.pending_response import PendingResponse

if TYPE_CHECKING:
    from gateway.groups.events import Event
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message

#: Operations on groups (``AclEntry.supportedOperations``) that this server implements.
GROUP_OPERATIONS: Final = (Operation.READ, Operation.DELETE, Operation.DESCRIBE)

_ANONYMOUS: Final = "User:ANONYMOUS"
_T = TypeVar("_T")


def ask(
    context: Context,
    event: Event,
    respond: Callable[[Any], Message | Streamed],
) -> PendingResponse:
    """Send ``event`` to the coordinator; ``respond`` makes the response of its result, now or
    later.
    """
    answer = _Responding(respond)
    context.gateway.groups.submit(event, answer)
    return answer.pending


def owner_of(context: Context) -> str:
    """Return the owner to which the memory of this request counts: the principal, or the address of
    an anonymous client.

    Without authentication all clients are one principal, and one client must not use up the share
    of all. Of an IPv6 address the first 64 bits count, as a host chooses the others freely.
    """
    peer = context.peer
    if peer.principal != _ANONYMOUS:
        return peer.principal
    host = peer.host
    if ":" in host:
        with contextlib.suppress(ValueError):
            host = str(ipaddress.IPv6Network((host.partition("%")[0], 64), strict=False))
    return f"{_ANONYMOUS}@{host}"


def may_on_group(context: Context, operation: Operation, group_id: str) -> bool:
    """Whether the client may do ``operation`` on the group."""
    peer = context.peer
    return context.gateway.authorizer.allows(
        peer.principal, peer.host, operation.name, "GROUP", group_id
    )


def group_operations(context: Context, group_id: str) -> int:
    """Return the bit field of the client's authorized operations on the group (KIP-430)."""
    allowed = (
        operation for operation in GROUP_OPERATIONS if may_on_group(context, operation, group_id)
    )
    return sum(1 << operation for operation in allowed)


def by_topic(items: Iterable[_T], topic: Callable[[_T], Any]) -> Iterable[tuple[Any, Sequence[_T]]]:
    """Yield runs of items of the same topic: responses keep the order of the request."""
    for name, run in groupby(items, topic):
        yield name, list(run)


class _Responding:
    """Receives the coordinator's result and completes the connection's PendingResponse with its
    response.
    """

    def __init__(self, respond: Callable[[Any], Message | Streamed]) -> None:
        self.pending = PendingResponse()
        self._respond = respond

    def complete(self, result: Any) -> None:
        # The connection is closed. The group's state has changed all the same, as in Kafka.
        if not self.pending.cancelled:
            self.pending.complete(self._respond(result))
