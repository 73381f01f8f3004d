"""What the handlers of the group APIs share: asking the coordinator, and Kafka's authorization of groups.

It knows no API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.handlers.access import Operation
from gateway.handlers.context import Later

if TYPE_CHECKING:
    from gateway.groups.events import Event
    from gateway.handlers.context import Context
    from kwire.message import Message

#: What a client can be allowed to do with a group (``AclEntry.supportedOperations``), of what can be done here.
GROUP_OPERATIONS: Final = (Operation.READ, Operation.DELETE, Operation.DESCRIBE)

_T = TypeVar("_T")


def ask(context: Context, event: Event, respond: Callable[[Any], Message]) -> Later:
    """Put ``event`` to the coordinator; ``respond`` makes the response of its result, now or when it comes."""
    answer = _Responding(respond)
    context.gateway.groups.submit(event, answer)
    return answer.later


def may_on_group(context: Context, operation: Operation, group_id: str) -> bool:
    """May who asked do ``operation`` on the group?"""
    peer = context.peer
    return context.gateway.authorizer.allows(peer.principal, peer.host, operation.name, "GROUP", group_id)


def group_operations(context: Context, group_id: str) -> int:
    """The bit field of what who asked may do with the group (KIP-430)."""
    allowed = (operation for operation in GROUP_OPERATIONS if may_on_group(context, operation, group_id))
    return sum(1 << operation for operation in allowed)


def by_topic(items: Iterable[_T], topic: Callable[[_T], Any]) -> Iterable[tuple[Any, Sequence[_T]]]:
    """Runs of items of the same topic: answers come in the order of the questions, topic by topic."""
    for name, run in groupby(items, topic):
        yield name, list(run)


class _Responding:
    """What the driver completes with a result; the connection's Later gets the response made of it."""

    def __init__(self, respond: Callable[[Any], Message]) -> None:
        self.later = Later()
        self._respond = respond

    def complete(self, result: Any) -> None:
        # Nobody reads it any more: the group's state has changed all the same, as in Kafka.
        if not self.later.cancelled:
            self.later.complete(self._respond(result))
