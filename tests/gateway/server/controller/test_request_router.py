"""Requests that the acting controller forwards to the leader, over real connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.base.address import Address
from gateway.security.principal import Principal, decode_principal
from gateway.server.controller import controller_forwarder
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.controller_registration_request import ControllerRegistrationRequest
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.protocol import ApiKey, ErrorCode
from tests.gateway.server.controller.acting_stage import (
    ASKER,
    VERSION,
    Stage,
    Waiting,
    acting,
    create,
    error_of,
    message_of,
)
from tests.gateway.server.harness import run
from tests.gateway.server.upstream_peer import API_VERSIONS, Asked, Node, listening
from tests.waiting import until_async

pytestmark = pytest.mark.usefixtures("one_slice_for_each_decision")
CREATE_TOPICS, ENVELOPE = ApiKey.CREATE_TOPICS, ApiKey.ENVELOPE
REGISTRATION = ApiKey.CONTROLLER_REGISTRATION
OFFER = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, max_version=newest)
        for key, newest in (
            (ApiKey.API_VERSIONS, 4),
            (CREATE_TOPICS, VERSION),
            (ENVELOPE, 0),
            (REGISTRATION, 0),
        )
    ]
)


def follow(stage: Stage, port: int, leader_id: int = 2) -> None:
    stage.driver.raft.leader_id, stage.address = leader_id, Address("127.0.0.1", port)


def answering(*errors: int) -> Callable[[Node], Any]:
    """A leader that answers CreateTopics with these errors in turn, and then with the last one."""
    rest = list(errors)

    async def script(node: Node) -> None:
        await node.greet(OFFER)
        while True:
            asked = await node.next()
            code = rest.pop(0) if len(rest) > 1 else rest[0]
            await node.send(asked.answer(answer_to(asked, code)))

    return script


def inside(asked: Asked) -> tuple[Any, CreateTopicsRequest]:
    """Header and body of the request in an envelope."""
    assert asked.key == ENVELOPE
    data = bytes(asked.message.request_data)
    header, at = decode_request_header(data)
    return header, CreateTopicsRequest.decode(data[at:], VERSION)


def answer_to(asked: Asked, code: int) -> EnvelopeResponse:
    """The response of Kafka's controller, which puts NOT_CONTROLLER into the envelope itself."""
    if code == ErrorCode.NOT_CONTROLLER:
        return EnvelopeResponse(error_code=code)
    header, request = inside(asked)
    body = CreateTopicsResponse(
        topics=[CreatableTopicResult(name=one.name, error_code=code) for one in request.topics]
    )
    head = encode_response_header(CREATE_TOPICS, VERSION, header.correlation_id)
    return EnvelopeResponse(response_data=head + body.encode(VERSION))


def refusing(code: int, data: bytes | None = None) -> Callable[[Node], Any]:
    """A leader that refuses every envelope."""

    async def script(node: Node) -> None:
        await node.greet(OFFER)
        while True:
            asked = await node.next()
            await node.send(asked.answer(EnvelopeResponse(error_code=code, response_data=data)))

    return script


async def silent(node: Node) -> None:
    await node.greet(OFFER)
    while True:
        await node.next()


def test_client_request_is_forwarded_to_the_leader_in_an_envelope() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(ErrorCode.INVALID_PARTITIONS)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a", validate_only=True)
            await until_async(lambda: pending.done)
            assert error_of(pending) == ErrorCode.INVALID_PARTITIONS
            [asked] = [one for one in leader.seen if one.key != API_VERSIONS]
            header, request = inside(asked)
            assert (header.request_api_version, request) == (
                VERSION,
                create("a", validate_only=True),
            )
            assert header.client_id == "test", "it is the client's request, not this node's"
            assert decode_principal(asked.message.request_principal) == Principal("User:alice")
            assert asked.message.client_host_address == bytes([10, 0, 0, 7])

    run(main)


def test_request_of_a_node_is_forwarded_without_an_envelope() -> None:
    async def main() -> None:
        stage = Stage()

        async def takes(node: Node) -> None:
            await node.greet(OFFER)
            await node.send((await node.next()).answer(ControllerRegistrationResponse()))

        async with listening(takes) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = Waiting()
            stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, pending)
            await until_async(lambda: pending.done)
            assert leader.seen[-1].key == REGISTRATION
            assert stage.acting.router.forwarding.forwarded == 0

    run(main)


@pytest.mark.parametrize(("code", "unauthorized"), [(31, 1), (97, 0), (42, 0), (35, 0), (999, 0)])
def test_forwarding_refused_by_the_leader_is_an_error_of_this_server(
    code: int, unauthorized: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(refusing(code)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until_async(lambda: pending.done)
            assert error_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
            assert stage.acting.router.forwarding.unauthorized == unauthorized
            assert stage.reports.counts["forwarding refused"] == 1

    run(main)
    named = "CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().err
    assert named == (code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("data", [None, b"", b"junk", bytes(12)])
def test_undecodable_envelope_response_times_out_with_unknown_outcome(data: bytes | None) -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(refusing(0, data)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until_async(lambda: pending.done)
            assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT, "it may have been carried out"

    run(main)


def test_forwarded_requests_are_counted_and_timed() -> None:
    async def main() -> None:
        stage = Stage()
        measures = stage.acting.router.forwarding
        async with listening(silent) as paused, listening(answering(0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, paused.port)
            first, second = stage.ask("a"), stage.ask("b")
            await until_async(lambda: len(paused.seen) == 2)
            assert (measures.queue_length, dict(measures.waiting)) == (2, {"test": 2})
            assert (measures.forwarded, measures.remote.percentile(0.99)) == (1, None)
            first.cancel()
            second.cancel()
            follow(stage, leader.port, leader_id=3)
            third = stage.ask("c")
            await until_async(lambda: third.done)
            assert (
                measures.remote.percentile(0.5) is not None
                and measures.queue.percentile(0.999) is not None
            )
            await until_async(lambda: measures.queue_length == 0)
            assert not measures.waiting

    run(main)


def test_waiting_requests_are_forwarded_once_a_leader_is_known() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(0)) as leader, acting(stage):
            laters = [stage.ask(name) for name in "ab"]
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            await until_async(lambda: all(pending.done for pending in laters))
            assert leader.connections == 1

    run(main)


def test_request_answered_with_not_controller_is_forwarded_again() -> None:
    async def main() -> None:
        stage = Stage()
        async with listening(answering(ErrorCode.NOT_CONTROLLER, 0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until_async(lambda: pending.done)
            assert error_of(pending) == 0

    run(main)


async def _closed_without_answer(node: Node) -> None:
    await node.next()
    await node.stream.aclose()


def test_unreachable_leader_is_tried_again_until_the_deadline_and_reported_once() -> None:
    async def main() -> None:
        stage = Stage()
        async with (
            listening(_closed_without_answer) as leader,
            listening(answering(0)) as next_leader,
            acting(stage),
        ):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending, late = stage.ask("a"), stage.ask("b")
            await until_async(lambda: len(leader.seen) >= 4)
            assert not pending.done, "nothing was done: it can be asked again"
            assert stage.reports.counts["request not forwarded"] == 1
            late.complete(CreateTopicsResponse())  # its deadline passed
            follow(stage, next_leader.port)
            await until_async(lambda: pending.done)
            assert error_of(pending) == 0
            assert [one.key for one in next_leader.seen].count(ENVELOPE) == 1

    run(main)


def test_request_whose_connection_was_closed_times_out_with_unknown_outcome() -> None:
    async def hangs_up(node: Node) -> None:
        await node.greet(OFFER)
        await node.next()

    async def main() -> None:
        stage = Stage()
        async with listening(hangs_up) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until_async(lambda: pending.done)
            assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT
            assert "not known" in message_of(pending)
            assert len([one for one in leader.seen if one.key == ENVELOPE]) == 1, (
                "never asked twice"
            )

    run(main)


def test_request_that_the_leader_does_not_support_is_unsupported_version() -> None:
    async def knows_nothing(node: Node) -> None:
        await node.greet(
            ApiVersionsResponse(api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, max_version=4)])
        )
        await node.next()

    async def main() -> None:
        stage = Stage()
        async with listening(knows_nothing) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, leader.port)
            pending = stage.ask("a")
            await until_async(lambda: pending.done)
            assert error_of(pending) == ErrorCode.UNSUPPORTED_VERSION

    run(main)


def test_request_to_a_paused_leader_times_out_soon_after_another_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_forwarder, "_GRACE_S", 0.05)

    async def main() -> None:
        stage = Stage()
        async with listening(silent) as paused, listening(answering(0)) as leader, acting(stage):
            await trio.testing.wait_all_tasks_blocked()
            follow(stage, paused.port)
            first, second = stage.ask("a"), stage.ask("b")
            await until_async(lambda: len(paused.seen) == 2)
            follow(stage, leader.port, leader_id=3)
            third = stage.ask("c")
            await until_async(lambda: first.done and second.done and third.done)
            assert sorted([error_of(first), error_of(second)]) == [
                0,
                ErrorCode.REQUEST_TIMED_OUT,
            ], "one left, the other did not"
            assert error_of(third) == 0

    run(main)


def test_request_after_the_end_waits_and_raises_nothing() -> None:
    async def main() -> None:
        stage = Stage()
        async with acting(stage):
            await trio.testing.wait_all_tasks_blocked()
        follow(stage, 1)
        assert not stage.ask("a").done

    run(main)
