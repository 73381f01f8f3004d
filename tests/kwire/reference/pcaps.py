"""Makes packet captures for tests: frames of Kafka's protocol in TCP, in IP, on several links, in
both file formats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 9092)
CLIENT6, SERVER6 = ("fd00::1", 40000), ("fd00::2", 9092)
SYN, ACK, FIN, PUSH = 2, 16, 1, 8
Address = tuple[str, int]


def sized(frame: bytes) -> bytes:
    """A frame behind its size."""
    return struct.pack(">i", len(frame)) + frame


def tcp(
    source: Address, target: Address, sequence: int, payload: bytes = b"", flags: int = ACK | PUSH
) -> bytes:
    """A segment with its IP header (version 4 or 6 by the addresses)."""
    segment = struct.pack(
        ">HHIIBBHHH", source[1], target[1], sequence & 0xFFFFFFFF, 0, 8 << 4, flags, 65535, 0, 0
    )
    segment += b"\x01" * 12 + payload  # twelve bytes of options
    a, b = ip_address(source[0]), ip_address(target[0])
    if a.version == 4:
        return (
            struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0)
            + a.packed
            + b.packed
            + segment
        )
    return (
        struct.pack(">IHBB", 6 << 28, 8 + len(segment), 0, 64)
        + a.packed
        + b.packed
        + b"\x06"
        + bytes(7)
        + segment
    )


def on_link(link: int, ip: bytes) -> bytes:
    """The packet of a link type around an IP packet."""
    four = ip[0] >> 4 == 4
    kind = b"\x08\x00" if four else b"\x86\xdd"
    heads = {
        1: bytes(12) + kind,
        113: bytes(14) + kind,
        276: kind + bytes(18),
        0: struct.pack("<I", 2 if four else 30),
        108: struct.pack(">I", 2 if four else 30),
        101: b"",
    }
    return heads[link] + ip


def vlan(ip: bytes) -> bytes:
    """An Ethernet packet with two VLAN tags."""
    return bytes(12) + b"\x88\xa8\x00\x01\x81\x00\x00\x02\x08\x00" + ip


def pcap(
    packets: Iterable[bytes], link: int = 1, order: str = "<", nanoseconds: bool = False
) -> bytes:
    """A classic capture; packets are a second apart, from 1,700,000,000.5 on."""
    magic, half = (0xA1B23C4D, 500_000_000) if nanoseconds else (0xA1B2C3D4, 500_000)
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for number, packet in enumerate(packets):
        out += (
            struct.pack(order + "IIII", 1_700_000_000 + number, half, len(packet), len(packet))
            + packet
        )
    return out


def pcapng(
    packets: Sequence[bytes], link: int = 1, order: str = "<", resolution: int | None = None
) -> bytes:
    """A section, an interface with an optional if_tsresol, a block of unknown type, then the
    packets.
    """
    option = b"" if resolution is None else struct.pack(order + "HHB3xI", 9, 1, resolution, 0)
    out = _block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    out += _block(1, struct.pack(order + "HHI", link, 0, 0) + option, order)
    out += _block(0x0BAD, b"who knows", order)
    for number, packet in enumerate(packets):
        ticks = int(
            (1_700_000_000 + number + 0.5) * (1e6 if resolution is None else 10**resolution)
        )
        head = struct.pack(
            order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet)
        )
        out += _block(6, head + packet, order)
    return out


def _block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def talk(
    *turns: tuple[str, bytes],
    client: Address = CLIENT,
    server: Address = SERVER,
    handshake: bool = True,
) -> list[bytes]:
    """IP packets of a connection in which each turn sends bytes: ``(">", data)`` from the client,
    ``("<", data)`` back.
    """
    at = {">": 1000, "<": 2**32 - 5}  # the server's numbers wrap
    ends = {">": (client, server), "<": (server, client)}
    out = []
    if handshake:
        out = [
            tcp(*ends[">"], at[">"] - 1, flags=SYN),
            tcp(*ends["<"], at["<"] - 1, flags=SYN | ACK),
        ]
    for way, data in turns:
        out.append(tcp(*ends[way], at[way], data))
        at[way] += len(data)
    return out
