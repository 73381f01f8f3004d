"""Decodes a frame, calls the handler of its API, and encodes the response.

It knows no sockets: for a request that is not served it raises, and the connection closes. As in
Kafka, an unknown API or version closes the connection without a response, except that ApiVersions
of an unknown version is answered with the list of versions (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.base.wall_clock import wall_ms
from gateway.broker.quotas.request_quota import RequestQuota
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.apis.api_versions import unsupported_version_response
from gateway.handlers.context import HEADER_TAGS_MAX, Context
from gateway.handlers.element_budget import DECODED_AT_ONCE_MAX, elements_of_node
from gateway.server.logging.logs import escape
from kwire.errors import DecodeError
from kwire.header import API_VERSIONS, decode_request_header, encode_response_header, peek
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.broker.quotas.client_quotas import ClientQuotas
    from gateway.handlers.context import Handler, Peer
    from gateway.handlers.gateway_port import Gateway
    from gateway.handlers.worker_table import Node
    from gateway.ports.pending_response import Answer, Work
    from gateway.security.sasl_session import SaslSession
    from gateway.server.clients.response_scheduler import EncodedResponse
    from kwire.message import Message

Frame = bytes | bytearray
_SASL_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
#: The first version of ApiVersions that names the client's software (KIP-511).
_NAMES_SOFTWARE: Final = 3
#: Bytes of memory per byte of a request that is decoded: arrays of numbers and of small structs
#: take so many.
DECODED_FACTOR: Final = 8
_size = struct.Struct(">i")


class Refusal(Exception):
    """A request that this server does not serve.

    ``rule`` is a short stable name of the reason; ``fields`` are for the log.
    """

    def __init__(self, rule: str, **fields: Any) -> None:
        self.rule = rule
        self.fields = fields
        super().__init__(rule, fields)


class Malformed(Exception):
    """A request whose body does not follow the protocol.

    ``error`` is the reason; ``fields`` identify the request in the log.
    """

    def __init__(self, error: DecodeError, fields: dict[str, Any]) -> None:
        self.error = error
        self.fields = fields
        if error.rule == "element-budget":
            error.reason += "; ask for less in one request, or raise request.max.elements"
        super().__init__(error, fields)


@dataclass(slots=True)
class InFlightRequest:
    """A request that was read: the values that its response and its log lines need."""

    api_key: int
    api: str
    version: int  #: of the response
    correlation_id: int
    client_id: str | None
    software: str | None = None  #: name/version of the client's software, if this request has it
    notes: dict[str, Any] | None = None  #: further fields for the log, from the handler
    memory: int = 0  #: bytes that the decoded request takes
    is_bare: bool = False  #: a SASL token without a header; so is its response
    #: Of a version that newer Kafka dropped: the response's class knows the version of its header.
    is_old: bool = False
    #: The quotas of the client; None: it has none.
    quota: RequestQuota | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a log event that identify the request."""
        return {
            "api": self.api,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "client_id": escape(self.client_id),
        }


class Dispatcher:
    """Finds and calls handlers, by API key.

    ``element_budget`` bounds the array elements and unknown tags of one request. ``by_listener``:
    the tables of listeners that do not serve ``handlers``. ``node`` gets the requests whose handler
    ``is_forwarded``, which only a worker has. ``quotas``: those of the clients of ``handlers``.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        gateway: Gateway,
        *,
        element_budget: int,
        by_listener: Mapping[str, Mapping[int, Handler]] = MappingProxyType({}),
        node: Node | None = None,
        quotas: ClientQuotas | None = None,
    ) -> None:
        self._handlers = handlers
        self._by_listener = by_listener
        self._gateway = gateway
        self._budget = element_budget
        self._node = node
        self._quotas = quotas

    def tables(self) -> tuple[Mapping[int, Handler], ...]:
        """The tables of all listeners."""
        return (self._handlers, *self._by_listener.values())

    def handle(
        self, frame: Frame, peer: Peer, now: float, session: SaslSession | None = None
    ) -> tuple[InFlightRequest, Answer]:
        """Handle the request in ``frame``. Raises DecodeError, Malformed and Refusal.

        ``now`` is s on the event loop's clock. ``session``: of a listener with SASL; before it is
        open, only the requests of authentication are served.
        """
        if session is not None and session.takes_bare_tokens:
            return self._token(bytes(frame), peer, now, session)
        api_key, version, correlation_id = peek(frame)
        if api_key != ApiKey.PRODUCE:
            frame = bytes(frame)  # it may have fields of bytes; Produce has views of records alone
        if session is not None and (rule := session.refusal(api_key, now)):
            raise Refusal(rule, api_key=api_key, version=version, correlation_id=correlation_id)
        apis = self._by_listener.get(peer.listener)
        handler = (self._handlers if apis is None else apis).get(api_key)
        if handler is None:
            raise Refusal(
                "unknown-api", api_key=api_key, version=version, correlation_id=correlation_id
            )
        old = handler.old_requests.get(version)
        header, body_at = decode_request_header(frame, budget=HEADER_TAGS_MAX, form=old)
        in_flight = InFlightRequest(
            api_key, handler.api(version), version, correlation_id, header.client_id
        )
        in_flight.is_old = old is not None
        if not handler.serves(version):
            if api_key == API_VERSIONS:
                in_flight.version = 0
                return in_flight, unsupported_version_response(apis)
            raise Refusal("unknown-version", **in_flight.fields())
        context = self._context(version, header.client_id, peer, now, session)
        context.apis = apis
        in_flight.notes = context.notes
        if self._quotas is not None and self._quotas.is_set and apis is None:
            self._count_in_quotas(self._quotas, in_flight, context, len(frame))
        budget = self._elements(handler, len(frame), context)
        # Bytes behind the body are ignored, as in Kafka: librdkafka's Metadata request for all
        # topics has three.
        decode = handler.request_type(version).decode_from
        if budget > self._budget and len(frame) > DECODED_AT_ONCE_MAX:
            decode = partial(decode, frame, version, body_at, budget=budget)
            return in_flight, _decode_in_thread(decode, handler, in_flight, context)
        try:
            request, _ = decode(frame, version, body_at, budget=budget)
        except DecodeError as error:
            raise Malformed(error, in_flight.fields()) from None
        if api_key == API_VERSIONS and version >= _NAMES_SOFTWARE:
            in_flight.software = _software(request)
        if handler.is_forwarded and self._node is not None:
            return in_flight, self._node.forward(bytes(frame), peer)
        in_flight.memory = _memory_of(handler, request, len(frame))
        answer = handler.handle(request, context)
        if session is not None and api_key == API_VERSIONS and not getattr(answer, "error_code", 0):
            session.versions_told()
        return in_flight, answer

    def _count_in_quotas(
        self, quotas: ClientQuotas, in_flight: InFlightRequest, context: Context, size: int
    ) -> None:
        if context.sasl is not None and not context.sasl.is_open:
            return  # as in Kafka, where authentication comes before quotas
        principal = context.peer.principal
        quota = RequestQuota(quotas, principal, in_flight.client_id, context.now)
        if in_flight.api_key == ApiKey.PRODUCE:
            quota.produced = size
        # Brokers alone send it (``sendResponseExemptThrottle``).
        quota.is_exempt = in_flight.api_key == ApiKey.WRITE_TXN_MARKERS
        context.quota = in_flight.quota = quota

    def _elements(self, handler: Handler, size: int, context: Context) -> int:
        """The most elements that the request may have.

        A node with CLUSTER_ACTION may send as many as the bytes of its request can hold.
        """
        if handler.elements_max is not None:
            return min(self._budget, handler.elements_max)
        if not handler.for_nodes:
            return self._budget
        more = elements_of_node(self._budget, size)
        if more == self._budget or not may_on_cluster(context, Operation.CLUSTER_ACTION):
            return self._budget
        return more

    def _token(
        self, frame: bytes, peer: Peer, now: float, session: SaslSession
    ) -> tuple[InFlightRequest, Answer]:
        """Handle a frame that is only a SASL token, as clients send them after SaslHandshake 0."""
        handler = self._handlers[_SASL_AUTHENTICATE]
        context = self._context(0, None, peer, now, session)
        in_flight = InFlightRequest(
            _SASL_AUTHENTICATE, handler.name, 0, 0, None, notes=context.notes, is_bare=True
        )
        return in_flight, handler.handle(SaslAuthenticateRequest(auth_bytes=frame), context)

    def _context(
        self,
        version: int,
        client_id: str | None,
        peer: Peer,
        now: float,
        session: SaslSession | None,
    ) -> Context:
        return Context(
            version,
            client_id,
            peer,
            self._gateway,
            now,
            wall_ms(),
            element_budget=self._budget,
            sasl=session,
        )


def _memory_of(handler: Handler, request: Any, size: int) -> int:
    return DECODED_FACTOR * size if handler.memory_of is None else handler.memory_of(request, size)


def _decode_in_thread(
    decode: Callable[[], tuple[Any, int]],
    handler: Handler,
    in_flight: InFlightRequest,
    context: Context,
) -> Work:
    """Decode the request of a node, which may have any number of elements, off the event loop."""
    try:
        request, _ = yield decode
    except DecodeError as error:
        raise Malformed(error, in_flight.fields()) from None
    return handler.handle(request, context)


def encode_answer(in_flight: InFlightRequest, response: Message | EncodedResponse) -> list[Any]:
    """The frame of a response, in parts: bytes-like, FileRecords or SharedBytes.

    Raises EncodeError.
    """
    if in_flight.is_bare:
        return _bare_token(response)
    form: Any = type(response) if in_flight.is_old else None
    head = encode_response_header(
        in_flight.api_key, in_flight.version, in_flight.correlation_id, form=form
    )
    parts = response.encode_parts(in_flight.version)
    size = len(head) + sum(map(len, parts))
    parts.insert(0, _size.pack(size) + head)
    return parts


def _bare_token(answer: Any) -> list[Any]:
    """A frame that is only a SASL token; nothing for a failure, after which the connection ends."""
    return [] if answer.error_code else [_size.pack(len(answer.auth_bytes)) + answer.auth_bytes]


def _software(request: Any) -> str | None:
    return escape(f"{request.client_software_name}/{request.client_software_version}")
