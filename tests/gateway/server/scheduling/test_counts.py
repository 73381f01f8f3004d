"""Counts of connections: every request, every error code at any level of a response, and nothing
that peers could make grow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from gateway.handlers.context import Handler, Peer
from gateway.handlers.gateway_port import Gateway
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.dispatch import Dispatcher, encode_answer
from gateway.server.scheduling.counts import TIME_BOUNDS_S, ApiCounts, Counts
from kwire.message import Message, Struct
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.metadata_response import MetadataResponse
from kwire.registry import response_type
from tests.gateway.server.harness import (
    ECHO,
    HEARTBEAT,
    handler,
    heartbeat,
    request,
    run,
    serving,
)
from tests.waiting import until_async


def fetch_response(*errors: int, top: int = 0) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=number, error_code=error)
        for number, error in enumerate(errors)
    ]
    return FetchResponse(error_code=top, responses=[FetchableTopicResponse(partitions=partitions)])


def test_api_counts_have_kafkas_name() -> None:
    assert Counts().apis[1].name == "Fetch"
    assert Counts().apis[18].name == "ApiVersions"


@pytest.mark.parametrize(
    ("response", "errors"),
    [
        (fetch_response(0, 0), {}),
        (fetch_response(1, 0, 1, 74, top=70), {1: 2, 74: 1, 70: 1}),
        (HeartbeatResponse(error_code=27), {27: 1}),
        (MetadataResponse(), {}),
        (ApiVersionsResponse(error_code=35), {35: 1}),
    ],
)
def test_error_codes_are_counted_at_every_level_of_a_response(
    response: Message, errors: dict[int, int]
) -> None:
    api = ApiCounts(1)
    api.answered(response)
    assert api.errors == errors


@pytest.mark.parametrize("api_key", sorted(handlers()))
def test_error_codes_are_counted_in_every_struct_of_every_response(api_key: int) -> None:
    """Each struct has one object with an error code: the count must equal the number of such fields
    in the schema.
    """
    api = ApiCounts(api_key)
    response, errors = _full(response_type(api_key))
    api.answered(response)
    assert sum(api.errors.values()) == errors


def _full(kind: type[Struct]) -> tuple[Any, int]:
    values: dict[str, Any] = {}
    errors = 0
    for about in kind.fields():
        if about.attr == "error_code":
            values["error_code"], errors = 42, errors + 1
        elif about.is_struct:
            inner, found = _full(kind.struct_class(about.type))
            values[about.attr] = [inner] if about.array else inner
            errors += found
    return kind(**values), errors


def test_request_times_are_counted_in_their_buckets() -> None:
    api = ApiCounts(1)
    for seconds in (0.00001, TIME_BOUNDS_S[0], 0.003, 5.0):
        api.run_sliced(seconds)
    assert (api.buckets[0], api.buckets[TIME_BOUNDS_S.index(0.005)], api.buckets[-1]) == (2, 1, 1)
    assert api.seconds == pytest.approx(5.00306)


def test_connection_counts_requests_bytes_and_errors() -> None:
    async def main() -> None:
        async with serving() as served, await served.connect() as client:
            sent = heartbeat(1), heartbeat(2, 25)
            for data in sent:
                await client.send(data)
            answers = [await client.frame() for _ in sent]
            counts = served.server_context.counts
            await until_async(lambda: sum(counts.apis[HEARTBEAT].buckets) == 2)
            assert counts.apis[HEARTBEAT].errors == {25: 1}
            assert counts.apis[HEARTBEAT].seconds > 0
            assert counts.received == sum(map(len, sent))
            assert counts.sent == sum(4 + len(answer) for answer in answers)
            assert counts.connections == {"PLAINTEXT": 1}
        assert counts.connections["PLAINTEXT"] == 0

    run(main)


def test_waiting_response_is_counted_when_it_is_completed() -> None:
    waiting: list[PendingResponse] = []

    async def main() -> None:
        def park(request: object, context: object) -> PendingResponse:
            waiting.append(PendingResponse())
            return waiting[-1]

        async with serving(handler(park)) as served, await served.connect() as client:
            await client.send(heartbeat(1))
            await until_async(lambda: bool(waiting))
            api = served.server_context.counts.apis[HEARTBEAT]
            assert (sum(api.buckets), api.waits) == (1, 0)
            seconds = api.seconds
            await trio.sleep(0.02)
            waiting[0].complete(HeartbeatResponse(error_code=27))
            await client.frame()
            assert (sum(api.buckets), api.waits, api.errors) == (1, 1, {27: 1})
            assert api.wait_seconds >= 0.02
            assert api.seconds == seconds, "waiting is not counted as work"

    run(main)


def test_closed_connection_is_counted_by_the_key_of_its_limit() -> None:
    async def main() -> None:
        async with serving(connections_max_idle_ms=100) as served, await served.connect() as client:
            await client.closed()
            assert served.server_context.counts.cuts == {"connections.max.idle.ms": 1}

    run(main)


def test_client_software_is_counted_while_its_connection_is_open() -> None:
    hello = Handler(18, "api_versions", range(5), lambda request, context: ApiVersionsResponse())

    def introduction(name: str) -> bytes:
        body = ApiVersionsRequest(client_software_name=name, client_software_version="1").encode(3)
        return request(18, 3, body)

    async def main() -> None:
        async with serving(hello, ECHO) as served:
            software = served.server_context.counts.software
            async with await served.connect() as one, await served.connect() as other:
                for client, name in ((one, "a"), (other, "b"), (one, "c")):
                    await client.send(introduction(name))
                    await client.frame()
                assert software == {"b/1": 1, "c/1": 1}
            await until_async(lambda: not served.connections)
            assert not software

    run(main)


def test_counting_makes_few_calls_beside_the_smallest_request() -> None:
    """Compared with decoding and encoding that request, without a socket."""
    api, response = Counts().apis[1], fetch_response(0)
    dispatcher = Dispatcher({HEARTBEAT: ECHO}, cast(Gateway, None), element_budget=100)
    frame, peer = heartbeat(1)[4:], Peer("PLAINTEXT", "User:ANONYMOUS", "127.0.0.1", 1, 1)

    def count() -> None:
        api.run_sliced(0.0002)
        api.answered(response)

    def carry_out() -> None:
        in_flight, answer = dispatcher.handle(frame, peer, 0.0)
        assert isinstance(answer, Message)
        encode_answer(in_flight, answer)

    count()  # makes the function for the class of the response
    carry_out()
    assert 0 < _calls(count) <= 0.3 * _calls(carry_out)


def _calls(work: Callable[[], None]) -> int:
    """The calls of functions, those of C included, that ``work`` makes."""
    calls = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls
