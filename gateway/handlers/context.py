"""What a handler is given, and what it may answer.

A handler is one module named after its API with ``API_KEY``, ``VERSIONS`` and ``handle(request, context)``. It returns a
response message at once, or a :class:`Later` when the answer depends on something that has not happened yet. It knows no
sockets and no clock but ``context.now``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.handlers.table import Handler
    from gateway.ports import Forwarder, Gateway
    from gateway.security.sasl_session import SaslSession
    from kwire.message import Message

#: Unknown tagged fields in a request header. No client sends any; before authentication millions were a way to fill the
#: memory of a broker (CVE-2026-111115).
HEADER_TAGS_MAX: Final = 100


class Later:
    """An answer that is not there yet. Whoever holds it calls :meth:`complete` once; later calls are ignored.

    ``deadline`` (seconds on the clock of ``Context.now``, or None) and ``expire``: when the deadline passes first, the server
    completes it with ``expire()``. ``cancelled`` becomes true when the connection is gone: holders may forget it then.
    """

    __slots__ = ("_deliver", "_response", "cancelled", "deadline", "done", "expire", "on_cancel")

    def __init__(self, *, deadline: float | None = None, expire: Callable[[], Message] | None = None) -> None:
        self.deadline = deadline
        self.expire = expire
        self.done = False
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._response: Message | None = None
        self._deliver: Callable[[Message], None] | None = None

    def complete(self, response: Message) -> None:
        """Give the answer; runs the connection's callback directly."""
        if self.done or self.cancelled:
            return
        self.done = True
        if self._deliver is None:
            self._response = response
        else:
            self._deliver(response)

    def attach(self, deliver: Callable[[Message], None]) -> None:
        """For the connection: call ``deliver`` with the answer, at once if it is there."""
        self._deliver = deliver
        if self._response is not None:
            response, self._response = self._response, None
            deliver(response)

    def cancel(self) -> None:
        """For the connection: nobody waits any more."""
        if not self.done and not self.cancelled:
            self.cancelled = True
            if self.on_cancel is not None:
                self.on_cancel()


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asked: listener name, principal (``User:ANONYMOUS`` without authentication), address, connection number.

    ``token_authenticated``: by a delegation token, which does not allow to ask for another one (KIP-48). ``forwarder``: another
    node of the cluster tells it, which let the client in.
    """

    listener: str
    principal: str
    host: str
    port: int
    connection: int
    token_authenticated: bool = False
    forwarder: Forwarder | None = None


@dataclass(slots=True)
class Context:
    """One request's surroundings. ``now`` is monotonic seconds, ``wall_ms`` milliseconds since the epoch."""

    version: int
    client_id: str | None
    peer: Peer
    gateway: Gateway
    now: float
    wall_ms: int
    notes: dict[str, Any] = field(default_factory=dict)  #: what the access log should say about this request
    apis: Mapping[int, Handler] | None = None  #: what the listener serves, by api key; None is the table for clients
    element_budget: int | None = None  #: array elements and unknown tags that a request inside this one may have; None: any
    sasl: SaslSession | None = None  #: the connection's authentication, where its listener wants one
