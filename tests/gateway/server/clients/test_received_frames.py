"""Requests that arrive in pieces: what handlers get of them, and how much is received at once."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio

from gateway.handlers.context import Context, Handler
from gateway.ports.pending_response import NO_RESPONSE
from gateway.server.clients import connection as connection_module
from kwire.errors import DecodeError
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.gateway.server.harness import handler, heartbeat, request, run, serving

_RECORDS = bytes(range(256)) * 800


def _produce(records: bytes = _RECORDS) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    topic = TopicProduceData(name="topic", partition_data=[partition])
    return ProduceRequest(transactional_id="id", acks=0, timeout_ms=5, topic_data=[topic])


@pytest.mark.parametrize("version", [3, 9, 13])
def test_every_truncation_of_a_request_in_a_bytearray_has_the_error_of_bytes(version: int) -> None:
    data = _produce(b"records").encode(version)
    for end in range(len(data)):
        with pytest.raises(DecodeError) as of_bytes:
            ProduceRequest.decode_from(data[:end], version)
        with pytest.raises(DecodeError) as of_bytearray:
            ProduceRequest.decode_from(bytearray(data[:end]), version)
        assert str(of_bytearray.value) == str(of_bytes.value)
    whole, _ = ProduceRequest.decode_from(bytearray(data), version)
    assert whole.transactional_id == "id"
    assert whole.topic_data[0].partition_data[0].records == b"records"


def test_produce_in_pieces_is_decoded_as_one_that_comes_at_once() -> None:
    asked: list[Any] = []

    def handle(message: ProduceRequest, context: Context) -> Any:
        asked.append(message)
        return NO_RESPONSE

    async def main() -> None:
        frame = request(0, 9, _produce().encode(9))
        produce = Handler(0, "produce", range(3, 14), handle)
        beat = handler(lambda message, context: HeartbeatResponse())
        async with serving(produce, beat) as server, await server.connect() as client:
            for at in range(0, len(frame), 50_000):
                await client.send(frame[at : at + 50_000])
                await trio.sleep(0.01)
            await client.ask(1)
        (message,) = asked
        assert type(message.topic_data[0].partition_data[0].records) is memoryview
        assert message.topic_data[0].partition_data[0].records == _RECORDS

    run(main)


def test_more_is_received_at_once_from_a_client_that_sends_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    class Counted(socket.socket):
        def recv(self, size: int, flags: int = 0) -> bytes:
            sizes.append(size)
            return super().recv(size, flags)

    async def main() -> None:
        beat = handler(lambda message, context: HeartbeatResponse())
        async with serving(beat) as server, await server.connect() as client:
            await client.ask(1)
            (one,) = server.connections._all
            plain: Any = one._sock
            counted = Counted(fileno=plain.detach())
            counted.setblocking(False)
            one._sock = one._output._sock = counted
            async with trio.open_nursery() as nursery:
                count = 15_000
                nursery.start_soon(client.send, b"".join(map(heartbeat, range(count))))
                for _ in range(count):
                    await client.frame()
            await client.ask(1)
            assert max(sizes) == connection_module._BUSY_MAX
            assert sizes[-1] == connection_module._RECEIVE_MIN

    run(main)
