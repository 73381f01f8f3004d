"""Finds the TCP segments in captured packets, and puts each direction of a connection in order.

It supports Ethernet (VLANs too), Linux cooked, loopback and raw links, IPv4 and IPv6,
retransmissions and segments out of order. It skips IP fragments. A segment that was not captured
leaves a gap, which ends that stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from kwire.reference.capture import Packet

#: Bytes behind a gap that are kept for the segment that closes it.
WAITING_BYTES_MAX: Final = 16 * 1024 * 1024

_IPV4, _IPV6, _TCP = 0x0800, 0x86DD, 6
_VLAN = (0x8100, 0x88A8, 0x9100)
_SKIPPED_HEADERS = (0, 43, 60)  # hop-by-hop, routing, destination options
FIN, SYN, RST, ACK = 1, 2, 4, 16

Address = tuple[str, int]


@dataclass(frozen=True)
class Segment:
    """One TCP segment. ``source`` and ``target`` are (ip, port); ``sequence`` is the number of the
    first payload byte.
    """

    time: float
    source: Address
    target: Address
    sequence: int
    flags: int
    payload: bytes


def segments(packets: Iterable[Packet]) -> Iterator[Segment]:
    """Yield the TCP segments among ``packets``; other packets are skipped."""
    for packet in packets:
        protocol, at = _network(packet)
        found = None
        if protocol == _IPV4:
            found = _ipv4(packet, at)
        elif protocol == _IPV6:
            found = _ipv6(packet, at)
        if found is not None:
            yield found


def _network(packet: Packet) -> tuple[int, int]:
    """The protocol above the link layer (its ether type) and where it starts; (0, 0) for none that
    is known.
    """
    data, link = packet.data, packet.link
    if link in (1, 113, 276):  # Ethernet, Linux cooked, Linux cooked v2
        at = {1: 12, 113: 14, 276: 0}[link]
        header = {1: 14, 113: 16, 276: 20}[link]
        if len(data) < header:
            return 0, 0
        kind = struct.unpack_from(">H", data, at)[0]
        while kind in _VLAN and len(data) >= header + 4:
            kind = struct.unpack_from(">H", data, header + 2)[0]
            header += 4
        return kind, header
    start = {0: 4, 108: 4, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0}.get(link)
    if start is None or len(data) <= start:
        return 0, 0
    return {4: _IPV4, 6: _IPV6}.get(data[start] >> 4, 0), start


def _ipv4(packet: Packet, at: int) -> Segment | None:
    data = packet.data
    if len(data) < at + 20:
        return None
    header, total, fragment = (data[at] & 15) * 4, *struct.unpack_from(">H2xH", data, at + 2)
    if header < 20 or data[at + 9] != _TCP or fragment & 0x3FFF:
        return None
    # Captured before the network card cut it up, a packet may claim no length at all.
    end = at + total if total else len(data)
    return _tcp(packet, data[at + 12 : at + 16], data[at + 16 : at + 20], at + header, end)


def _ipv6(packet: Packet, at: int) -> Segment | None:
    data = packet.data
    if len(data) < at + 40:
        return None
    size, following = struct.unpack_from(">HB", data, at + 4)
    end = at + 40 + size if size else len(data)
    start = at + 40
    while following in _SKIPPED_HEADERS and len(data) >= start + 8:
        following, start = data[start], start + data[start + 1] * 8 + 8
    return (
        _tcp(packet, data[at + 8 : at + 24], data[at + 24 : at + 40], start, end)
        if following == _TCP
        else None
    )


def _tcp(packet: Packet, source: bytes, target: bytes, at: int, end: int) -> Segment | None:
    data = packet.data
    if len(data) < at + 20:
        return None
    source_port, target_port, sequence = struct.unpack_from(">HHI", data, at)
    header, flags = (data[at + 12] >> 4) * 4, data[at + 13]
    return Segment(
        packet.time, (str(ip_address(source)), source_port), (str(ip_address(target)), target_port),
        (sequence + (flags & SYN > 0)) & 0xFFFFFFFF, flags, data[at + header : end],
    )  # fmt: skip


class TcpStream:
    """One direction of a connection: bytes in order of sequence numbers.

    ``lost`` becomes true when more than ``WAITING_BYTES_MAX`` bytes wait behind a gap: then no more
    bytes are returned.
    """

    def __init__(self) -> None:
        self.lost = False
        self._next: int | None = None
        self._waiting: dict[int, bytes] = {}
        self._held = 0

    def start(self, sequence: int) -> None:
        """Note a SYN: the first byte will have this sequence number."""
        if self._next != sequence:
            self.lost, self._next, self._waiting, self._held = False, sequence, {}, 0

    def push(self, sequence: int, payload: bytes) -> bytes:
        """Add a segment; return the bytes that are in order now."""
        if self._next is None:
            self._next = sequence
        if self.lost or not payload:
            return b""
        if _ahead(sequence, self._next) > 0:
            self._hold(sequence, payload)
            return b""
        return b"".join(self._in_order(sequence, payload, self._next))

    @property
    def missing(self) -> int:
        """Return how many bytes are missing before those that wait; 0 if none wait."""
        at = self._next or 0
        return min((_ahead(sequence, at) for sequence in self._waiting), default=0)

    def _hold(self, sequence: int, payload: bytes) -> None:
        known = self._waiting.get(sequence, b"")
        if len(payload) > len(known):
            self._waiting[sequence] = payload
            self._held += len(payload) - len(known)
        self.lost = self._held > WAITING_BYTES_MAX

    def _in_order(self, sequence: int, payload: bytes, at: int) -> Iterator[bytes]:
        """The new part of this segment, then of those that waited for it. A part seen before is cut
        off.
        """
        while True:
            new = payload[-_ahead(sequence, at) :] if sequence != at else payload
            at = (at + len(new)) & 0xFFFFFFFF
            self._next = at
            yield new
            follower = (
                at
                if at in self._waiting
                else next((s for s in self._waiting if _ahead(s, at) < 0), None)
            )
            if follower is None:
                return
            sequence, payload = follower, self._waiting.pop(follower)
            self._held -= len(payload)


def _ahead(sequence: int, other: int) -> int:
    """How far ``sequence`` is ahead of ``other``, negative if behind; numbers wrap at 2^32."""
    return (sequence - other + 2**31) % 2**32 - 2**31
