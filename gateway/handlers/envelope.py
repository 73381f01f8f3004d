"""Envelope (key 58): a node of the cluster forwards what a client asked of it. On controller listeners only (KIP-590).

Who forwards needs CLUSTER_ACTION; what is inside is carried out as the client's, by the handlers of the same listener. Which
change is made it does not know.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.answer_errors import errors_of
from gateway.handlers.context import HEADER_TAGS_MAX, Context, Later
from gateway.handlers.errors import ErrorCode
from gateway.ports import Forwarder
from gateway.security.principal import decode_principal
from kwire.errors import DecodeError
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from gateway.handlers.table import Handler
    from kwire.message import Message
    from kwire.messages.envelope_request import EnvelopeRequest
    from kwire.messages.request_header import RequestHeader

API_KEY: Final = 58
VERSIONS: Final = range(1)

#: What may be inside (``ApiKeys.forwardable``): what clients ask of brokers and only the active controller can do.
FORWARDABLE: Final = frozenset((19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81))


def handle(request: EnvelopeRequest, context: Context) -> Message | Later:
    """What the request inside is answered with, or why it was not carried out."""
    if not may_on_cluster(context, Operation.CLUSTER_ACTION):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        header, handler, inner, inside = _opened(request, context)
    except _Refused as refusal:
        return EnvelopeResponse(error_code=refusal.error)
    answer = handler.handle(inner, inside)
    context.notes.update(inside.notes)
    if not isinstance(answer, Later):
        return _sealed(header, answer)
    later = Later(deadline=answer.deadline)
    if (expire := answer.expire) is not None:
        later.expire = lambda: _sealed(header, expire())
    later.on_cancel = answer.cancel
    answer.attach(lambda response: later.complete(_sealed(header, response)))
    return later


class _Refused(Exception):
    """An envelope that cannot be opened; ``error`` is what Kafka answers to it."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error)
        self.error = error


def _opened(request: EnvelopeRequest, context: Context) -> tuple[RequestHeader, Handler, Any, Context]:
    """Header of the request inside, who answers it, itself, and its surroundings. Raises _Refused.

    In the order of Kafka's checks (``EnvelopeUtils``): clients are told of the first thing that is wrong.
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
        inner, _ = handler.request_type(version).decode_from(frame, version, body_at, budget=context.element_budget)
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
    notes = {"forwarded": handler.name, "for_principal": principal.name, "for_host": host, "for_client": header.client_id}
    return header, handler, inner, replace(context, version=version, client_id=header.client_id, peer=peer, notes=notes)


def _host(address: bytes) -> str:
    """The client's address as an authorizer wants it; Java takes an IPv4 address in IPv6 for what it is."""
    if len(address) not in (4, 16):
        raise _Refused(ErrorCode.INVALID_REQUEST)
    found = ipaddress.ip_address(bytes(address))
    return str(getattr(found, "ipv4_mapped", None) or found)


def _sealed(header: RequestHeader, answer: Message | None) -> Message:
    """The envelope around ``answer``; NOT_CONTROLLER inside is that of the whole, so that the active one is asked instead."""
    if answer is None:
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if ErrorCode.NOT_CONTROLLER in errors_of(answer):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return _Sealed.around(header, answer)


class _Sealed(EnvelopeResponse):
    """The answer inside is encoded when this one is, by the connection: what cannot be ends that, and no one else."""

    __slots__ = ("answer", "header")
    header: RequestHeader
    answer: Message

    @classmethod
    def around(cls, header: RequestHeader, answer: Message) -> _Sealed:
        """With the head that the client of ``header`` waits for."""
        sealed = cls(response_data=None)
        sealed.header, sealed.answer = header, answer
        return sealed

    def encode_parts(self, version: int) -> list[Any]:
        """As every message."""
        key, inner_version = self.header.request_api_key, self.header.request_api_version
        head = encode_response_header(key, inner_version, self.header.correlation_id)
        self.response_data = head + self.answer.encode(inner_version)
        return super().encode_parts(version)
