"""Defines a handler, the context of its request, and the response that is completed later.

A handler is a module named after its API, with ``API_KEY``, ``VERSIONS`` and ``handle(request,
context)``. It returns a response message, a :class:`gateway.handlers.streamed.Streamed` one if it
may be long, or a :class:`PendingResponse` if the response depends on a later event. It knows no
socket, and no clock but ``context.now``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kwire.codegen.naming import snake
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.handlers.streamed import Streamed
    from gateway.handlers.work import Work
    from gateway.ports import Forwarder, Gateway
    from gateway.security.sasl_session import SaslSession
    from kwire.message import Message

#: Unknown tagged fields in a request header, at most. No client sends any. A client that is not
#: authenticated yet could send millions, and fill the server's memory (CVE-2026-111115).
HEADER_TAGS_MAX: Final = 100


class PendingResponse:
    """A response that is not ready (Kafka: ``DelayedOperation``). Its holder calls :meth:`complete`
    once; later calls are ignored.

    If ``deadline`` (seconds on the clock of ``Context.now``, or None) passes first, the server
    completes it with ``expire()``. ``cancelled`` becomes true when the connection closes: its
    holder may drop it then. ``keeps_request``: the decoded request stays in memory until the
    response, so the connection counts its bytes.
    """

    __slots__ = (
        "_deliver",
        "_response",
        "cancelled",
        "deadline",
        "done",
        "expire",
        "keeps_request",
        "on_cancel",
    )

    def __init__(
        self,
        *,
        deadline: float | None = None,
        expire: Callable[[], Message] | None = None,
        keeps_request: bool = True,
    ) -> None:
        self.keeps_request = keeps_request
        self.deadline = deadline
        self.expire = expire
        self.done = False
        self.cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._response: Message | Streamed | None = None
        self._deliver: Callable[[Any], None] | None = None

    def complete(self, response: Message | Streamed) -> None:
        """Deliver the response: call the connection's callback before this returns."""
        if self.done or self.cancelled:
            return
        self.done = True
        deliver = self._deliver
        self._release()
        if deliver is None:
            self._response = response
        else:
            deliver(response)

    def attach(self, deliver: Callable[[Any], None]) -> None:
        """For the connection: call ``deliver`` with the response, at once if it is ready."""
        if self._response is not None:
            response, self._response = self._response, None
            deliver(response)
        elif not self.done:
            self._deliver = deliver

    def cancel(self) -> None:
        """For the connection: it has closed, and needs no response."""
        if not self.done and not self.cancelled:
            self.cancelled = True
            on_cancel = self.on_cancel
            self._release()
            if on_cancel is not None:
                on_cancel()

    def _release(self) -> None:
        """Drop the references to the request and the connection: the heap of deadlines keeps this
        object until its deadline.
        """
        self.expire = self.on_cancel = self._deliver = None


@dataclass(frozen=True, slots=True)
class Handler:
    """One API of this server. ``versions`` are those that it advertises.

    ``handle(request, context)`` returns the response, a pending one, a streamed one, work in slices
    that ends with one of them, or None. None means that a request without a response failed
    (Produce with acks=0): the server closes the connection, as it has no other way to report the
    error.
    """

    api_key: int
    name: str
    versions: range
    handle: Callable[[Any, Context], Message | PendingResponse | Streamed | Work | None]
    #: The request classes of versions that Kafka has removed. A version that is not in ``versions``
    #: is served and not advertised.
    old_requests: Mapping[int, type[Message]] = field(default_factory=dict)
    #: Whether only brokers and controllers send it. It needs CLUSTER_ACTION, and may have as many
    #: elements as its bytes allow (``gateway.handlers.element_budget``).
    for_nodes: bool = False
    #: Elements of a request at most, if that is fewer than ``request.max.elements``.
    elements_max: int | None = None

    def serves(self, version: int) -> bool:
        """Whether this server serves ``version``."""
        return version in self.versions or version in self.old_requests

    def request_type(self, version: int) -> type[Message]:
        """Return the class that decodes a request of ``version``."""
        return self.old_requests.get(version) or request_type(self.api_key)

    def api(self, version: int) -> str:
        """Return the name of the API at ``version``, in snake case. Some APIs were renamed."""
        old = self.old_requests.get(version)
        return self.name if old is None else snake(old.NAME.removesuffix("Request"))


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a request.

    ``principal`` is ``User:ANONYMOUS`` without authentication, ``connection`` a number.
    ``token_authenticated``: the client authenticated with a delegation token, and may not request
    another one (KIP-48). ``forwarder``: the node of the cluster that authenticated the client and
    forwarded the request (KIP-590); None if the client sent it here.
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
    """The context of one request. ``now`` is in seconds on a monotonic clock, ``wall_ms`` in
    milliseconds since the epoch.
    """

    version: int
    client_id: str | None
    peer: Peer
    gateway: Gateway
    now: float
    wall_ms: int
    #: Fields that the access log has for this request beside the usual ones.
    notes: dict[str, Any] = field(default_factory=dict)
    #: The handlers of the listener, by API key; None: the table for clients.
    apis: Mapping[int, Handler] | None = None
    #: Array elements and unknown tags that a request inside an envelope may have; None: any number.
    element_budget: int | None = None
    #: The authentication of the connection, if its listener has one.
    sasl: SaslSession | None = None
