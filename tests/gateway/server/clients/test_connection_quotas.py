"""Connection quotas: the connections that a new one displaces, and the time that an unproven one
may stay.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass
from typing import Any, cast

import pytest
import trio

from gateway.config.config import Config, ConfigError, Listener
from gateway.config.loading import load_config
from gateway.handlers.context import Peer
from gateway.handlers.table import handlers
from gateway.server.clients.client_identity import UNPROVEN_REQUESTS_MAX
from gateway.server.clients.connection_quotas import ConnectionQuotas
from kwire.messages.api_versions_request import ApiVersionsRequest
from tests.gateway.server.harness import ECHO, request, run, serving
from tests.waiting import until_async

API_VERSIONS = 18
CLIENTS = (Listener("BROKER", "127.0.0.1", 0), Listener("OTHER", "127.0.0.1", 0))
CONTROLLER = Listener("CONTROLLER", "127.0.0.1", 0)


@dataclass(eq=False)
class Fake:
    """The attributes of a connection that the quotas read."""

    peer: Peer
    accepted_at: float
    moved_at: float


class Case:
    """Quotas of a server with two listeners for clients and one for controllers, and a clock."""

    def __init__(self, limit: int, **security: str) -> None:
        keys = {f"listener.name.{name}.max.connections": value for name, value in security.items()}
        config = Config(
            listeners=(*CLIENTS, CONTROLLER),
            source="own",
            security=keys,
            listener_security_protocol_map=dict.fromkeys(
                ("BROKER", "OTHER", "CONTROLLER"), "PLAINTEXT"
            ),
            max_connections_per_ip=50,
            max_connections_per_ip_overrides={"10.0.0.9": 2},
        )
        self.quotas, self.now = ConnectionQuotas(config, limit, ("CONTROLLER",)), 0.0

    def open(self, listener: str, *, proven: bool = True, host: str = "10.0.0.1") -> Fake:
        self.now += 1
        made = Fake(Peer(listener, "User:ANONYMOUS", host, 1, int(self.now)), self.now, self.now)
        self.quotas.add(cast(Any, made))
        if proven:
            self.quotas.proved(cast(Any, made))
        return made

    def victim(self, listener: str, host: str = "10.0.0.1") -> Any:
        over = self.quotas.exceeded(listener, host)
        return "room" if over is None else self.quotas.victim(over, listener)


def test_client_beyond_the_limit_displaces_the_oldest_unproven_client_and_no_other() -> None:
    case = Case(4)
    case.open("CONTROLLER", proven=False)
    case.open("BROKER")
    first, second = case.open("OTHER", proven=False), case.open("BROKER", proven=False)
    assert case.victim("BROKER") is first
    case.quotas.proved(cast(Any, first))
    assert case.victim("BROKER") is second
    case.quotas.proved(cast(Any, second))
    assert case.victim("BROKER") is None, "a connection of a node that is being authenticated stays"


def test_node_of_the_quorum_displaces_an_unproven_connection_else_the_longest_idle_client() -> None:
    case = Case(4)
    node, old, idle = case.open("CONTROLLER"), case.open("BROKER"), case.open("BROKER")
    unproven = case.open("CONTROLLER", proven=False)
    assert case.victim("CONTROLLER") is unproven
    case.quotas.proved(cast(Any, unproven))
    old.moved_at = 100
    assert case.victim("CONTROLLER") is idle
    case.quotas.remove(cast(Any, idle))
    assert case.victim("CONTROLLER") == "room"
    case.open("CONTROLLER")
    assert case.victim("CONTROLLER") is old
    case.quotas.remove(cast(Any, old))
    case.open("CONTROLLER")
    assert case.victim("CONTROLLER") is node, "no clients are left"


def test_unproven_connections_at_a_controller_listener_displace_each_other_first() -> None:
    case = Case(1000)
    first, *_ = [
        case.open("CONTROLLER", proven=False, host=f"10.2.0.{number}") for number in range(99)
    ]
    assert case.victim("CONTROLLER") == "room"
    case.open("CONTROLLER", proven=False)
    assert case.victim("CONTROLLER") is first
    assert case.victim("BROKER") == "room"


def test_limit_of_a_listener_holds_for_it_alone_and_not_against_nodes_of_the_quorum() -> None:
    case = Case(100, broker="2", controller="1")
    case.open("BROKER")
    assert case.victim("BROKER") == "room"
    case.open("BROKER")
    assert case.quotas.exceeded("BROKER", "10.0.0.1") == "listener.name.broker.max.connections"
    assert case.victim("BROKER") is None and case.victim("OTHER") == "room"
    node = case.open("CONTROLLER")
    assert case.victim("CONTROLLER") is node


def test_limit_of_an_address_has_overrides_and_displaces_no_connection() -> None:
    case = Case(100)
    for _ in range(2):
        case.open("BROKER", proven=False, host="10.0.0.9")
        case.open("BROKER", proven=False)
    assert case.quotas.exceeded("BROKER", "10.0.0.9") == "max.connections.per.ip"
    assert case.victim("BROKER", "10.0.0.9") is None and case.victim("BROKER") == "room"


def test_random_connections_leave_nothing_behind_and_never_exceed_the_limit() -> None:
    rng, case, alive = random.Random(5), Case(20), list[Fake]()
    for _ in range(3000):
        listener = rng.choice(["BROKER", "OTHER", "CONTROLLER"])
        found = case.victim(listener)
        if isinstance(found, Fake):
            case.quotas.remove(cast(Any, found))
            alive.remove(found)
            assert case.victim(listener) == "room"
        if found is not None:
            alive.append(case.open(listener, proven=rng.random() < 0.5))
        assert listener != "CONTROLLER" or found is not None, "nodes of the quorum are let in"
        assert len(alive) <= 20
        if rng.random() < 0.3:
            gone = alive.pop(rng.randrange(len(alive)))
            case.quotas.remove(cast(Any, gone))
            case.quotas.remove(cast(Any, gone))
        rng.choice(alive).moved_at = case.now if alive else 0
    for one in alive:
        case.quotas.remove(cast(Any, one))
    assert (
        not case.quotas._all
        and not case.quotas._per_host
        and not any(case.quotas._unproven.values())
    )


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("listener.name.broker.max.connections", "0", "not a whole number from 1 on"),
        ("listener.name.broker.max.connections", "many", "not a whole number from 1 on"),
        ("max.connections.per.ip.overrides", "example.org:5", "is not ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "10.0.0.1:-5", "is not ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "10.0.0.1", "is not ADDRESS:NUMBER"),
    ],
)
def test_invalid_limit_is_refused_at_the_start(key: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_config(flags={key: value})


def test_overrides_are_written_as_in_kafka() -> None:
    config = load_config(
        flags={"max.connections.per.ip.overrides": "127.0.0.1:200, [::1]:3 ,10.0.0.1:0"}
    )
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 200, "::1": 3, "10.0.0.1": 0}
    assert (
        load_config(flags={"max.connections.per.ip.overrides": ""}).max_connections_per_ip_overrides
        == {}
    )


def bad_versions() -> bytes:
    body = ApiVersionsRequest(client_software_name="no name!", client_software_version="1").encode(
        3
    )
    return request(API_VERSIONS, 3, body)


def test_connection_without_a_valid_request_is_closed_in_bounded_time_and_others_stay() -> None:
    async def main() -> None:
        async with (
            serving(first_request_timeout_ms=300) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            silent, busy, proven = [
                await stack.enter_async_context(await server.connect()) for _ in range(3)
            ]
            await proven.ask(1)
            await silent.closed()
            await busy.closed()
            assert server.server_context.counts.cuts["first.request.timeout.ms"] == 2
            await trio.sleep(0.4)
            await proven.ask(2)

    run(main)


@pytest.mark.parametrize(
    "bad", [bad_versions(), request(API_VERSIONS, 99, b"")], ids=["bad name", "unknown version"]
)
def test_unproven_connection_gets_a_bounded_number_of_responses(bad: bytes) -> None:
    async def main() -> None:
        async with (
            serving(ECHO, handlers()[API_VERSIONS]) as server,
            await server.connect() as client,
        ):
            await client.send(bad * 2000)
            answers = await client.closed()
            assert 0 < answers.count(answers[:8]) <= UNPROVEN_REQUESTS_MAX
            await until_async(
                lambda: server.server_context.counts.cuts["requests without authentication"] == 1
            )
            assert (
                server.server_context.counts.apis[API_VERSIONS].buckets
                and sum(server.server_context.counts.apis[API_VERSIONS].buckets) <= 20
            )

    run(main)


def test_proven_connection_may_send_api_versions_without_limit() -> None:
    async def main() -> None:
        async with (
            serving(ECHO, handlers()[API_VERSIONS]) as server,
            await server.connect() as client,
        ):
            await client.ask(1)
            for _ in range(2 * UNPROVEN_REQUESTS_MAX):
                await client.send(bad_versions())
                await client.answer(API_VERSIONS, 3)
            await client.ask(2)

    run(main)
