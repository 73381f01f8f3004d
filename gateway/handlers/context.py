"""Defines a handler, the context of its request, and the response that is completed later.

A handler is a module named after its API, with ``API_KEY``, ``VERSIONS`` and ``handle(request,
context)``. It returns a response message, a :class:`gateway.ports.streamed.Streamed` one if it
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
    from gateway.broker.quotas.request_quota import RequestQuota
    from gateway.handlers.gateway_port import Gateway
    from gateway.ports.pending_response import Answer
    from gateway.ports.services import Forwarder
    from gateway.security.sasl_session import SaslSession
    from kwire.message import Message

#: Unknown tagged fields in a request header, at most. No client sends any. A client that is not
#: authenticated yet could send millions, and fill the server's memory (CVE-2026-111115).
HEADER_TAGS_MAX: Final = 100


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
    handle: Callable[[Any, Context], Answer]
    #: The request classes of versions that Kafka has removed. A version that is not in ``versions``
    #: is served and not advertised.
    old_requests: Mapping[int, type[Message]] = field(default_factory=dict)
    #: Whether only brokers and controllers send it. It needs CLUSTER_ACTION, and may have as many
    #: elements as its bytes allow (``gateway.handlers.element_budget``).
    for_nodes: bool = False
    #: Elements of a request at most, if that is fewer than ``request.max.elements``.
    elements_max: int | None = None
    #: Whether a worker forwards the request to the node (``gateway.handlers.worker_table``).
    is_forwarded: bool = False
    #: Bytes of memory that a decoded request takes, by the request and its size in bytes; None:
    #: ``DECODED_FACTOR`` for each byte.
    memory_of: Callable[[Any, int], int] | None = None

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
    #: The part of the request in the quotas of its client; None: this node has no quotas.
    quota: RequestQuota | None = None
