"""The checklist of hostile input: framing, headers and types. Each row has its bytes and the
outcome.

In every row a connection that was open before and a new one afterwards must be served.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import trio

from gateway.config.config import Config
from gateway.handlers.table import handlers
from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.registry import request_type
from tests.gateway.server.harness import Client, request
from tests.hostile.client_requests import metadata
from tests.hostile.counted_server import UNITS_MAX
from tests.hostile.target import METADATA, Target
from tests.waiting import PATIENCE_S

API_VERSIONS, HEARTBEAT, OFFSET_FETCH = 18, 12, 9
CLOSED, ANSWERED = "closed", "answered"
BUDGET = Config().request_max_elements


@dataclass(frozen=True)
class Row:
    """``data`` is sent as it is. Then the server must close the connection without a byte, or send
    ``answers`` frames.
    """

    number: int
    what: str
    data: Callable[[], bytes]
    outcome: str = CLOSED
    answers: int = 1
    warm: bool = False  #: after a valid request, which raises the connection's limits

    def __str__(self) -> str:
        return f"{self.number}-{self.what}".replace(" ", "-")


def raw(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def header_v2(
    client_id: bytes, tags: bytes, *, api_key: int = API_VERSIONS, version: int = 4
) -> bytes:
    body = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(4)
    return frame(struct.pack(">hhi", api_key, version, 1), client_id, tags, body)


def client_id(text: bytes | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tags(*pairs: tuple[int, bytes]) -> bytes:
    return varint(len(pairs)) + b"".join(
        varint(tag) + varint(len(value)) + value for tag, value in pairs
    )


def software(name: str) -> bytes:
    return request(
        API_VERSIONS,
        4,
        ApiVersionsRequest(client_software_name=name, client_software_version="1").encode(4),
    )


def framing() -> Iterator[Row]:
    for size in (-1, -(2**31)):
        yield Row(1, f"size {size}", raw(struct.pack(">i", size)))
    for size in (2**31 - 1, 100 * 1024 * 1024 + 1):
        yield Row(2, f"size {size} without a body", raw(struct.pack(">i", size)))
    yield Row(4, "size 0", raw(b"\0\0\0\0"))
    for size in range(1, 8):
        yield Row(5, f"size {size} is shorter than a header", raw(frame(metadata()[4 : 4 + size])))
    yield Row(7, "trailing bytes behind a valid body", raw(_trailing()), ANSWERED)
    yield Row(9, "two requests in one segment", raw(metadata() * 2), ANSWERED, answers=2)
    yield Row(9, "a thousand pipelined requests", raw(metadata() * 1000), ANSWERED, answers=1000)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
    for what, data in {
        "TLS ClientHello": hello,
        "HTTP GET": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        "SSH banner": b"SSH-2.0-OpenSSH_9.9\r\n",
        "a megabyte of zeros": bytes(1024 * 1024),
        "PROXY v1": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY v2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
    }.items():
        yield Row(13, what, raw(data))


def _trailing() -> bytes:
    return frame(metadata()[4:] + b"\0\0\0trailing")


def headers() -> Iterator[Row]:
    for key in (-1, 32767, -32768, 9999):
        yield Row(14, f"unknown api key {key}", raw(frame(struct.pack(">hhih", key, 0, 1, -1))))
    served = handlers()
    for key in served:
        for version in (served[key].versions[-1] + 1, -1, 32767):
            data = frame(encode_request_header(key, version, 1, "x"), b"\0" * 64)
            outcome = ANSWERED if key == API_VERSIONS else CLOSED
            yield Row(15, f"api {key} at version {version}", raw(data), outcome)
    yield Row(16, "client id null", raw(header_v2(client_id(None), b"\0")), ANSWERED)
    yield Row(16, "client id empty", raw(header_v2(client_id(b""), b"\0")), ANSWERED)
    yield Row(
        16, "client id of 32767 bytes", raw(header_v2(client_id(b"x" * 32767), b"\0")), ANSWERED
    )
    yield Row(
        16,
        "client id of control characters",
        raw(header_v2(client_id(b'a\n{"event":"ready"}\x1b[2J\0'), b"\0")),
        ANSWERED,
    )
    yield Row(16, "client id not UTF-8", raw(header_v2(client_id(b"\xff\xfe"), b"\0")))
    # As in Kafka: any negative length of a nullable string is null.
    yield Row(16, "client id of length -2", raw(header_v2(struct.pack(">h", -2), b"\0")), ANSWERED)
    yield Row(
        17, "one unknown tagged field", raw(header_v2(client_id(b""), tags((9, b"abc")))), ANSWERED
    )
    many = [(number, b"") for number in range(10_000)]
    yield Row(17, "10,000 tagged fields", raw(header_v2(client_id(b""), tags(*many))))
    yield Row(
        17,
        "20 million tagged fields",
        raw(header_v2(client_id(b""), varint(20_000_000) + b"\1\0" * 1000)),
    )
    # As in Kafka: unknown tags are kept unread, whatever their order.
    yield Row(
        17, "duplicate tags", raw(header_v2(client_id(b""), tags((1, b""), (1, b"")))), ANSWERED
    )
    yield Row(
        17, "descending tags", raw(header_v2(client_id(b""), tags((2, b""), (1, b"")))), ANSWERED
    )
    yield Row(
        17, "a tag size past the end", raw(header_v2(client_id(b""), b"\1\1" + varint(2**31 - 1)))
    )
    for name in ("", "-a", "a b", "a\n", "é", "x" * 70 + "!"):
        yield Row(19, f"software name {name[:5]!r}", raw(software(name)), ANSWERED)


def types() -> Iterator[Row]:
    head = encode_request_header(METADATA, 12, 1, "x")
    for what, count in {
        "of six bytes": b"\xff\xff\xff\xff\xff\x01",
        "of five bytes with surplus bits": b"\x82\x80\x80\x80\x70",
        "that never ends": b"\xff" * 200,
    }.items():
        yield Row(20, f"varint {what}", raw(frame(head, count, bytes(100))))
    uuid = bytes(16)
    yield Row(
        21, "compact string null where it may not be", raw(request(HEARTBEAT, 4, b"\0" + bytes(20)))
    )
    yield Row(
        21, "string of length -2", raw(request(HEARTBEAT, 3, struct.pack(">h", -2) + bytes(20)))
    )
    yield Row(
        21,
        "string of length -1 where it may not be null",
        raw(request(HEARTBEAT, 3, struct.pack(">h", -1) + bytes(20))),
    )
    yield Row(
        21,
        "string longer than the rest",
        raw(request(HEARTBEAT, 3, struct.pack(">h", 1000) + b"abc")),
    )
    yield Row(
        21,
        "compact string longer than the rest",
        raw(frame(head, b"\2", uuid, varint(2**31), b"abc")),
    )
    for key in handlers():
        yield from arrays_of(key)
    yield Row(
        23, "as many topics as the budget", lambda: metadata(["a"] * BUDGET), ANSWERED, warm=True
    )
    yield Row(23, "one topic above the budget", lambda: metadata(["a"] * (BUDGET + 1)), warm=True)
    yield Row(
        23,
        "half a million empty elements",
        lambda: frame(head, varint(500_001), bytes(9_000_000)),
        warm=True,
    )
    yield Row(24, "nested arrays that multiply", lambda: nested(60), warm=True)
    yield Row(
        24, "nested arrays that claim to multiply", lambda: nested(3, claimed=2**20), warm=True
    )
    yield Row(25, "booleans of 2 to 255", raw(frame(head, b"\0\xff\x02\0")), ANSWERED)
    yield Row(25, "an id of zeros", raw(frame(head, b"\2", uuid, b"\0\0\1\0\0")), ANSWERED)
    for what, name in {
        "UTF-8 that is none": b"\xff\xfe\xfd",
        "a surrogate": b"\xed\xa0\x80",
        "an overlong form": b"\xc0\xaf",
    }.items():
        yield Row(
            26,
            f"{what} as a topic",
            raw(frame(head, b"\2", uuid, varint(len(name) + 1), name, b"\0\1\0\0")),
        )
    for topic in ("\0", "a/b", "..", ".", "x" * 251, "x" * 30_000, "", "тема", "\U0001f600"):
        yield Row(26, f"the topic {topic[:6]!a} of {len(topic)}", raw(metadata([topic])), ANSWERED)


def arrays_of(key: int) -> Iterator[Row]:
    """Requests whose first array has an impossible count, after valid fields."""
    message, version = request_type(key), handlers()[key].versions[-1]
    flexible = version in message.FLEXIBLE_VERSIONS
    prefix = before_first_array(key, version)
    if prefix is None:
        return
    for count in (-1, -2, 2**31 - 1):
        if count < 0 and flexible:
            continue  # compact counts have no sign
        written = varint(count + 1) if flexible else struct.pack(">i", count)
        nullable = next(
            field for field in message.fields() if field.array and field.at(version)
        ).nullable_at(version)
        if count == -1 and nullable:
            continue
        data = frame(encode_request_header(key, version, 1, "x"), prefix, written, bytes(8))
        yield Row(22, f"api {key} with an array of {count}", raw(data))


def before_first_array(key: int, version: int) -> bytes | None:
    """The encoded fields before the first untagged array, None if there is none."""
    message = request_type(key)
    sizes = {
        "bool": 1,
        "int8": 1,
        "int16": 2,
        "uint16": 2,
        "int32": 4,
        "uint32": 4,
        "int64": 8,
        "float64": 8,
        "uuid": 16,
    }
    out = b""
    for field in message.fields():
        if not field.at(version) or field.tagged_at(version):
            continue
        if field.array:
            return out
        if field.type in sizes:
            out += bytes(sizes[field.type])
        elif field.type == "string":
            out += b"\1" if version in message.FLEXIBLE_VERSIONS else b"\0\0"
        else:
            return None
    return None


def nested(width: int, claimed: int | None = None) -> bytes:
    """OffsetFetch: groups x topics x partitions."""
    inner = varint((claimed or width) + 1) + struct.pack(">i", 0) * width + b"\0"
    topic = b"\2t" + inner
    group = (
        b"\2g"
        + b"\0"
        + struct.pack(">i", -1)
        + varint((claimed or width) + 1)
        + topic * width
        + b"\0"
    )
    return request(OFFSET_FETCH, 9, varint((claimed or width) + 1) + group * width + b"\0\0")


ROWS = [*framing(), *headers(), *types()]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row_has_its_outcome_and_others_are_served(
    row: Row, server: Target, loop: Callable[..., None]
) -> None:
    async def main() -> None:
        async with await server.connect() as bystander, await server.connect() as attacker:
            await server.assert_served(bystander)
            if row.warm:
                await server.assert_served(attacker)
            await attack(row, attacker)
            await server.assert_served(bystander)
            await server.assert_served()

    loop(main)


async def attack(row: Row, attacker: Client) -> None:
    data = row.data()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, attacker, data)
        if row.outcome == CLOSED:
            assert await attacker.closed() == b"", "bytes before the close"
        else:
            with trio.fail_after(PATIENCE_S):
                for _ in range(row.answers):
                    assert len(await attacker.frame()) >= 4
        nursery.cancel_scope.cancel()


async def send(client: Client, data: bytes) -> None:
    # Most rows are closed while they are being sent.
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await client.send(data)


@pytest.mark.parametrize("row", [row for row in ROWS if row.warm], ids=str)
def test_large_row_does_not_hold_the_event_loop(
    row: Row, server: Target, loop: Callable[..., None]
) -> None:
    async def main() -> None:
        async with await server.connect() as attacker:
            await server.assert_served(attacker)
            longest_pass = server.longest_pass
            assert longest_pass is not None
            longest_pass.take()
            await attack(row, attacker)
            await server.assert_served()
            units = longest_pass.take()
            assert 0 < units < UNITS_MAX

    loop(main)


def test_every_row_of_the_checklist_has_a_test() -> None:
    elsewhere = {3, 6, 8, 10, 11, 12, 18}  # test_connections.py, test_many_connections.py
    assert {row.number for row in ROWS} | elsewhere == set(range(1, 27))
