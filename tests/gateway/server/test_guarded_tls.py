"""Listeners with TLS: refused certificates, unfinished handshakes and slow readers."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trio

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.server.guarded import (
    FETCH,
    METADATA,
    Place,
    metadata,
    place,
    whole_log,
)
from tests.gateway.server.harness import Client, request, run
from tests.waiting import until_async
from tools.kafka_security import (
    Authority,
    Identity,
)


def test_slow_reader_gets_the_whole_response_through_tls(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, socket_send_buffer_bytes=4096) as server:
            async with await server.connect("PLAINTEXT") as client:
                expected = await whole_log(client)
            async with await server.connect("TLS") as client:
                topic = FetchTopic(
                    topic_id=METADATA_TOPIC_ID,
                    partitions=[FetchPartition(partition_max_bytes=10_000_000)],
                )
                asked = request(
                    FETCH,
                    13,
                    FetchRequest(min_bytes=0, max_bytes=50_000_000, topics=[topic]).encode(13),
                    4,
                )
                await client.send(asked * 20)
                await trio.sleep(0.2)
                for _ in range(20):
                    _, answer = await client.answer(FETCH, 13)
                    assert bytes(answer.responses[0].partitions[0].records) == expected

    run(main)


async def refused(server: Place, identity: Identity | None) -> None:
    """Connect with this certificate and expect that the listener refuses it."""
    with pytest.raises((trio.BrokenResourceError, AssertionError)):
        async with await server.connect("MUTUAL", identity) as client:
            await client.send(metadata())
            await client.answer(METADATA, 9)


def test_tls_listener_refuses_plaintext_and_missing_or_unknown_certificates(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port("TLS"))
            async with Client(stream) as client:
                await client.send(metadata())
                await client.closed()
            await until_async(lambda: server.counts["handshake failed"] == 1)
            for identity in (None, Authority().issue("friend")):
                await refused(server, identity)
            await until_async(lambda: server.counts["handshake failed"] == 3)

    run(main)


def test_client_certificate_out_of_its_time_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        async with place(tmp_path) as server:
            for times in ((now - 2 * day, now - day), (now + day, now + 2 * day)):
                identity = server.authority.issue("friend", not_before=times[0], not_after=times[1])
                await refused(server, identity)
            await until_async(lambda: server.counts["handshake failed"] == 2)

    run(main)


def test_unfinished_tls_handshake_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, request_receive_timeout_ms=300) as server:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port("TLS"))
            async with Client(stream) as client:
                await client.send(b"\x16\x03\x01\x02\x00\x01")
                assert await client.closed() == b""

    run(main)
