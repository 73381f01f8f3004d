"""Rules of the stream of frames: sizes, order, correlation ids, client ids, bytes of no request."""

from __future__ import annotations

import struct
import time
from typing import Final

from kwire.conformance.connection import Connection
from kwire.conformance.probe import Probe
from kwire.conformance.requests import small_request
from kwire.conformance.rule import Family, Level, Need
from kwire.frame import frame
from kwire.header import encode_request_header, peek
from kwire.protocol import ApiKey

FAMILY: Final = Family("framing", "Frames, headers and their order")

_VERSIONS: Final = ApiKey.API_VERSIONS
_APIS: Final = (_VERSIONS,)
_SOURCE: Final = "Kafka protocol guide"
#: Bytes behind which a pause follows, and the pause, s: the network may join bytes that are sent
#: without one.
_APART: Final = 5
_APART_S: Final = 0.02


def _request(version: int, number: int, client_id: str | None = "kwire-conform") -> bytes:
    header = encode_request_header(_VERSIONS, version, number, client_id)
    return header + small_request(_VERSIONS, version).encode(version)


def _receive(probe: Probe, connection: Connection, version: int, number: int) -> None:
    probe.receive(connection, _VERSIONS, version, number)


def _version(probe: Probe) -> int:
    return probe.newest(_VERSIONS, at_most=4)


@FAMILY.rule("one-byte-at-a-time", source=_SOURCE, section="Network", apis=_APIS)
def one_byte_at_a_time(probe: Probe) -> None:
    """A request that arrives byte by byte is answered as one that arrives whole."""
    connection, version = probe.connect(), _version(probe)
    data = _request(version, 21)
    connection.expect_answer(data, _VERSIONS, version, "byte by byte")
    whole = frame(data)
    for at in range(len(whole)):
        connection.send_raw(whole[at : at + 1])
        if at < _APART:
            time.sleep(_APART_S)
    _receive(probe, connection, version, 21)


@FAMILY.rule("split-in-size", source=_SOURCE, section="Network", apis=_APIS)
def split_in_size(probe: Probe) -> None:
    """A request whose four size bytes arrive in two pieces is answered."""
    connection, version = probe.connect(), _version(probe)
    data = _request(version, 22)
    connection.expect_answer(data, _VERSIONS, version, "the size bytes in two pieces")
    whole = frame(data)
    connection.send_raw(whole[:2])
    probe.expect(connection.ends(0.2) is False, "the server answers two bytes of a size")
    connection.send_raw(whole[2:])
    _receive(probe, connection, version, 22)


@FAMILY.rule("many-at-once", source=_SOURCE, section="Network", apis=_APIS)
def many_at_once(probe: Probe) -> None:
    """Requests that arrive in one piece are all answered, in their order."""
    connection, version = probe.connect(), _version(probe)
    requests = [_request(version, number) for number in range(30, 40)]
    for data in requests:
        connection.expect_answer(data, _VERSIONS, version, "ten requests in one piece")
    connection.send_raw(b"".join(map(frame, requests)))
    for number in range(30, 40):
        _receive(probe, connection, version, number)


@FAMILY.rule("answers-in-order", source=_SOURCE, section="Network", apis=_APIS)
def answers_in_order(probe: Probe) -> None:
    """Answers to different APIs on one connection come in the order of the requests."""
    connection = probe.connect()
    apis = (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS)
    wanted = []
    for api in [api for api in apis if api in probe.session.offered] * 4:
        version = probe.newest(api)
        number, data = probe.encode(small_request(api, version), version)
        connection.send_request(data, api, version)
        wanted.append((api, version, number))
    for api, version, number in wanted:
        probe.receive(connection, api, version, number)


def _echoes(probe: Probe, number: int) -> None:
    connection, version = probe.connect(), _version(probe)
    connection.send_request(_request(version, number), _VERSIONS, version)
    _receive(probe, connection, version, number)


@FAMILY.rule("correlation-id-negative", source=_SOURCE, section="Request header", apis=_APIS)
def correlation_id_negative(probe: Probe) -> None:
    """A negative correlation id comes back as it was sent."""
    _echoes(probe, -1)


@FAMILY.rule("correlation-id-lowest", source=_SOURCE, section="Request header", apis=_APIS)
def correlation_id_lowest(probe: Probe) -> None:
    """The lowest correlation id, -2147483648, comes back as it was sent."""
    _echoes(probe, -(1 << 31))


@FAMILY.rule("correlation-id-highest", source=_SOURCE, section="Request header", apis=_APIS)
def correlation_id_highest(probe: Probe) -> None:
    """The highest correlation id, 2147483647, comes back as it was sent."""
    _echoes(probe, (1 << 31) - 1)


@FAMILY.rule("correlation-id-repeated", source=_SOURCE, section="Request header", apis=_APIS)
def correlation_id_repeated(probe: Probe) -> None:
    """Correlation ids may repeat and go down: the server only copies them."""
    connection, version = probe.connect(), _version(probe)
    for number in (9, 9, 3):
        connection.send_request(_request(version, number), _VERSIONS, version)
        _receive(probe, connection, version, number)


def _client_id(probe: Probe, client_id: str | None) -> None:
    connection, version = probe.connect(), _version(probe)
    connection.send_request(_request(version, 40, client_id), _VERSIONS, version)
    _receive(probe, connection, version, 40)


@FAMILY.rule("client-id-null", source="RequestHeader.json", section="ClientId", apis=_APIS)
def client_id_null(probe: Probe) -> None:
    """A request without a client id (null) is answered."""
    _client_id(probe, None)


@FAMILY.rule("client-id-empty", source="RequestHeader.json", section="ClientId", apis=_APIS)
def client_id_empty(probe: Probe) -> None:
    """A request with an empty client id is answered."""
    _client_id(probe, "")


@FAMILY.rule("client-id-long", source="RequestHeader.json", section="ClientId", apis=_APIS)
def client_id_long(probe: Probe) -> None:
    """A request with a client id of 1,000 characters is answered."""
    _client_id(probe, "c" * 1000)


@FAMILY.rule("client-id-unicode", source="RequestHeader.json", section="ClientId", apis=_APIS)
def client_id_unicode(probe: Probe) -> None:
    """A request whose client id has letters beyond ASCII, quotes and a colon is answered."""
    _client_id(probe, 'ü€😀 "=,:*?')


@FAMILY.rule(
    "answered-after-half-close", source="SocketServer.Processor", section="mute",
    level=Level.SHOULD,    apis=_APIS, needs=frozenset({Need.PLAIN_SOCKET}),
)  # fmt: skip
def answered_after_half_close(probe: Probe) -> None:
    """A request is answered although the client has closed its sending half behind it."""
    connection, version = probe.connect(), _version(probe)
    connection.send_request(_request(version, 41), _VERSIONS, version, "then FIN")
    connection.end_sending()
    _receive(probe, connection, version, 41)


@FAMILY.rule(
    "closed-after-half-close", source="Selector", section="EOFException", level=Level.SHOULD,
    apis=_APIS, needs=frozenset({Need.PLAIN_SOCKET}),
)  # fmt: skip
def closed_after_half_close(probe: Probe) -> None:
    """The server closes a connection whose client has closed its sending half."""
    connection = probe.connect()
    connection.end_sending()
    probe.expect_close(connection, "the end of the client's bytes")


def _closes(probe: Probe, data: bytes, what: str) -> None:
    connection = probe.connect()
    connection.expect_answer(data, note=what)
    connection.send_raw(data)
    probe.expect_close(connection, what)


@FAMILY.rule("size-zero", source="NetworkReceive", section="readFrom", apis=_APIS)
def size_zero(probe: Probe) -> None:
    """A frame of size 0 closes the connection."""
    _closes(probe, struct.pack(">i", 0), "a frame of size 0")


@FAMILY.rule("size-negative", source="NetworkReceive", section="InvalidReceiveException")
def size_negative(probe: Probe) -> None:
    """A negative frame size closes the connection."""
    _closes(probe, struct.pack(">i", -1), "a frame of size -1")


@FAMILY.rule("size-above-limit", source="NetworkReceive", section="socket.request.max.bytes")
def size_above_limit(probe: Probe) -> None:
    """A frame size of 2147483647 closes the connection before its bytes have arrived."""
    _closes(probe, struct.pack(">i", (1 << 31) - 1), "a frame of size 2147483647")


@FAMILY.rule("http-request", source="NetworkReceive", section="InvalidReceiveException")
def http_request(probe: Probe) -> None:
    """An HTTP request closes the connection."""
    _closes(probe, b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "an HTTP request")


@FAMILY.rule("header-short", source="RequestHeader", section="parse")
def header_short(probe: Probe) -> None:
    """A frame of seven bytes, shorter than any request header, closes the connection."""
    _closes(probe, frame(_request(0, 1)[:7]), "seven bytes of a header")


@FAMILY.rule("client-id-beyond-frame", source="RequestHeader", section="parse")
def client_id_beyond_frame(probe: Probe) -> None:
    """A client id whose length is larger than the frame closes the connection."""
    data = struct.pack(">hhih", _VERSIONS, 0, 1, 32767) + b"abc"
    _closes(probe, frame(data), "a client id that is longer than its frame")


@FAMILY.rule("client-id-length-negative", source="RequestHeader", section="parse")
def client_id_length_negative(probe: Probe) -> None:
    """The client id of length -2 in a header of a flexible version, which ends inside of its tags,
    closes the connection.
    """
    data = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -2) + b"\xff"
    _closes(probe, frame(data), "a header that ends inside of its tagged fields")


@FAMILY.rule("api-key-unknown", source="RequestHeader", section="parse: ApiKeys.forId")
def api_key_unknown(probe: Probe) -> None:
    """An API key that Kafka does not have closes the connection."""
    _closes(probe, frame(struct.pack(">hhih", 32000, 0, 1, -1)), "API key 32000")


@FAMILY.rule("api-key-negative", source="RequestHeader", section="parse: ApiKeys.forId")
def api_key_negative(probe: Probe) -> None:
    """A negative API key closes the connection."""
    _closes(probe, frame(struct.pack(">hhih", -1, 0, 1, -1)), "API key -1")


@FAMILY.rule("tag-count-beyond-frame", source="KIP-482", section="Tagged Fields", apis=_APIS)
def tag_count_beyond_frame(probe: Probe) -> None:
    """A header that announces more tagged fields than its frame has bytes closes the connection."""
    version = probe.need(_VERSIONS, 3, 4)
    data = encode_request_header(_VERSIONS, version, 1, None)[:-1] + b"\xff\xff\xff\xff\x07"
    _closes(probe, frame(data), "2147483647 tagged fields")


@FAMILY.rule("answers-before-a-fault", source="SocketServer.Processor", section="mute", apis=_APIS)
def answers_before_a_fault(probe: Probe) -> None:
    """A request before bytes that are no request is answered; then the connection is closed."""
    connection, version = probe.connect(), _version(probe)
    data = _request(version, 42)
    connection.expect_answer(data, _VERSIONS, version, "then a frame of size -1")
    connection.send_raw(frame(data) + struct.pack(">i", -1))
    _receive(probe, connection, version, 42)
    probe.expect_close(connection, "a frame of size -1")


@FAMILY.rule(
    "others-live-on", source="SocketServer.Processor", section="processException", apis=_APIS
)
def others_live_on(probe: Probe) -> None:
    """A connection that is closed for its bytes does not end another one of the same client."""
    other, version = probe.connect(), _version(probe)
    other.send_request(_request(version, 43), _VERSIONS, version)
    _receive(probe, other, version, 43)
    _closes(probe, struct.pack(">i", -1), "a frame of size -1")
    other.send_request(_request(version, 44), _VERSIONS, version)
    _receive(probe, other, version, 44)


@FAMILY.rule("no-answer-twice", source=_SOURCE, section="Network", apis=_APIS)
def no_answer_twice(probe: Probe) -> None:
    """A request has one answer: nothing follows it on the connection."""
    connection, version = probe.connect(), _version(probe)
    connection.send_request(_request(version, 45), _VERSIONS, version)
    _receive(probe, connection, version, 45)
    more = connection.ends(0.3)
    if isinstance(more, bytes):
        number = peek(more + bytes(8))[2]
        probe.fail(f"a second frame of {len(more)} bytes came after the answer, id {number}")
    probe.expect(not more, "the server closed the connection after an answer")
