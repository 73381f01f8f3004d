"""Defines the states of a connection, the events, and a table of every transition between them.

``ConnectionState`` follows the table and raises for an event that the table does not list. It knows
no sockets, no requests and no clock. A connection has one request in flight, as with Kafka's
``KafkaChannel.ChannelMuteState``; the form is that of h11's state tables. ``python -m tools.check
generated --fix`` draws the table in docs/architecture.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


# str, because the hash of a plain Enum member is computed by Python code, twice per event.
class State(enum.StrEnum):
    """The states of a connection."""

    HANDSHAKE = "handshake"  #: before the end of the TLS handshake; ends at once without TLS
    READY = "ready"  #: no request is in flight, and every response is sent
    HANDLING = "handling"  #: handlers run; their responses are queued, not sent
    PENDING = "pending"  #: one request waits for its response; requests behind it are read ahead
    SENDING = "sending"  #: responses are queued; no request is handled until they are sent
    DRAINING = "draining"  #: no further request is handled; queued responses are sent
    DRAINING_PENDING = "draining_pending"  #: the same, after the response of one request
    CUT = "cut"  #: closes as soon as its task runs; nothing more is sent
    CLOSED = "closed"  #: the socket is closed


class Event(enum.StrEnum):
    """The events that change the state."""

    SECURED = "secured"  #: the TLS handshake is done, or the listener has none
    REQUEST = "request"  #: a whole request was read, and its handler runs
    DEFERRED = "deferred"  #: the handler returned a PendingResponse that is not complete
    HANDLED = "handled"  #: the requests at hand are handled; their responses are queued
    COMPLETED = "completed"  #: the pending response is complete, and is being queued
    SENT = "sent"  #: the socket took all queued responses
    DRAIN = "drain"  #: shutdown, a bad request, or a failed authentication
    CUT = "cut"  #: a limit, or a failure outside of the connection's task
    CLOSE = "close"  #: the connection's task ends


#: State -> event -> next state. An event that is missing here is impossible in that state.
TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = MappingProxyType(
    {
        State.HANDSHAKE: {
            Event.SECURED: State.READY,
            Event.DRAIN: State.DRAINING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        State.READY: {
            Event.REQUEST: State.HANDLING,
            Event.DRAIN: State.DRAINING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        State.HANDLING: {
            Event.REQUEST: State.HANDLING,
            Event.DEFERRED: State.PENDING,
            Event.HANDLED: State.SENDING,
            Event.DRAIN: State.DRAINING,
            Event.CUT: State.CUT,
            # No CLOSE: HANDLED comes first, even if a handler raises.
        },
        State.PENDING: {
            Event.COMPLETED: State.SENDING,
            Event.SENT: State.PENDING,
            Event.DRAIN: State.DRAINING_PENDING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        State.SENDING: {
            Event.SENT: State.READY,
            Event.DRAIN: State.DRAINING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        State.DRAINING: {
            Event.SENT: State.DRAINING,
            Event.DRAIN: State.DRAINING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        State.DRAINING_PENDING: {
            Event.COMPLETED: State.DRAINING,
            Event.SENT: State.DRAINING_PENDING,
            Event.DRAIN: State.DRAINING_PENDING,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        # The task has not noticed yet: others may complete its response, drain it or cut it again.
        State.CUT: {
            Event.COMPLETED: State.CUT,
            Event.SENT: State.CUT,
            Event.DRAIN: State.CUT,
            Event.CUT: State.CUT,
            Event.CLOSE: State.CLOSED,
        },
        # The reaper works on a copy of the set of connections: some may have closed since.
        State.CLOSED: {
            Event.DRAIN: State.CLOSED,
            Event.CUT: State.CLOSED,
        },
    }
)
#: States in which a handler has returned a PendingResponse that nothing has completed yet.
AWAITING_RESPONSE: Final = frozenset({State.PENDING, State.DRAINING_PENDING})


class ImpossibleTransition(AssertionError):
    """An event came in a state in which it cannot: a bug of this server."""


class ConnectionState:
    """The state of one connection. ``now`` is changed by :meth:`on` only."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = State.HANDSHAKE

    def on(self, event: Event) -> None:
        """Enter the next state. Raises ImpossibleTransition, and stays, if there is none."""
        following = TRANSITIONS[self.now].get(event)
        if following is None:
            raise ImpossibleTransition(f"{event.name} in {self.now.name}")
        self.now = following

    @property
    def takes_requests(self) -> bool:
        """Whether a request may be handled now."""
        return self.now is State.READY

    @property
    def is_awaiting_response(self) -> bool:
        """Whether a request is in flight whose response is not complete."""
        return self.now in AWAITING_RESPONSE
