"""Finds Kafka requests and responses in captured TCP: cuts connections into frames and matches
responses to requests.

A response names neither its api nor its version; only the request of the same connection and
correlation id does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kwire.errors import DecodeError, UnknownApi
from kwire.reference import Budget, Node, valid_versions
from kwire.reference.facts import facts, name_by_key
from kwire.reference.frames import dissect_request, dissect_response, peek
from kwire.reference.tcp import ACK, FIN, RST, SYN, Address, Segment, TcpStream

#: ``socket.request.max.bytes`` of Kafka by default; a longer frame means that this is not Kafka's
#: protocol.
LONGEST_FRAME: Final = 100 * 1024 * 1024


@dataclass(frozen=True)
class Captured:
    """One frame, or the reason why there is none. ``kind`` is request, response, or note.

    ``data`` is the frame without its size; ``tree`` its dissection; of a note ``tree.error`` says
    what is wrong. ``budget`` is what the tree left of its own.
    """

    time: float
    source: Address
    target: Address
    kind: str
    api: str
    version: int
    correlation_id: int
    data: bytes
    tree: Node
    budget: Budget


def match_requests(
    segments: Iterable[Segment],
    ports: Collection[int] = (),
    budget: Callable[[int], Budget] = Budget.for_bytes,
) -> Iterator[Captured]:
    """Yield every frame of every connection, in order of arrival. ``ports`` are servers' ports;
    without any, all connections count. ``budget`` returns that of the tree of a frame, by its size.

    Memory holds incomplete frames, and requests without a response.
    """
    connections: dict[frozenset[Address], _Connection] = {}
    for segment in segments:
        if ports and segment.source[1] not in ports and segment.target[1] not in ports:
            continue
        ends = frozenset((segment.source, segment.target))
        if ends not in connections or (
            segment.flags & (SYN | ACK) == SYN and connections[ends].ended
        ):
            connections[ends] = _Connection(ports, budget)
        yield from connections[ends].take(segment)
    for connection in connections.values():
        yield from connection.close()


class _Side:
    """One direction of a connection: its bytes in order, the incomplete frame, and whether they can
    still be cut into frames.
    """

    def __init__(self, source: Address, target: Address) -> None:
        self.source, self.target = source, target
        self.stream = TcpStream()
        self.buffer = bytearray()
        self.dead = False
        self.time = 0.0

    def frames(self) -> Iterator[bytes]:
        """Yield the complete frames. Raises DecodeError for bytes that are no frame."""
        at = 0
        try:
            while len(self.buffer) - at >= 4:
                (size,) = struct.unpack_from(">i", self.buffer, at)
                if not 4 <= size <= LONGEST_FRAME:
                    raise DecodeError(
                        _why_no_frame(bytes(self.buffer[at : at + 4])), rule="frame-size"
                    )
                if len(self.buffer) - at - 4 < size:
                    return
                at += 4 + size
                yield bytes(self.buffer[at - size : at])
        finally:
            del self.buffer[:at]

    def captured(
        self,
        kind: str,
        api: str,
        version: int,
        correlation_id: int,
        data: bytes,
        tree: Node,
        budget: Budget,
    ) -> Captured:
        """Return what this side sent just now."""
        about = self.time, self.source, self.target, kind, api, version, correlation_id
        return Captured(*about, data, tree, budget)


class _Connection:
    """Both directions of a connection. The SYN, the port, or the first request tells which side is
    the server.
    """

    def __init__(self, ports: Collection[int], budget: Callable[[int], Budget]) -> None:
        self.ports = ports
        self.budget = budget
        self.ended = False
        self.client: Address | None = None
        self.sides: dict[Address, _Side] = {}
        self.asked: dict[int, tuple[int, int]] = {}

    def take(self, segment: Segment) -> Iterator[Captured]:
        self.ended = self.ended or bool(segment.flags & (FIN | RST))
        side = self.sides.setdefault(segment.source, _Side(segment.source, segment.target))
        if segment.flags & SYN:
            side.stream.start(segment.sequence)
            self.client = segment.target if segment.flags & ACK else segment.source
        side.time = segment.time
        side.buffer += side.stream.push(segment.sequence, segment.payload)
        if side.dead:
            side.buffer.clear()
        elif side.stream.lost:
            yield self._give_up(
                side,
                f"{side.stream.missing} bytes were not captured; the rest of this direction is"
                " left out",
            )
        elif side.buffer and self._knows_client(side):
            yield from self._frames(side)

    def close(self) -> Iterator[Captured]:
        """The frames that are left at the end of the capture."""
        for side in self.sides.values():
            if side.dead:
                continue
            if side.stream.missing:
                yield self._give_up(
                    side,
                    f"{side.stream.missing} bytes were not captured; what follows them is left out",
                )
            elif side.buffer:
                yield self._give_up(side, f"the capture ends {len(side.buffer)} bytes into a frame")

    def _knows_client(self, side: _Side) -> bool:
        if self.client is None and self.ports:
            self.client = side.source if side.target[1] in self.ports else side.target
        if self.client is None and _like_request(side.buffer):
            self.client = side.source
        if self.client is None and len(side.buffer) >= 12:
            # Neither a SYN nor a request: the end of something that began before the capture.
            side.buffer.clear()
        return self.client is not None

    def _frames(self, side: _Side) -> Iterator[Captured]:
        try:
            for frame in side.frames():
                yield (
                    self._request(side, frame)
                    if side.source == self.client
                    else self._response(side, frame)
                )
        except DecodeError as error:
            yield self._give_up(side, error.reason)

    def _request(self, side: _Side, frame: bytes) -> Captured:
        budget = self.budget(len(frame))
        tree = dissect_request(frame, budget)
        if len(frame) < 8:
            return side.captured("request", "?", -1, -1, frame, tree, budget)
        key, version = peek(frame)
        (correlation_id,) = struct.unpack_from(">i", frame, 4)
        self.asked[correlation_id] = key, version
        return side.captured("request", _api(key), version, correlation_id, frame, tree, budget)

    def _response(self, side: _Side, frame: bytes) -> Captured:
        (correlation_id,) = struct.unpack_from(">i", frame)
        asked = self.asked.pop(correlation_id, None)
        budget = self.budget(len(frame))
        if asked is None:
            why = DecodeError(
                f"no request with correlation id {correlation_id} was captured",
                offset=0,
                rule="unmatched",
            )
            tree = Node("response", "frame", 0, len(frame), frame, error=why)
            return side.captured("response", "?", -1, correlation_id, frame, tree, budget)
        key, version = asked
        tree = dissect_response(frame, key, version, budget)
        return side.captured("response", _api(key), version, correlation_id, frame, tree, budget)

    def _give_up(self, side: _Side, why: str) -> Captured:
        side.dead = True
        data = bytes(side.buffer)
        side.buffer.clear()
        tree = Node("note", "bytes", 0, len(data), data, error=DecodeError(why, rule="capture"))
        return side.captured("note", "?", -1, -1, data, tree, self.budget(len(data)))


def _why_no_frame(start: bytes) -> str:
    if start[0] in (0x15, 0x16, 0x17) and start[1] == 3:
        return "this direction is encrypted (TLS)"
    return (
        f"no frame of Kafka's protocol has {struct.unpack('>i', start)[0]} bytes; the rest of this"
        " direction is left out"
    )


def _like_request(data: bytes | bytearray) -> bool:
    """True if ``data`` begins with the size and the header of a request that exists."""
    if len(data) < 12:
        return False
    size, key, version = struct.unpack_from(">ihh", data)
    try:
        return 8 <= size <= LONGEST_FRAME and version in valid_versions(
            facts(name_by_key("request", key))
        )
    except UnknownApi:
        return False


def _api(key: int) -> str:
    try:
        return name_by_key("request", key).removesuffix("Request")
    except UnknownApi:
        return f"api {key}"
