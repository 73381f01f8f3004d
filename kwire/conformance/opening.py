"""Opens the session of a run: asks the server which versions it has."""

from __future__ import annotations

import contextlib
import time

from kwire.conformance.connection import Connection, PeerClosed
from kwire.conformance.outcome import CheckEnd
from kwire.conformance.probe import Probe
from kwire.conformance.session import CLIENT_ID, CannotConnect, Session, Target
from kwire.errors import WireError
from kwire.header import decode_response_header, encode_request_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.protocol import ApiKey, ErrorCode


def open_session(target: Target, timeout_s: float) -> Session:
    """Ask the server for its versions. Raises CannotConnect, with the reason.

    A server that has no ApiVersions 3, or whose answer to it cannot be read, is asked in version 0;
    rules of ``api-versions`` judge the answer to version 3.
    """
    deadline = time.monotonic() + timeout_s
    try:
        answer = _ask(target, 3, deadline)
    except (PeerClosed, WireError):
        answer = None
    except (CheckEnd, OSError, UnicodeError) as error:
        raise CannotConnect(f"{target.name}: {error}") from None
    try:
        if answer is None or answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = _ask(target, 0, deadline)
    except (PeerClosed, CheckEnd, OSError, WireError) as error:
        raise CannotConnect(f"{target.name}: ApiVersions is not answered: {error}") from None
    if answer.error_code:
        raise CannotConnect(
            f"{target.name}: ApiVersions is answered with error {answer.error_code}"
        )
    offered = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    if not offered:
        raise CannotConnect(f"{target.name}: offers no API")
    return Session(target, offered, timeout_s, Probe)


def _ask(target: Target, version: int, deadline: float) -> ApiVersionsResponse:
    request = ApiVersionsRequest(
        client_software_name=CLIENT_ID if version >= 3 else "",
        client_software_version="1" if version >= 3 else "",
    )
    key = ApiKey.API_VERSIONS
    stream = target.open(max(deadline - time.monotonic(), 0.01))
    with contextlib.closing(Connection(stream, deadline)) as connection:
        connection.send_request(
            encode_request_header(key, version, 1, CLIENT_ID) + request.encode(version)
        )
        received = connection.receive()
    _, body = decode_response_header(key, version, received)
    if received[body : body + 2] == b"\0\x23":  # 35: the rest is in version 0 (KIP-511)
        version = 0
    return ApiVersionsResponse.decode(received[body:], version)
