"""Request and response headers: which version an api uses, and where the body begins.

Headers have no version of their own on the wire: it follows from api key and request version
(``ApiKeys.requestHeaderVersion`` and ``responseHeaderVersion``): v2/v1 where the message is
flexible, else v1/v0. ApiVersions answers always carry header v0, and its requests from v3 on carry
v2, unknown higher versions included, so that a server can answer that the version is too new.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING

from kwire.errors import DecodeError, UnknownApi
from kwire.messages.request_header import RequestHeader
from kwire.messages.response_header import ResponseHeader
from kwire.registry import request_type, response_type

if TYPE_CHECKING:
    from kwire.message import Message

API_VERSIONS = 18
_correlation_id = struct.Struct(">i")


@functools.cache
def request_header_version(api_key: int, version: int) -> int:
    """The request header's version. A version above the newest one has the header of that. Raises
    UnknownApi.
    """
    return _request_header(request_type(api_key), version)


@functools.cache
def response_header_version(api_key: int, version: int) -> int:
    """The response header's version. Raises UnknownApi."""
    return _response_header(response_type(api_key), version)


def _request_header(form: type[Message], version: int) -> int:
    declared = _declared(form, version)
    return 1 + _is_flexible(form, version) if declared is None else declared


def _response_header(form: type[Message], version: int) -> int:
    if form.API_KEY == API_VERSIONS:
        return 0
    declared = _declared(form, version)
    return int(_is_flexible(form, version)) if declared is None else declared


def _declared(form: type[Message], version: int) -> int | None:
    """The header's version by the schema's ``headerVersions`` (KIP-1313)."""
    return next((one for low, one in reversed(form.HEADER_VERSIONS) if version >= low), None)


def _is_flexible(form: type[Message], version: int) -> bool:
    flexible = form.FLEXIBLE_VERSIONS
    return len(flexible) > 0 and version >= flexible[0]


def peek(frame: bytes | bytearray) -> tuple[int, int, int]:
    """(api key, version, correlation id) of a request frame without its size. Raises
    DecodeError.
    """
    if len(frame) < 8:
        raise DecodeError(
            f"a request header has at least 8 bytes, not {len(frame)}",
            path="RequestHeader",
            offset=0,
            rule="truncated",
        )
    key, version, correlation = struct.unpack_from(">hhi", frame)
    return key, version, correlation


def decode_request_header(
    frame: bytes | bytearray, *, budget: int | None = None, form: type[Message] | None = None
) -> tuple[RequestHeader, int]:
    """The header of a request frame (without its size), and the position of the body.

    ``form``: the class that reads the body, where it is not the one of the registry, as for
    versions that newer Kafka dropped. Raises DecodeError for a header that does not parse or an api
    key that no request has; the version is not checked against the api's, only used to choose the
    header's form.
    """
    key, version, _ = peek(frame)
    try:
        header_version = (
            request_header_version(key, version) if form is None else _request_header(form, version)
        )
    except UnknownApi as error:
        raise DecodeError(
            str(error), path="RequestHeader.RequestApiKey", offset=0, rule="unknown-api"
        ) from None
    return RequestHeader.decode_from(frame, header_version, budget=budget)


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A request header in the form that the api and version call for. Raises UnknownApi,
    EncodeError.
    """
    header = RequestHeader(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return header.encode(request_header_version(api_key, version))


def decode_response_header(
    api_key: int, version: int, frame: bytes, *, budget: int | None = None
) -> tuple[ResponseHeader, int]:
    """The header of a response frame (without its size), and the position of the body. Raises
    DecodeError, UnknownApi.
    """
    return ResponseHeader.decode_from(
        frame, response_header_version(api_key, version), budget=budget
    )


def encode_response_header(
    api_key: int, version: int, correlation_id: int, *, form: type[Message] | None = None
) -> bytes:
    """A response header: the correlation id, and an empty tag section in v1. Raises UnknownApi.

    ``form``: the class of the answer, where it is not the one of the registry.
    """
    header_version = (
        response_header_version(api_key, version)
        if form is None
        else _response_header(form, version)
    )
    head = _correlation_id.pack(correlation_id)
    return head + b"\0" if header_version else head
