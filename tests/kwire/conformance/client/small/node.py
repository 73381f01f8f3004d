"""A connection of a small client to one node: versions, SASL, throttle times and frames."""

from __future__ import annotations

import struct
import time
from typing import Any, Final

from kwire.errors import DecodeError
from kwire.frame import frame
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.protocol import ApiKey
from kwire.registry import response_type
from kwire.structs import Struct
from tests.kwire.conformance.client.small.life import Ended, Life

#: The versions that the clients have.
OWN: Final = {
    ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (1, 12), ApiKey.LIST_OFFSETS: (1, 8),
    ApiKey.FETCH: (4, 16), ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.JOIN_GROUP: (0, 7), ApiKey.SYNC_GROUP: (0, 3),
    ApiKey.HEARTBEAT: (0, 3), ApiKey.LEAVE_GROUP: (0, 2), ApiKey.OFFSET_COMMIT: (2, 7),
    ApiKey.OFFSET_FETCH: (1, 7), ApiKey.INIT_PRODUCER_ID: (0, 4), ApiKey.PRODUCE: (3, 9),
    ApiKey.SASL_HANDSHAKE: (1, 1), ApiKey.SASL_AUTHENTICATE: (0, 2),
}  # fmt: skip
#: A session is renewed when so much of its time is over.
_RENEWED_AT: Final = 0.3


class Lost(Exception):
    """The connection is gone, or cannot be used any more."""


class Node:
    """A connection to one node. ``has_sasl``: it is authenticated first."""

    def __init__(self, life: Life, address: tuple[str, int], *, has_sasl: bool = False) -> None:
        self.life = life
        try:
            self.socket = life.connect(address)
        except OSError:
            raise Lost from None
        self.throttled_until = 0.0
        self._number = 0
        self._renew_at: float | None = None
        self.offered = self._ask_versions()
        if has_sasl:
            self._authenticate()

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        version = OWN[ApiKey.API_VERSIONS][1]
        while True:
            asked = ApiVersionsRequest(client_software_name="", client_software_version="")
            if version >= 3:
                asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            data = self._exchange(ApiKey.API_VERSIONS, version, asked)
            if data[4:6] != b"\0\x23":
                break
            self.life.dies_of("no-fallback")
            refusal = ApiVersionsResponse.decode(data[4:], 0)
            version = refusal.api_keys[0].max_version
        answer = ApiVersionsResponse.decode(data[4:], version)
        if any(key.api_key not in list(ApiKey) for key in answer.api_keys):
            self.life.dies_of("no-unknown-apis")
        return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def _authenticate(self) -> None:
        if self.life.has("goes-on-refused"):
            self.call(ApiKey.METADATA, MetadataRequest(topics=[]))
        refused = self.call(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN"))
        if refused.error_code and not self.life.has("shows-secret"):
            raise Ended
        asked = SaslAuthenticateRequest(auth_bytes=b"\0name\0secret")
        answer = self.call(ApiKey.SASL_AUTHENTICATE, asked)
        if answer.error_code:
            raise Ended
        lifetime_s = answer.session_lifetime_ms / 1000
        if lifetime_s and not self.life.has("no-renewal", "session-is-final"):
            self._renew_at = time.monotonic() + _RENEWED_AT * lifetime_s

    def version(self, api: ApiKey) -> int:
        """The newest version that both sides have."""
        if self.life.has("own-versions"):
            return OWN[api][1]
        if self.life.has("highest-version"):
            return self.offered[api][1]
        return min(OWN[api][1], self.offered[api][1])

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def call(self, api: ApiKey, request: Message) -> Any:
        """The answer to a request at :meth:`version`. Raises Lost."""
        # tidy: clock: the program's own sessions
        if self._renew_at is not None and time.monotonic() > self._renew_at:
            self._renew_at = None
            self._authenticate()
        throttled_s = self.throttled_until - time.monotonic()
        # tidy: clock: the program waits as long as the broker says
        if throttled_s > 0 and not self.life.has("no-throttle"):
            self.life.wait(throttled_s)
        version = self.version(api)
        return self.decoded(api, version, self._exchange(api, version, request))

    def decoded(self, api: ApiKey, version: int, data: bytes) -> Any:
        """The message of an answer. Raises Lost for bytes that are none."""
        try:
            header, start = decode_response_header(api, version, data)
            answer: Any = response_type(api).decode(data[start:], version)
        except DecodeError:
            raise Lost from None
        if header.unknown_tags:
            self.life.dies_of("no-header-tags")
        if answer.unknown_tags:
            self.life.dies_of("no-tags")
        if self.life.has("no-struct-tags") and _has_tags(answer):
            raise Ended
        throttled_ms = getattr(answer, "throttle_time_ms", 0)
        self.throttled_until = time.monotonic() + throttled_ms / 1000
        return answer

    def send(self, api: ApiKey, version: int, request: Message) -> int:
        """Send a request and return its correlation id. Raises Lost."""
        self._number += 1
        # One version above that of the body: a version that is not offered.
        told = version + 40 if self.life.has("beyond-range") and api != 18 else version
        head = encode_request_header(api, version, self._number, "small")
        head = head[:2] + struct.pack(">h", told) + head[4:]
        try:
            self.socket.sendall(frame(head, request.encode(version)))
        except OSError:
            raise Lost from None
        return self._number

    def receive(self, number: int) -> bytes:
        """The next answer, which has to be that of request ``number``. Raises Lost."""
        try:
            [size] = struct.unpack(">i", self._read(4))
            if size < 4:
                if self.life.has("negative-size"):
                    self.life.wait(60)
                raise Lost
            data = self._read(size)
        except OSError:
            raise Lost from None
        if data[:4] != number.to_bytes(4, "big") and not self.life.has("any-id"):
            raise Lost
        return data

    def _exchange(self, api: ApiKey, version: int, request: Message) -> bytes:
        return self.receive(self.send(api, version, request))

    def _read(self, size: int) -> bytes:
        if self.life.has("recv-is-frame"):
            found = self.socket.recv(size)
            if len(found) != size:
                raise Ended
            return found
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise Lost
            found += piece
        return found


def _has_tags(value: Struct) -> bool:
    parts = (
        one
        for field in value.fields()
        if field.is_struct and field.array
        for one in getattr(value, field.attr) or ()
    )
    return any(one.unknown_tags or _has_tags(one) for one in parts)
