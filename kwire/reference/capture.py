"""Reads packet captures, classic pcap and pcapng, one packet at a time. It knows nothing of a
packet's contents.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from kwire.errors import DecodeError

#: A packet or block longer than this is a damaged file, not a capture: tcpdump's own limit is 256
#: KiB.
LONGEST_BLOCK: Final = 64 * 1024 * 1024

_CLASSIC: Final = {b"\xa1\xb2\xc3\xd4": (">", 1e6), b"\xd4\xc3\xb2\xa1": ("<", 1e6),
                   b"\xa1\xb2\x3c\x4d": (">", 1e9), b"\x4d\x3c\xb2\xa1": ("<", 1e9)}  # fmt: skip
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6


@dataclass(frozen=True)
class Packet:
    """``time`` in seconds since 1970; ``link`` is the number of the link-layer type (1 is
    Ethernet).
    """

    time: float
    link: int
    data: bytes


def is_capture(start: bytes) -> bool:
    """True if these first bytes of a file (four or more) begin a capture."""
    return start[:4] in _CLASSIC or start[:4] == _SECTION


def packets(file: BinaryIO) -> Iterator[Packet]:
    """Yield the packets of a capture file, in its order. Raises DecodeError; a file cut in its last
    packet ends before it.
    """
    magic = file.read(4)
    if magic in _CLASSIC:
        yield from _classic(file, *_CLASSIC[magic])
    elif magic == _SECTION:
        yield from _pcapng(file)
    else:
        raise DecodeError("neither pcap nor pcapng", offset=0, rule="capture")


def _classic(file: BinaryIO, order: str, ticks: float) -> Iterator[Packet]:
    head = file.read(20)
    if len(head) < 20:
        raise DecodeError("the file ends inside of the pcap header", offset=4, rule="capture")
    link = struct.unpack(order + "I", head[16:20])[0] & 0x0FFFFFFF
    record = struct.Struct(order + "IIII")
    while len(fixed := file.read(16)) == 16:
        seconds, fraction, size, _ = record.unpack(fixed)
        _sane(size)
        data = file.read(size)
        if len(data) == size:
            yield Packet(seconds + fraction / ticks, link, data)


def _sane(size: int) -> None:
    if size > LONGEST_BLOCK:
        raise DecodeError(f"a packet of {size} bytes: the capture is damaged", rule="capture")


def _pcapng(file: BinaryIO) -> Iterator[Packet]:
    order = "<"
    links: list[tuple[int, float]] = []
    head = _SECTION + file.read(4)
    while len(head) == 8:
        is_section = head[:4] == _SECTION
        if is_section:
            magic = file.read(4)
            order, links = (">" if magic == b"\x1a\x2b\x3c\x4d" else "<"), []
        kind, size = struct.unpack(order + "II", head)
        taken = 12 if is_section else 8
        _sane(size)
        if size < taken + 4:
            raise DecodeError(
                f"a pcapng block of {size} bytes: the capture is damaged", rule="capture"
            )
        body = file.read(size - taken)
        if len(body) < size - taken:
            return
        if kind == _INTERFACE and not is_section:
            links.append(_interface(body, order))
        elif kind in (_ENHANCED, _SIMPLE):
            yield _packet(kind, body[:-4], order, links)
        head = file.read(8)


def _interface(body: bytes, order: str) -> tuple[int, float]:
    """Link type and ticks a second of an Interface Description Block."""
    if len(body) < 12:
        raise DecodeError(
            "an interface block without its fields: the capture is damaged", rule="capture"
        )
    ticks, at = 1e6, 8
    while at + 4 <= len(body) - 4:
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == 0:
            break
        if (
            code == 9 and size == 1
        ):  # if_tsresol: a power of ten, or of two where the high bit is set
            power = body[at + 4]
            ticks = 2.0 ** (power & 0x7F) if power & 0x80 else 10.0**power
        at += 4 + (size + 3) // 4 * 4
    return struct.unpack_from(order + "H", body)[0], ticks


def _packet(kind: int, body: bytes, order: str, links: list[tuple[int, float]]) -> Packet:
    fixed = 20 if kind == _ENHANCED else 4
    if len(body) < fixed:
        raise DecodeError(
            "a packet block without its fields: the capture is damaged", rule="capture"
        )
    if kind == _SIMPLE:
        interface, ticks, size = 0, 0, min(struct.unpack_from(order + "I", body)[0], len(body) - 4)
    else:
        interface, high, low, size = struct.unpack_from(order + "IIII", body)
        ticks = high << 32 | low
    if interface >= len(links) or size > len(body) - fixed:
        raise DecodeError(
            "a packet block that does not fit its section: the capture is damaged", rule="capture"
        )
    link, per_second = links[interface]
    return Packet(ticks / per_second, link, body[fixed : fixed + size])
