"""Envelope: the principal of the request, Kafka's errors for invalid envelopes, and responses byte
for byte as captured.
"""

from __future__ import annotations

import json
import lzma
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.handlers.apis import envelope
from gateway.handlers.apis.envelope import _sealed, _sealed_whole
from gateway.handlers.table import controller_handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Forwarder, Requester
from gateway.ports.streamed import Streamed
from gateway.security.principal import Principal, encode_principal
from gateway.server.scheduling.streamed_encoder import StreamedEncoder
from kwire import response_type
from kwire.header import decode_request_header, decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.request_header import RequestHeader
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import create_topics
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import over_the_wire
from tests.shared import SHARED, needs_shared

ALICE = encode_principal(Principal("User:alice", token_authenticated=True))
HOST = bytes([10, 0, 0, 7])
CREATE = CreateTopicsRequest(
    topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)], timeout_ms=1500
)


@dataclass
class Asked:
    """An authorizer that remembers who was asked about, and lets do all but what is ``forbidden``
    to a principal.
    """

    forbidden: set[tuple[str, str]] = field(default_factory=set)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    keeps_acls: bool = True

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        self.asked.append((principal, host, operation))
        return (principal, operation) not in self.forbidden


class Unasked:
    """The quorum of this node, which never answers."""

    kraft_version = 1

    def ask(self, request: Message, version: int, listener: str, pending: PendingResponse) -> None:
        pass


@pytest.fixture
def world() -> OwnWorld:
    made = OwnWorld()
    made.authorizer = Asked()  # type: ignore[assignment]
    return made


def frame(
    request: Message, version: int, correlation_id: int = 77, client_id: str = "admin-1"
) -> bytes:
    assert request.API_KEY is not None
    return encode_request_header(
        request.API_KEY, version, correlation_id, client_id
    ) + request.encode(version)


def forward(world: OwnWorld, request: EnvelopeRequest) -> Any:
    """The response envelope, or the PendingResponse."""
    context = world.context(0, "CONTROLLER")
    context.apis = controller_handlers()
    answer = envelope.handle(EnvelopeRequest.decode(request.encode(0), 0), context)
    if not isinstance(answer, PendingResponse):
        return over_the_wire(answer, 0)
    said: list[Message] = []
    answer.attach(said.append)
    return over_the_wire(said[0], 0) if said else answer


def wrapped(data: bytes, principal: bytes | None = ALICE, host: bytes = HOST) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)


def opened(answer: EnvelopeResponse, api_key: int, version: int) -> tuple[int, Any]:
    assert answer.error_code == 0 and answer.response_data is not None
    header, at = decode_response_header(api_key, version, answer.response_data)
    return header.correlation_id, response_type(api_key).decode(answer.response_data[at:], version)


def test_request_inside_runs_as_the_client(world: OwnWorld) -> None:
    correlation_id, answer = opened(forward(world, wrapped(frame(CREATE, 7))), 19, 7)
    assert correlation_id == 77 and answer.topics[0].error_code == 0
    node = Forwarder("User:ANONYMOUS", "127.0.0.1", "test")
    assert world.controller.askers == [
        Requester("User:alice", "10.0.0.7", "admin-1", True, "CONTROLLER", node)
    ]
    first, *others = world.authorizer.asked  # type: ignore[attr-defined]
    assert first == ("User:ANONYMOUS", "127.0.0.1", "CLUSTER_ACTION")
    assert {(principal, host) for principal, host, _ in others} == {("User:alice", "10.0.0.7")}


def test_permissions_of_the_forwarder_do_not_count_for_the_client(world: OwnWorld) -> None:
    world.authorizer.forbidden = {("User:alice", "CREATE")}  # type: ignore[arg-type]
    _, answer = opened(forward(world, wrapped(frame(CREATE, 7))), 19, 7)
    assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_unauthorized_envelope_is_refused_before_it_is_opened(world: OwnWorld) -> None:
    world.authorizer.forbidden = {("User:ANONYMOUS", "CLUSTER_ACTION")}  # type: ignore[arg-type]
    for request in (wrapped(frame(CREATE, 7)), wrapped(b"", None, b"")):
        answer = forward(world, request)
        assert (answer.error_code, answer.response_data) == (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            None,
        )
    assert not world.controller.askers


def test_not_controller_inside_becomes_the_error_of_the_envelope(world: OwnWorld) -> None:
    world.controller.is_active = False
    answer = forward(world, wrapped(frame(CREATE, 7)))
    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


def test_envelope_waits_for_the_response_inside(world: OwnWorld) -> None:
    world.controller.holds = True
    pending = forward(world, wrapped(frame(CREATE, 7)))
    assert (
        isinstance(pending, PendingResponse)
        and pending.deadline == 101.5
        and pending.expire is not None
    )
    _, answer = opened(over_the_wire(pending.expire(), 0), 19, 7)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    world.controller.release()
    assert pending.done


def test_closed_connection_cancels_the_request_inside(world: OwnWorld) -> None:
    world.controller.holds = True
    pending = forward(world, wrapped(frame(CREATE, 7)))
    pending.cancel()
    ((_, _, _, inner),) = world.controller._held
    assert inner.cancelled


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (wrapped(frame(CREATE, 7), principal=b"junk"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (wrapped(frame(CREATE, 7), principal=b""), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (wrapped(frame(CREATE, 7), principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (wrapped(frame(CREATE, 7), host=b"\x7f\0\0"), ErrorCode.INVALID_REQUEST),
        (wrapped(frame(CREATE, 7), host=b""), ErrorCode.INVALID_REQUEST),
        (wrapped(frame(CREATE, 7), host=bytes(1000)), ErrorCode.INVALID_REQUEST),
        (wrapped(b""), ErrorCode.UNSUPPORTED_VERSION),
        (wrapped(frame(CREATE, 7)[:9]), ErrorCode.UNSUPPORTED_VERSION),
        (wrapped(b"\x7f\xff" + frame(CREATE, 7)[2:]), ErrorCode.UNSUPPORTED_VERSION),
        (wrapped(frame(FetchRequest(), 17)), ErrorCode.INVALID_REQUEST),
        (wrapped(frame(wrapped(frame(CREATE, 7)), 0)), ErrorCode.INVALID_REQUEST),
        (
            wrapped(frame(CREATE, 7)[:2] + b"\x7f\xff" + frame(CREATE, 7)[4:]),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (wrapped(frame(CREATE, 7)[:-3]), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_invalid_envelope_has_kafkas_error(
    world: OwnWorld, request_: EnvelopeRequest, error: ErrorCode
) -> None:
    answer = forward(world, request_)
    assert (answer.error_code, answer.response_data) == (error, None)
    assert not world.controller.askers


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (bytes([192, 168, 0, 1]), "192.168.0.1"),
        (bytes(15) + b"\x01", "::1"),
        (bytes(10) + b"\xff\xff" + HOST, "10.0.0.7"),
    ],
)
def test_client_address_is_decoded(world: OwnWorld, address: bytes, host: str) -> None:
    forward(world, wrapped(frame(CREATE, 7), host=address))
    assert world.controller.askers[0].host == host


def test_request_inside_an_envelope_is_bounded_by_its_bytes(world: OwnWorld) -> None:
    context = world.context(0, "CONTROLLER")
    context.apis, context.element_budget = controller_handlers(), 10
    many = CreateTopicsRequest(topics=[CreatableTopic(name=f"t{number}") for number in range(1000)])
    answer = envelope.handle(wrapped(frame(many, 7)), context)
    assert not isinstance(answer, EnvelopeResponse) or answer.error_code == ErrorCode.NONE
    header = encode_request_header(19, 7, 1, "admin-1")
    dense = header + b"\x81\x10" + bytes(2048)  # 2048 topics of a byte each
    answer = envelope.handle(wrapped(dense), context)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_long_response_is_encoded_in_slices_and_then_put_into_the_envelope() -> None:
    header = RequestHeader(request_api_key=19, request_api_version=7, correlation_id=9)
    topics = [CreatableTopicResult(name=f"t{number}", error_code=36) for number in range(1000)]
    response = CreateTopicsResponse(topics=topics)
    whole = _sealed_whole(header, response).encode(0)
    streamed = _sealed(header, response)
    assert isinstance(streamed, Streamed) and streamed.wrap is not None
    encoder = StreamedEncoder(streamed, 7)
    while not encoder.run(time.perf_counter, 0.0):
        pass
    parts = encoder.take()
    assert b"".join(streamed.wrap(parts, encoder.errors, 0)) == whole
    (moved,) = (streamed.wrap(parts, {ErrorCode.NOT_CONTROLLER}, 0),)
    assert EnvelopeResponse.decode(b"".join(moved), 0).error_code == ErrorCode.NOT_CONTROLLER


def test_large_request_inside_an_envelope_is_decoded_in_a_thread(world: OwnWorld) -> None:
    context = world.context(0, "CONTROLLER")
    context.apis = controller_handlers()
    many = CreateTopicsRequest(topics=[CreatableTopic(name="t" * 200) for _ in range(500)])
    work: Any = envelope.handle(wrapped(frame(many, 7)), context)
    decode = next(work)
    assert callable(decode)
    with pytest.raises(StopIteration) as end:
        work.send(decode())
    assert isinstance(end.value.value, PendingResponse)


def test_envelope_is_served_on_controller_listeners_only(world: OwnWorld) -> None:
    from gateway.handlers.table import handlers

    assert envelope.API_KEY in controller_handlers() and envelope.API_KEY not in handlers()
    assert create_topics.api_key in envelope.FORWARDABLE


# --- what brokers of Kafka 4.3.1 and their controllers said
# ---------------------------------------------------------------


def captured() -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Every Envelope that a broker or a probe sent, and its answer."""
    waiting: dict[tuple[str, int, int], dict[str, Any]] = {}
    with lzma.open(SHARED / "wire" / "public.frames.jsonl.xz", "rt") as lines:
        for line in lines:
            one = json.loads(line)
            if one.get("api_key") != envelope.API_KEY:
                continue
            key = (one["scenario"], one["conn"], one["correlation_id"])
            if one["direction"] == "req":
                waiting[key] = one
            else:
                yield waiting.pop(key), one
    for left in waiting.values():
        yield left, None


@needs_shared
def test_captured_requests_are_opened() -> None:
    inside: Counter[str] = Counter()
    for request, answer in captured():
        data = bytes.fromhex(request["hex"])
        _, at = decode_request_header(data)
        world = OwnWorld()
        world.authorizer, world.raft = Asked(), Unasked()  # type: ignore[assignment]
        kwires = forward(world, EnvelopeRequest.decode(data[at:], 0))
        error = kwires.error_code if not isinstance(kwires, PendingResponse) else 0
        if answer is None:
            continue
        _, at = decode_response_header(envelope.API_KEY, 0, bytes.fromhex(answer["hex"]))
        kafkas = EnvelopeResponse.decode(bytes.fromhex(answer["hex"])[at:], 0)
        api_key = int.from_bytes(
            EnvelopeRequest.decode(data[decode_request_header(data)[1] :], 0).request_data[:2]
        )
        if kafkas.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            continue  # a matter of who was asked, and who asked
        if api_key in controller_handlers():
            assert error == kafkas.error_code, request
            inside[controller_handlers()[api_key].name] += 1
    assert len(inside) > 5 and inside.total() > 50, inside


@needs_shared
def test_captured_responses_are_encoded_byte_for_byte() -> None:
    written = 0
    for request, answer in captured():
        if answer is None:
            continue
        data, said = bytes.fromhex(request["hex"]), bytes.fromhex(answer["hex"])
        kafkas = EnvelopeResponse.decode(
            said[decode_response_header(envelope.API_KEY, 0, said)[1] :], 0
        )
        if kafkas.response_data is None:
            continue
        frame_inside = EnvelopeRequest.decode(
            data[decode_request_header(data)[1] :], 0
        ).request_data
        header, _ = decode_request_header(bytes(frame_inside))
        _, at = decode_response_header(
            header.request_api_key, header.request_api_version, kafkas.response_data
        )
        body = response_type(header.request_api_key).decode(
            kafkas.response_data[at:], header.request_api_version
        )
        assert (
            _sealed_whole(header, body).encode(0)
            == said[decode_response_header(envelope.API_KEY, 0, said)[1] :]
        )
        written += 1
    assert written > 80
