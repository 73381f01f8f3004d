"""Quotas over a real connection: the response comes first, then the connection is muted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.broker.quotas.client_quota_manager import ClientQuotaManager
from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.request_quota import RequestQuota
from gateway.broker.quotas.samples import QuotaSettings
from gateway.handlers.context import Context, Handler, Peer
from gateway.ports.pending_response import NO_RESPONSE, PendingResponse
from gateway.ports.streamed import Streamed
from gateway.server.clients.dispatch import Dispatcher
from kwire.cluster import Image
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.messages.produce_response import ProduceResponse
from kwire.protocol import ApiKey
from tests.gateway.server.harness import HEARTBEAT, handler, heartbeat, request, run, serving
from tests.waiting import until_async

HOUR_S = 3600.0
TOPICS = 1000
#: No connection is idle for too long where the clock jumps.
PATIENT: Any = {"connections_max_idle_ms": 10**9, "first_request_timeout_ms": 10**9}


class Server:
    """Handlers of the test, whose work takes the time that the test says, and their quotas."""

    def __init__(self, **quotas: float) -> None:
        self.clock = trio.testing.MockClock(rate=1.0)
        self.asked: list[int] = []
        self.waiting: list[PendingResponse] = []
        self.kept = HeartbeatResponse(error_code=1)
        self.quotas = ClientQuotas(
            QuotaSettings(window_ms=int(HOUR_S * 1000)), QuotaSettings(), trio.current_time
        )
        image = Image()
        if quotas:
            image.quotas[(("user", None),)] = quotas
        self.quotas.on_update(None, image)

    def beat(self, asked: Any, context: Context) -> Any:
        """Answer work that took ``generation_id`` seconds."""
        self.asked.append(asked.generation_id)
        self.clock.jump(asked.generation_id)
        return self.kept if asked.generation_id == 1 else HeartbeatResponse()

    def wait(self, asked: Any, context: Context) -> Any:
        """Answer when the test completes it."""
        self.beat(asked, context)
        self.waiting.append(PendingResponse())
        return self.waiting[-1]


def produced(acks: int, size: int) -> bytes:
    partition = PartitionProduceData(index=0, records=bytes(size))
    data = TopicProduceData(name="t", partition_data=[partition])
    body = ProduceRequest(acks=acks, timeout_ms=1, topic_data=[data])
    return request(ApiKey.PRODUCE, 9, body.encode(9), 5)


@pytest.mark.parametrize("waits", [False, True])
def test_throttled_client_is_answered_at_once_and_heard_after_its_throttle_time(
    waits: bool,
) -> None:
    test = Server(request_percentage=0.001)

    async def main() -> None:
        handle = test.wait if waits else test.beat
        async with (
            serving(handler(handle), quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1, 5))
            if waits:
                await until_async(lambda: bool(test.waiting))
                test.waiting[0].complete(HeartbeatResponse())
            answer = (await client.answer())[1]
            # 500 % of a second in ten windows of an hour: more than a window too much.
            assert answer.throttle_time_ms == HOUR_S * 1000
            sent = server.server_context.counts.received
            await client.send(heartbeat(2))
            await until_async(lambda: server.server_context.counts.received > sent)
            async with await server.connect() as other:
                await other.send(heartbeat(3, 2))
                await until_async(lambda: 2 in test.asked)
            assert test.asked == [5, 2]
            test.clock.jump(HOUR_S)
            await until_async(lambda: test.asked == [5, 2, 0])

    run(main, test.clock)


def test_requests_that_were_sent_together_wait_for_the_throttle_time() -> None:
    test = Server(request_percentage=0.001)

    async def main() -> None:
        async with (
            serving(handler(test.beat), quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1, 5) + heartbeat(2) + heartbeat(3))
            assert (await client.answer())[1].throttle_time_ms > 0
            async with await server.connect() as other:
                await other.send(heartbeat(1, 2))
                await other.answer()
            assert test.asked == [5, 2]
            test.clock.jump(HOUR_S)
            await until_async(lambda: test.asked == [5, 2, 0])

    run(main, test.clock)


def test_muted_connection_ends_when_the_server_stops() -> None:
    test = Server(request_percentage=0.001)

    async def main() -> None:
        async with (
            serving(handler(test.beat), quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            await client.send(heartbeat(1, 5) + heartbeat(2))
            await client.answer()
            server.stop.set()
            assert await client.closed() == b""

    run(main, test.clock)


def test_response_that_a_handler_keeps_for_others_is_not_changed() -> None:
    test = Server(request_percentage=0.001)

    async def main() -> None:
        async with (
            serving(handler(test.beat), quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            answer = await client.ask(1, 1)
            assert (answer.error_code, answer.throttle_time_ms) == (1, HOUR_S * 1000)
            assert test.kept.throttle_time_ms == 0

    run(main, test.clock)


@pytest.mark.parametrize("version", [1, 4, 12])
def test_streamed_response_names_the_throttle_time_where_its_version_does(version: int) -> None:
    test = Server(request_percentage=0.001)

    def metadata(asked: Any, context: Context) -> Streamed:
        test.clock.jump(5)
        topics = (MetadataResponseTopic(name=f"t{number}") for number in range(TOPICS))
        return Streamed(MetadataResponse(), "topics", topics)

    async def main() -> None:
        handlers = Handler(ApiKey.METADATA, "metadata", range(13), metadata), handler(test.beat)
        async with (
            serving(*handlers, quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            body = MetadataRequest(topics=None if version else []).encode(version)
            await client.send(request(ApiKey.METADATA, version, body, 1) + heartbeat(2))
            answer = (await client.answer(ApiKey.METADATA, version))[1]
            assert answer.throttle_time_ms == (HOUR_S * 1000 if version >= 3 else 0)
            assert [topic.name for topic in answer.topics] == [
                f"t{number}" for number in range(TOPICS)
            ]
            assert test.asked == []

    run(main, test.clock)


def test_produce_is_throttled_by_the_bytes_of_the_request_with_or_without_a_response() -> None:
    test = Server(producer_byte_rate=1)
    seen: list[int] = []

    def produce(asked: Any, context: Context) -> Any:
        seen.append(asked.acks)
        return ProduceResponse() if asked.acks else NO_RESPONSE

    async def main() -> None:
        one = Handler(ApiKey.PRODUCE, "produce", range(3, 14), produce)
        async with (
            serving(one, quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            await client.send(produced(1, 100))
            assert (await client.answer(ApiKey.PRODUCE, 9))[1].throttle_time_ms == 0
            # The quota of ten windows of an hour is 36,000 bytes.
            await client.send(produced(0, 40_000) + produced(1, 1))
            await until_async(lambda: seen == [1, 0])
            assert test.quotas.produce.throttled == 1
            test.clock.jump(test.quotas.produce.throttled_ms / 1000 - 100)
            await client.send(produced(1, 1))
            async with await server.connect() as other:
                await other.send(produced(-1, 1))
                await until_async(lambda: -1 in seen)
            assert seen == [1, 0, -1]
            test.clock.jump(200)
            await until_async(lambda: seen == [1, 0, -1, 1])

    run(main, test.clock)


@pytest.mark.parametrize("is_open", [False, True])
def test_request_of_authentication_has_no_quota(is_open: bool) -> None:
    test = Server(request_percentage=0.001)
    quotas = ClientQuotas(QuotaSettings(), QuotaSettings(), lambda: 1.0)
    image = Image()
    image.quotas[(("user", None),)] = {"request_percentage": 1.0}
    quotas.on_update(None, image)
    table = {HEARTBEAT: handler(lambda asked, context: test.kept)}
    dispatcher = Dispatcher(table, cast(Any, None), element_budget=100, quotas=quotas)
    session = SimpleNamespace(
        is_open=is_open, takes_bare_tokens=False, refusal=lambda api_key, now: None
    )
    peer = Peer("SASL", "User:ANONYMOUS", "127.0.0.1", 1, 1)
    in_flight, _ = dispatcher.handle(heartbeat(1)[4:], peer, 1.0, cast(Any, session))
    assert (in_flight.quota is not None) == is_open


def test_requests_without_any_quota_call_nothing_of_quotas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    test, calls = Server(), []

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        raise AssertionError("a quota was asked")

    monkeypatch.setattr(RequestQuota, "__init__", counted)
    monkeypatch.setattr(ClientQuotaManager, "sensor", counted)

    async def main() -> None:
        async with (
            serving(handler(test.beat), quotas=test.quotas, **PATIENT) as server,
            await server.connect() as client,
        ):
            for number in range(100):
                assert (await client.ask(number)).throttle_time_ms == 0

    run(main, test.clock)
    assert (len(test.asked), calls) == (100, [])
