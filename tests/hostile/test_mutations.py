"""Sends valid requests with random faults to every API: none causes an internal error."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import trio

from gateway.handlers.table import handlers
from kwire.message import Message, Struct
from tests.gateway.server.harness import Client, request
from tests.hostile.target import Target

#: Requests per API. Seeds are fixed, so that a failure can be repeated.
MUTATIONS = 60
#: The first ones stay valid, to reach the handler.
WHOLE = 10
EDGES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
#: The time after which a response is no longer awaited, s: joining a group may take longer.
ANSWER_S = 0.15


def filled(kind: type[Struct], version: int, rand: random.Random) -> Struct:
    """A struct with one element in every array and something in every field that exists at
    ``version``.
    """
    values: dict[str, object] = {}
    for field in kind.fields():
        if not field.at(version):
            continue
        made = value_of(kind, field.type, field.is_struct, version, rand)
        values[field.attr] = [made] if field.array else made
    return kind(**values)


def value_of(
    kind: type[Struct], name: str, is_struct: bool, version: int, rand: random.Random
) -> object:
    if is_struct:
        return filled(kind.struct_class(name), version, rand)
    if name == "string":
        return rand.choice(["__cluster_metadata", "g", ""])
    if name in ("bytes", "records"):
        return rand.randbytes(rand.randrange(20))
    if name == "bool":
        return rand.random() < 0.5
    if name == "uuid":
        return bytes(15) + bytes([rand.randrange(2)])
    if name == "float64":
        return rand.choice([0.0, float("nan"), float("inf")])
    return rand.choice([0, 1, 2, 100])


def mutations(api_key: int) -> Iterator[tuple[int, bytes]]:
    """(version, body): valid ones first, then with bytes changed, removed or inserted."""
    handler = handlers()[api_key]
    rand = random.Random(api_key)
    for number in range(MUTATIONS):
        version = handler.versions[number % len(handler.versions)]
        kind = handler.request_type(version)
        message = filled(kind, version, rand)
        assert isinstance(message, Message)
        body = bytearray(message.encode(version))
        for _ in range(min(number // WHOLE, 4)):
            if not body:
                break
            at = rand.randrange(len(body))
            match rand.randrange(4):
                case 0:
                    body[at] = rand.choice(EDGES)
                case 1:
                    del body[at:]
                case 2:
                    body[at:at] = rand.randbytes(3)
                case _:
                    body[at] ^= 1 << rand.randrange(8)
        yield version, bytes(body)


async def answered_or_closed(client: Client) -> None:
    with trio.move_on_after(ANSWER_S):
        try:
            await client.frame()
        except (AssertionError, trio.BrokenResourceError):
            return  # closed


@pytest.mark.parametrize("api_key", handlers())
def test_mutated_requests_cause_no_internal_error(
    api_key: int, server: Target, loop: Callable[..., None]
) -> None:
    async def main() -> None:
        before, bad = server.counts["internal error"], server.counts["bad request"]
        async with await server.connect() as bystander:
            for number, (version, body) in enumerate(mutations(api_key)):
                async with await server.connect() as client:
                    await server.assert_served(client)
                    await client.send(request(api_key, version, body))
                    await answered_or_closed(client)
                if number < WHOLE:
                    assert server.counts["bad request"] == bad, "a valid request was refused"
            await server.assert_served(bystander)
        assert server.counts["internal error"] == before

    loop(main)
