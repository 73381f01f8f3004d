"""Packet captures: both formats, several links, segments out of order; requests and responses
matched.
"""

from __future__ import annotations

import io
import itertools
import random
import struct

import pytest

from kwire.errors import DecodeError
from kwire.reference import reference
from kwire.reference.capture import is_capture, packets
from kwire.reference.request_matching import Captured, match_requests
from kwire.reference.tcp import TcpStream, segments
from tests.kwire.reference.pcaps import (
    CLIENT,
    CLIENT6,
    FIN,
    SERVER,
    SERVER6,
    SYN,
    on_link,
    pcap,
    pcapng,
    sized,
    talk,
    tcp,
    vlan,
)


def request(key: int, version: int, correlation_id: int, header_version: int = 1) -> bytes:
    """A request with every field at its default."""
    header = {
        "RequestApiKey": key,
        "RequestApiVersion": version,
        "CorrelationId": correlation_id,
        "ClientId": "me",
    }
    name = {3: "MetadataRequest", 18: "ApiVersionsRequest"}[key]
    return sized(
        reference("RequestHeader", header_version).build(header)
        + reference(name, version).build({})
    )


def response(key: int, version: int, correlation_id: int, header_version: int = 0) -> bytes:
    """A response with every field at its default."""
    name = {3: "MetadataResponse", 18: "ApiVersionsResponse"}[key]
    head = reference("ResponseHeader", header_version).build({"CorrelationId": correlation_id})
    return sized(head + reference(name, version).build({}))


TURNS = (
    (">", request(18, 3, 1, 2)),
    ("<", response(18, 3, 1)),
    (">", request(3, 1, 2) + request(3, 9, 3, 2)),
    ("<", response(3, 9, 3, 1)),
    ("<", response(3, 1, 2)),
)
SEEN = [
    ("request", "ApiVersions", 3, 1),
    ("response", "ApiVersions", 3, 1),
    ("request", "Metadata", 1, 2),
    ("request", "Metadata", 9, 3),
    ("response", "Metadata", 9, 3),
    ("response", "Metadata", 1, 2),
]


def read(file: bytes, ports: tuple[int, ...] = ()) -> list[Captured]:
    return list(match_requests(segments(packets(io.BytesIO(file))), ports))


def seen(found: list[Captured]) -> list[tuple[str, str, int, int]]:
    assert all(one.tree.failure() is None for one in found), found
    return [(one.kind, one.api, one.version, one.correlation_id) for one in found]


@pytest.mark.parametrize("link", [1, 113, 276, 0, 108, 101])
@pytest.mark.parametrize("ends", [(CLIENT, SERVER), (CLIENT6, SERVER6)], ids=["IPv4", "IPv6"])
def test_every_link(link: int, ends: tuple[tuple[str, int], tuple[str, int]]) -> None:
    found = read(
        pcap([on_link(link, ip) for ip in talk(*TURNS, client=ends[0], server=ends[1])], link)
    )
    assert seen(found) == SEEN
    assert (found[0].source, found[0].target) == ends
    assert (found[1].source, found[1].target) == (ends[1], ends[0])


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_format(order: str) -> None:
    on_wire = [on_link(1, ip) for ip in talk(*TURNS)]
    files = [
        pcap(on_wire, order=order),
        pcap(on_wire, order=order, nanoseconds=True),
        pcapng(on_wire, order=order),
        pcapng(on_wire, order=order, resolution=9),
    ]
    for file in files:
        assert is_capture(file[:4])
        found = read(file)
        assert seen(found) == SEEN
        assert [one.time for one in found] == [1_700_000_002.5 + n for n in (0, 1, 2, 2, 3, 4)]


def test_vlan_tags_and_a_second_section() -> None:
    tagged = pcapng([vlan(ip) for ip in talk(*TURNS)])
    assert (
        seen(read(tagged + pcapng([on_link(1, ip) for ip in talk(*TURNS, client=("10.0.0.3", 1))])))
        == SEEN * 2
    )


def test_the_server_is_found_without_a_handshake() -> None:
    assert seen(read(pcap([on_link(1, ip) for ip in talk(*TURNS, handshake=False)]))) == SEEN


def test_a_capture_that_begins_in_the_middle() -> None:
    """A response to nothing is passed over where it is not even known who is the server, and said
    to be unmatched else.
    """
    late = talk(*TURNS[1:], handshake=False)
    assert seen(read(pcap([on_link(1, ip) for ip in late]))) == SEEN[2:]
    found = read(pcap([on_link(1, ip) for ip in late]), ports=(9092,))
    assert (found[0].kind, found[0].api, found[0].correlation_id) == ("response", "?", 1)
    assert found[0].tree.error is not None and found[0].tree.error.rule == "unmatched"
    assert seen(found[1:]) == SEEN[2:]


def test_ports_choose_connections() -> None:
    file = pcap([on_link(1, ip) for ip in talk(*TURNS)])
    assert seen(read(file, ports=(9092,))) == SEEN
    assert read(file, ports=(9093,)) == []


def test_segments_in_any_order_and_more_than_once() -> None:
    rng = random.Random(3)
    stream = b"".join(data for way, data in TURNS if way == ">")
    for _ in range(30):
        cuts = sorted(
            {0, len(stream), *(rng.randrange(len(stream)) for _ in range(rng.randrange(12)))}
        )
        parts = [(a, b) for a, b in itertools.pairwise(cuts)]
        # Some are sent again, joined with their neighbours otherwise than before.
        parts += [
            (max(0, a - rng.randrange(20)), min(len(stream), b + rng.randrange(20)))
            for a, b in rng.sample(parts, min(2, len(parts)))
        ]
        rng.shuffle(parts)
        start = [tcp(CLIENT, SERVER, 999, flags=SYN)]
        ips = start + [tcp(CLIENT, SERVER, 1000 + a, stream[a:b]) for a, b in parts]
        found = read(pcap([on_link(1, ip) for ip in ips]))
        assert seen(found) == [row for row in SEEN if row[0] == "request"]


def test_direction_returns_every_byte_once_in_any_order() -> None:
    rng = random.Random(4)
    for _ in range(200):
        data = rng.randbytes(rng.randrange(1, 200))
        base = rng.choice((0, 1000, 2**32 - 50))
        parts = [(at, rng.randrange(1, 40)) for at in range(len(data))] + [(0, 1)]
        rng.shuffle(parts)
        stream = TcpStream()
        stream.start(base)
        out = b"".join(stream.push((base + at) % 2**32, data[at : at + n]) for at, n in parts)
        assert out == data
        assert stream.missing == 0


def test_missing_bytes_of_a_capture_are_reported() -> None:
    ips = talk(*TURNS)
    first, second = request(18, 3, 1, 2), request(3, 1, 2) + request(3, 9, 3, 2)
    found = read(pcap([on_link(1, ip) for ip in ips[:3] + ips[5:]]))
    assert found[-1].kind == "note"
    assert (
        str(found[-1].tree.error)
        == f"{len(response(18, 3, 1))} bytes were not captured; what follows them is left out"
    )
    cut = tcp(CLIENT, SERVER, 1000 + len(first), second[:30])
    found = read(pcap([on_link(1, ip) for ip in [*ips[:3], cut]]))
    assert "the capture ends" in str(found[-1].tree.error)


def test_other_protocol_is_reported_once() -> None:
    tls = talk((">", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(100)), (">", bytes(200)))
    (note,) = read(pcap([on_link(1, ip) for ip in tls]))
    assert "encrypted" in str(note.tree.error)
    http = talk((">", b"GET / HTTP/1.1\r\n\r\n"), (">", b"more"))
    (note,) = read(pcap([on_link(1, ip) for ip in http]))
    assert "no frame of Kafka's protocol" in str(note.tree.error)


def test_a_port_that_is_used_again_is_a_new_connection() -> None:
    fin = tcp(CLIENT, SERVER, 5000, flags=FIN | 16)
    found = read(pcap([on_link(1, ip) for ip in [*talk(*TURNS), fin, *talk(*TURNS)]]))
    assert seen(found) == SEEN * 2


def test_an_unknown_api_versions_request_is_answered_in_version_0() -> None:
    frame = bytearray(request(18, 3, 9, 2))
    frame[6:8] = struct.pack(">h", 99)
    answer = sized(struct.pack(">ihihhh", 9, 35, 1, 18, 0, 4))
    found = read(pcap([on_link(1, ip) for ip in talk((">", bytes(frame)), ("<", answer))]))
    failure = found[0].tree.failure()
    assert failure is not None and failure.rule == "version"
    assert found[1].tree.failure() is None
    assert found[1].tree.children[1].value["ErrorCode"] == 35


def test_packets_that_hold_no_tcp_are_passed_over() -> None:
    udp = bytearray(on_link(1, tcp(CLIENT, SERVER, 1, b"x")))
    udp[14 + 9] = 17
    fragment = bytearray(on_link(1, tcp(CLIENT, SERVER, 1, b"x")))
    fragment[14 + 6 : 14 + 8] = b"\x20\x10"
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    short = [b"", b"\0" * 13, on_link(1, b"\x45" + bytes(5)), on_link(1, b"\x60" + bytes(20))]
    others = [bytes(udp), bytes(fragment), arp, *short]
    assert read(pcap(others)) == []
    assert read(pcap(others, link=147)) == []


def test_damaged_files_are_refused_or_end_early() -> None:
    good = [
        pcap([on_link(1, ip) for ip in talk(*TURNS)]),
        pcapng([on_link(1, ip) for ip in talk(*TURNS)]),
    ]
    with pytest.raises(DecodeError, match="neither pcap nor pcapng"):
        read(b"hello, world")
    rng = random.Random(5)
    for file in good:
        for cut in range(4, len(file), 7):
            _tolerant(file[:cut])
        for _ in range(300):
            damaged = bytearray(file)
            for _ in range(rng.choice((1, 3, 10))):
                damaged[rng.randrange(4, len(file))] = rng.choice(
                    (0, 1, 0x7F, 0xFF, rng.randrange(256))
                )
            _tolerant(bytes(damaged))


def _tolerant(file: bytes) -> None:
    try:
        read(file)
    except DecodeError as error:
        assert error.rule == "capture"
