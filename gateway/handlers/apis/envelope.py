"""Envelope (key 58): carries out a client's request that a node of the cluster forwards (KIP-590).

It is served on controller listeners only. The forwarder needs CLUSTER_ACTION; the request inside
runs with the client's principal and the handlers of the same listener. This module does not know
what the request changes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Generator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.context import HEADER_TAGS_MAX, Context
from gateway.handlers.element_budget import (
    DECODED_AT_ONCE_MAX,
    elements_of_node,
)
from gateway.ports.answer_errors import errors_of
from gateway.ports.pending_response import PendingResponse, Work
from gateway.ports.services import Forwarder
from gateway.ports.streamed import Streamed, stream_long
from gateway.ports.work import completed
from gateway.security.principal import decode_principal
from kwire.errors import DecodeError
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Handler
    from kwire.message import Message
    from kwire.messages.envelope_request import EnvelopeRequest
    from kwire.messages.request_header import RequestHeader

API_KEY: Final = ApiKey.ENVELOPE
VERSIONS: Final = range(1)

#: The APIs that may be inside (``ApiKeys.forwardable``): clients send them to brokers, and only the
#: active controller can carry them out.
FORWARDABLE: Final = frozenset(key for key in ApiKey if key.forwardable)


def handle(request: EnvelopeRequest, context: Context) -> Any:
    """Return the response of the request inside, or the error of the envelope."""
    if not may_on_cluster(context, Operation.CLUSTER_ACTION):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    work = _work(request, context)
    return completed(work) if len(request.request_data) <= DECODED_AT_ONCE_MAX else work


def _work(request: EnvelopeRequest, context: Context) -> Work:
    try:
        header, handler, inner, inside = yield from _opened(request, context)
    except _Refused as refusal:
        return EnvelopeResponse(error_code=refusal.error)
    answer: Any = handler.handle(inner, inside)
    while isinstance(answer, Generator):
        answer = yield from answer
    context.notes.update(inside.notes)
    if not isinstance(answer, PendingResponse):
        return _sealed(header, answer)
    pending = PendingResponse(deadline=answer.deadline)
    if (expire := answer.expire) is not None:
        # Work ends a waiting Fetch alone, which no broker forwards.
        pending.expire = lambda: _sealed(header, cast("Message | Streamed | None", expire()))
    pending.on_cancel = answer.cancel
    answer.attach(lambda response: pending.complete(_sealed(header, response)))
    return pending


class _Refused(Exception):
    """An envelope that cannot be opened; ``error`` is Kafka's error for it."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error)
        self.error = error


def _opened(
    request: EnvelopeRequest, context: Context
) -> Generator[Callable[[], Any] | None, Any, tuple[RequestHeader, Handler, Any, Context]]:
    """Return header, handler, request and context of the request inside. Raises _Refused.

    In the order of Kafka's checks (``EnvelopeUtils``), so that clients get the same error.
    """
    try:
        principal = decode_principal(request.request_principal)
    except DecodeError:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    host = _host(request.client_host_address)
    frame = bytes(request.request_data)
    try:
        header, body_at = decode_request_header(frame, budget=HEADER_TAGS_MAX)
    except DecodeError:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION) from None
    key, version = header.request_api_key, header.request_api_version
    handler = (context.apis or {}).get(key)
    if handler is None or key not in FORWARDABLE:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    if version not in handler.versions:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        budget = (
            None
            if context.element_budget is None
            else elements_of_node(context.element_budget, len(frame))
        )
        decode = partial(
            handler.request_type(version).decode_from, frame, version, body_at, budget=budget
        )
        # Off the loop: a forwarded request may have as many elements as its bytes can hold.
        inner, _ = decode() if len(frame) <= DECODED_AT_ONCE_MAX else (yield decode)
    except DecodeError:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION) from None
    outer = context.peer
    peer = replace(
        outer,
        principal=principal.name,
        host=host,
        token_authenticated=principal.token_authenticated,
        forwarder=Forwarder(outer.principal, outer.host, context.client_id),
    )
    notes = {
        "forwarded": handler.name,
        "for_principal": principal.name,
        "for_host": host,
        "for_client": header.client_id,
    }
    return (
        header,
        handler,
        inner,
        replace(context, version=version, client_id=header.client_id, peer=peer, notes=notes),
    )


def _host(address: bytes) -> str:
    """Return the client's address for the authorizer. As in Java, an IPv4-mapped IPv6 address is
    IPv4.
    """
    if len(address) not in (4, 16):
        raise _Refused(ErrorCode.INVALID_REQUEST)
    found = ipaddress.ip_address(bytes(address))
    return str(getattr(found, "ipv4_mapped", None) or found)


def _sealed(header: RequestHeader, answer: Message | Streamed | None) -> Message | Streamed:
    """Return the envelope around a response; it is encoded in slices where that is long."""
    if answer is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if not isinstance(answer, Streamed):
        answer = stream_long(answer)
    if not isinstance(answer, Streamed):
        return _sealed_whole(header, answer)
    answer.share_key = None
    answer.version = header.request_api_version
    answer.wrap = partial(_wrapped, header)
    return answer


def _sealed_whole(header: RequestHeader, answer: Message) -> Message:
    """Return the envelope around a response. NOT_CONTROLLER inside becomes the error of the
    envelope, on which the forwarder looks for the active controller
    (``EnvelopeResponse``, ``ForwardingManager``).
    """
    if ErrorCode.NOT_CONTROLLER in errors_of(answer):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return _Sealed.around(header, answer)


def _wrapped(
    header: RequestHeader, body: list[bytes], errors: Container[int], version: int
) -> list[Any]:
    """Return the parts of the envelope around an encoded response."""
    if ErrorCode.NOT_CONTROLLER in errors:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER).encode_parts(version)
    head = encode_response_header(
        header.request_api_key, header.request_api_version, header.correlation_id
    )
    return EnvelopeResponse(response_data=b"".join([head, *body])).encode_parts(version)


class _Sealed(EnvelopeResponse):
    """An envelope that encodes the response inside when it is encoded itself.

    The server encodes on behalf of the connection then, so a failure closes this connection only.
    """

    __slots__ = ("answer", "header")
    header: RequestHeader
    answer: Message

    @classmethod
    def around(cls, header: RequestHeader, answer: Message) -> _Sealed:
        """Return it with the response header for the client of ``header``."""
        sealed = cls(response_data=None)
        sealed.header, sealed.answer = header, answer
        return sealed

    def encode_parts(self, version: int, parts: list[Any] | None = None) -> list[Any]:
        """As in every message."""
        key, inner_version = self.header.request_api_key, self.header.request_api_version
        head = encode_response_header(key, inner_version, self.header.correlation_id)
        self.response_data = head + self.answer.encode(inner_version)
        return super().encode_parts(version, parts)
