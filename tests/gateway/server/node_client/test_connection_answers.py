"""Responses of a node that come in pieces, end early or are malformed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gateway.server.node_client.errors import BadAnswer, ConnectionClosed, UpstreamError
from gateway.server.node_client.link import Link
from gateway.server.node_client.versions import ask_versions
from kwire.header import encode_response_header
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.upstream_peer import (
    HEARTBEAT,
    Asked,
    Node,
    heartbeat,
    listening,
    run,
    sized,
)
from tests.waiting import PATIENCE_S


class Pieces(trio.abc.Stream):
    """A stream that receives exactly these pieces, then its end."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.closed = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._pieces.pop(0) if self._pieces else b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


def the_answer() -> bytes:
    body = HeartbeatResponse(throttle_time_ms=5, error_code=27).encode(4)
    head = encode_response_header(HEARTBEAT, 4, 1)
    return sized(len(head) + len(body), head + body)


def test_response_is_read_from_any_pieces() -> None:
    whole = the_answer()

    async def main() -> None:
        splits = [[whole[:at], whole[at:]] for at in range(1, len(whole))] + [
            [bytes([one]) for one in whole]
        ]
        for pieces in splits:
            link = Link(Pieces(pieces), "node", response_max_bytes=1000)
            assert (await link.ask(heartbeat(), 4, "me")).error_code == 27
            assert link.is_open

    run(main)


def test_truncated_response_is_connection_closed() -> None:
    whole = the_answer()

    async def main() -> None:
        for end in range(len(whole)):
            stream = Pieces([whole[:end]] if end else [])
            link = Link(stream, "node", response_max_bytes=1000)
            with pytest.raises(ConnectionClosed, match="node: it closed the connection"):
                await link.ask(heartbeat(), 4, "me")
            assert stream.closed and not link.is_open
            with pytest.raises(
                ConnectionClosed, match="given up in the middle of HeartbeatRequest v4"
            ):
                await link.ask(heartbeat(), 4, "me")

    run(main)


#: Bytes that a node sends instead of a response, and the text of the error.
LIES: dict[str, tuple[Callable[[Asked], bytes], str]] = {
    "huge": (lambda asked: sized(2**31 - 1), "a frame of 2147483647 bytes, above the limit"),
    "above the limit": (
        lambda asked: sized(1001),
        "a frame of 1001 bytes, above the limit of 1000",
    ),
    "negative": (lambda asked: sized(-1), "a frame of -1 bytes"),
    "most negative": (lambda asked: sized(-(2**31)), "a frame of -2147483648 bytes"),
    "empty": (lambda asked: sized(0), "a frame of 0 bytes"),
    "no correlation id": (lambda asked: sized(3, b"abc"), "correlation id 616263"),
    "another's": (
        lambda asked: asked.answer(HeartbeatResponse(), correlation_id=77),
        "correlation id 77, not 2",
    ),
    "negative id": (
        lambda asked: asked.answer(HeartbeatResponse(), correlation_id=-2),
        "correlation id -2, not 2",
    ),
    "two": (lambda asked: asked.answer(HeartbeatResponse()) * 2, "which nobody asked for"),
    "too short": (lambda asked: sized(5, b"\0\0\0\2\0"), "cannot be read"),
    "too long": (
        lambda asked: sized(13, b"\0\0\0\2\0" + bytes(8)),
        "1 bytes left over behind HeartbeatResponse",
    ),
    "tags": (
        lambda asked: sized(14, b"\0\0\0\2" + b"\xff\xff\xff\xff\x0f" + bytes(5)),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_malformed_response_is_bad_answer(lie: str) -> None:
    answer, words = LIES[lie]

    async def script(node: Node) -> None:
        await node.greet()
        await node.send(answer(await node.next()))
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect(response_max_bytes=1000)
            with pytest.raises(BadAnswer) as caught:
                await upstream.call(heartbeat(), 4, timeout_s=5)
            assert words in str(caught.value) and str(caught.value).startswith(
                f"127.0.0.1:{peer.port} (PLAINTEXT): "
            )
            assert not upstream.is_open
            with trio.fail_after(PATIENCE_S):  # closed at once, not only at the next call
                await peer.idle.wait()
            with pytest.raises(ConnectionClosed):
                await upstream.call(heartbeat(), 4, timeout_s=5)

    run(main)


def test_response_before_authentication_has_a_smaller_limit() -> None:
    async def script(node: Node) -> None:
        await node.next()
        await node.send(sized(1024 * 1024))
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(
                BadAnswer, match="ApiVersionsRequest v4 is no answer: a frame of 1048576 bytes"
            ):
                await peer.connect()

    run(main)


def test_memory_grows_with_received_bytes_not_with_the_claimed_size() -> None:
    async def script(node: Node) -> None:
        await node.greet()
        await node.next()
        await node.send(sized(60_000_000, bytes(100_000)))

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            tracemalloc.start()
            try:
                with pytest.raises(ConnectionClosed, match="in the middle of the answer"):
                    await upstream.call(heartbeat(), 4, timeout_s=5)
                assert tracemalloc.get_traced_memory()[1] < 2_000_000
            finally:
                tracemalloc.stop()

    run(main)


def test_response_with_too_many_elements_is_refused_in_bounded_time() -> None:
    count = 100_000

    async def script(node: Node) -> None:
        asked = await node.next()
        # ApiVersions v4: error code, an array of keys of 7 zero bytes each.
        body = (
            b"\0\0"
            + bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14])
            + bytes(3 * count)
        )
        number = asked.header.correlation_id
        await node.send(sized(4 + len(body), number.to_bytes(4, "big") + body))
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(BadAnswer, match="cannot be read"):
                await peer.connect()

    run(main)


def test_tls_listener_is_recognised_by_a_plaintext_client() -> None:
    async def script(node: Node) -> None:
        await node.next()
        await node.send(bytes.fromhex("15030300020246"))

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(BadAnswer, match="the listener speaks TLS"):
                await peer.connect()

    run(main)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=4), st.booleans())
def test_random_bytes_are_a_response_or_an_upstream_error(
    pieces: list[bytes], framed: bool
) -> None:
    body = b"".join(pieces)
    received = [sized(len(body) + 4, b"\0\0\0\1"), *pieces] if framed else list(pieces)

    async def main() -> None:
        stream = Pieces(received)
        link = Link(stream, "node", response_max_bytes=1000)
        try:
            await ask_versions(link, "me")
        except UpstreamError as error:
            assert stream.closed and not link.is_open and str(error).startswith("node: ")

    run(main)
