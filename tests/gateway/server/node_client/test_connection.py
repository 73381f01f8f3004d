"""Connections to nodes that are polite, slow, broken and hostile."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from gateway.base.address import Address
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import (
    BadAnswer,
    ConnectionClosed,
    TimedOut,
    Unreachable,
    UnsupportedByPeer,
    UpstreamError,
)
from kwire.errors import EncodeError, UnsupportedVersion
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.upstream_peer import (
    API_VERSIONS,
    HEARTBEAT,
    Node,
    heartbeat,
    listening,
    polite,
    run,
)
from tests.waiting import PATIENCE_S


def test_connect_sends_api_versions_and_keeps_versions_and_features() -> None:
    async def script(node: Node) -> None:
        finalized = [
            FinalizedFeatureKey(name="metadata.version", max_version_level=30, min_version_level=30)
        ]
        keys = [
            ApiVersion(api_key=1, min_version=4, max_version=18),
            ApiVersion(api_key=99, min_version=3, max_version=1),
        ]
        await node.greet(
            ApiVersionsResponse(
                api_keys=keys, finalized_features=finalized, finalized_features_epoch=12
            )
        )
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            assert upstream.versions == {1: range(4, 19), 99: range(3, 2)}
            assert upstream.finalized_features == {"metadata.version": 30}
            assert upstream.finalized_features_epoch == 12
            assert upstream.supported_features == {}
            assert repr(upstream) == f"<Upstream 127.0.0.1:{peer.port} (PLAINTEXT)>"
            await upstream.aclose()
            [asked] = peer.seen
            assert (asked.version, asked.header.client_id, asked.message.client_software_name) == (
                4,
                "test",
                "kwire",
            )

    run(main)


@pytest.mark.parametrize(
    ("offered", "second"),
    [(range(3), 2), (range(4), 3), (range(0), 0), (range(9), 3), (range(-5, -1), 0)],
)
def test_node_without_api_versions_4_is_asked_at_an_older_version(
    offered: range, second: int
) -> None:
    async def script(node: Node) -> None:
        asked = await node.next()
        keys = (
            [ApiVersion(api_key=API_VERSIONS, min_version=offered[0], max_version=offered[-1])]
            if offered
            else []
        )
        await node.send(asked.answer(ApiVersionsResponse(error_code=35, api_keys=keys), version=0))
        await node.greet()
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            assert [asked.version for asked in peer.seen] == [4, second]
            assert HEARTBEAT in upstream.versions
            await upstream.aclose()

    run(main)


def test_node_that_refuses_every_version_is_asked_twice() -> None:
    async def script(node: Node) -> None:
        while True:
            asked = await node.next()
            await node.send(asked.answer(ApiVersionsResponse(error_code=35), version=0))

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(BadAnswer, match=r"UNSUPPORTED_VERSION \(35\)"):
                await peer.connect()
            assert [asked.version for asked in peer.seen] == [4, 0]

    run(main)


def test_common_version_is_the_newest_that_both_sides_have() -> None:
    async def main() -> None:
        async with listening(polite) as peer:
            upstream = await peer.connect()
            assert upstream.common_version(HEARTBEAT, range(2, 9)) == 4
            assert upstream.common_version(HEARTBEAT, range(1, 3)) == 2
            for key, supported, words in (
                (HEARTBEAT, range(5, 7), "offers Heartbeat 0-4, 5-6 is needed"),
                (1, range(13, 19), "not offer Fetch"),
            ):
                with pytest.raises(UnsupportedByPeer, match=words):
                    upstream.common_version(key, supported)
            assert upstream.is_open
            assert (await upstream.call(heartbeat(3), 4, timeout_s=5)).error_code == 3
            await upstream.aclose()

    run(main)


def test_concurrent_calls_take_turns_and_get_their_own_responses() -> None:
    async def main() -> None:
        async with listening(polite) as peer:
            upstream = await peer.connect()
            got: dict[int, int] = {}

            async def ask(number: int) -> None:
                got[number] = (
                    await upstream.call(heartbeat(number), number % 5, timeout_s=5)
                ).error_code

            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(ask, number)
            assert got == {number: number for number in range(50)}
            await upstream.aclose()
            await upstream.aclose()
            assert not upstream.is_open
            with pytest.raises(ConnectionClosed, match="closed here"):
                await upstream.call(heartbeat(), 4, timeout_s=5)

    run(main)


def test_unencodable_request_leaves_the_connection_open() -> None:
    async def main() -> None:
        async with listening(polite) as peer:
            upstream = await peer.connect()
            with pytest.raises(EncodeError):
                await upstream.call(HeartbeatRequest(generation_id=1 << 40), 4, timeout_s=5)
            with pytest.raises(UnsupportedVersion):
                await upstream.call(heartbeat(), 99, timeout_s=5)
            assert (await upstream.call(heartbeat(9), 4, timeout_s=5)).error_code == 9
            await upstream.aclose()

    run(main)


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (0, "no answer to ApiVersions within 0.1 s"),
        (1, "no answer to HeartbeatRequest v4 within 0.1 s"),
    ],
)
def test_call_to_a_stalled_node_times_out_and_closes(when: int, words: str) -> None:
    async def script(node: Node) -> None:
        for _ in range(when):
            await node.greet()
        asked = await node.next()
        await node.send(asked.answer(HeartbeatResponse(), version=4)[:6])
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(TimedOut) as caught:
                upstream = await peer.connect(timeout_s=0.1 if not when else 5)
                await upstream.call(heartbeat(), 4, timeout_s=0.1)
            assert words in str(caught.value)

    run(main)


def test_timeout_begins_with_the_turn_of_a_call() -> None:
    callers, turn_s, timeout_s = 8, 0.15, 1.0
    assert callers * turn_s > timeout_s

    async def script(node: Node) -> None:
        await node.greet()
        for _ in range(callers):
            asked = await node.next()
            await trio.sleep(turn_s)
            await node.send(asked.answer(HeartbeatResponse(error_code=asked.message.generation_id)))
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            async with trio.open_nursery() as nursery:
                for number in range(callers):
                    call = partial(upstream.call, heartbeat(number), 4, timeout_s=timeout_s)
                    nursery.start_soon(call)
            assert upstream.is_open
            await upstream.aclose()

    run(main)


async def silent(node: Node) -> None:
    await node.greet()
    await node.next()
    await node.next()


def test_cancelled_call_closes_the_connection() -> None:
    async def main() -> None:
        async with listening(silent) as peer:
            upstream = await peer.connect()
            with trio.move_on_after(0.1) as scope:
                await upstream.call(heartbeat(), 4, timeout_s=5)
            assert scope.cancelled_caught and not upstream.is_open
            with trio.fail_after(PATIENCE_S):
                await peer.idle.wait()

    run(main)


def test_call_cancelled_before_its_turn_leaves_the_connection_open() -> None:
    slow = 0.2

    async def script(node: Node) -> None:
        await node.greet()
        while True:
            asked = await node.next()
            await trio.sleep(slow)
            await node.send(asked.answer(HeartbeatResponse(error_code=asked.message.generation_id)))

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            got: list[int] = []

            async def first() -> None:
                got.append((await upstream.call(heartbeat(1), 4, timeout_s=5)).error_code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(first)
                await trio.sleep(slow / 4)
                with trio.move_on_after(slow / 4) as scope:
                    await upstream.call(heartbeat(2), 4, timeout_s=5)
            assert scope.cancelled_caught and got == [1]
            assert (await upstream.call(heartbeat(3), 4, timeout_s=5)).error_code == 3
            await upstream.aclose()

    run(main)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (("127.0.0.1", 1), "Connection refused"),
        (("no.such.host.invalid", 9093), "no.such.host.invalid:9093 (PLAINTEXT): cannot connect"),
        (("a" * 70 + ".example", 9093), "cannot connect"),
        (("a\0\nb", 9093), "a\\x00\\nb:9093"),
        (("127.0.0.1", 70000), "cannot connect"),
        (("127.0.0.1", -1), "cannot connect"),
        (("127.0.0.1", 0), "cannot connect"),
        (("", 9093), "cannot connect"),
        (("::1", 1), "[::1]:1 (PLAINTEXT)"),
    ],
)
def test_address_without_a_listener_is_unreachable(address: tuple[str, int], words: str) -> None:
    async def main() -> None:
        from gateway.security.client_properties import ClientSecurity

        with pytest.raises(Unreachable) as caught:
            await Upstream.connect(
                Address(*address), ClientSecurity(), client_id="test", timeout_s=5
            )
        assert words in str(caught.value) and "\0" not in str(caught.value)

    run(main)


def test_close_at_the_first_request_suggests_sasl() -> None:
    async def script(node: Node) -> None:
        await node.greet()
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            upstream = await peer.connect()
            with pytest.raises(ConnectionClosed, match="does this listener want SASL"):
                await upstream.call(heartbeat(), 4, timeout_s=5)

    run(main)


def test_errors_can_be_pickled() -> None:
    import pickle

    error = TimedOut("node", "no answer", "wait")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, UpstreamError) and str(again) == str(error) == "node: no answer; wait"
