"""Sends the longest strings that the protocol allows in every field of every API."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.handlers.context import Handler
from gateway.handlers.table import controller_handlers, handlers
from kwire.message import Message, Struct
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.own_nodes import OwnNode, lone_node

#: The most bytes that a string of the protocol has, in letters of one byte and of three.
LONGEST = ("x" * 32767, "日" * 10922 + "x")
#: The topic that exists, and the value of all other strings.
TOPIC = "t"
#: Requests per field, each with other numbers.
TRIES = 2
#: The time after which a response is no longer awaited, s: joining a group may take longer.
ANSWER_S = 0.1
TABLES = {"PLAINTEXT": handlers(), "CONTROLLER": controller_handlers()}

Path_ = tuple[str, ...]


def string_fields(kind: type[Struct], version: int, above: Path_ = ()) -> Iterator[Path_]:
    """The paths of all fields that hold strings in this version."""
    for field in kind.fields():
        if field.at(version):
            path = (*above, field.attr)
            if field.is_struct:
                yield from string_fields(kind.struct_class(field.type), version, path)
            elif field.type == "string":
                yield path


def filled(
    kind: type[Struct],
    version: int,
    long: Mapping[Path_, str],
    rand: random.Random,
    above: Path_ = (),
) -> Any:
    """A struct with one element in every array, the strings of ``long`` where their paths say, and
    plausible values.
    """
    values: dict[str, object] = {}
    for field in kind.fields():
        if field.at(version):
            path = (*above, field.attr)
            if field.is_struct:
                made: object = filled(kind.struct_class(field.type), version, long, rand, path)
            else:
                made = (
                    long.get(path, TOPIC) if field.type == "string" else plausible(field.type, rand)
                )
            values[field.attr] = [made] if field.array else made
    return kind(**values)


def plausible(kind: str, rand: random.Random) -> object:
    match kind:
        case "bytes" | "records":
            return b""
        case "bool":
            return rand.random() < 0.5
        case "uuid":
            return bytes(16)
        case "float64":
            return 1.0
        case _:
            return rand.choice((0, 0, 1, 2, 3, 4, 16, 32))


def requests_of(handler: Handler, version: int) -> Iterator[bytes]:
    """Bodies with the longest string in one field, for each field, and in all fields."""
    kind = handler.request_type(version)
    paths = list(string_fields(kind, version))
    rand = random.Random(handler.api_key * 100 + version)
    for fields in [*([path] for path in paths), paths] if paths else []:
        for number in range(TRIES):
            message = filled(
                kind, version, dict.fromkeys(fields, LONGEST[number % len(LONGEST)]), rand
            )
            assert isinstance(message, Message)
            yield message.encode(version)


async def ask(node: OwnNode, listener: str, handler: Handler, version: int) -> None:
    client = await connect(node.ports[listener])
    try:
        for number, body in enumerate(requests_of(handler, version)):
            await client.send(
                request(
                    handler.api_key, version, body, number, client_id=LONGEST[number % len(LONGEST)]
                )
            )
            try:
                with trio.move_on_after(ANSWER_S) as waiting:
                    await client.frame()
                is_over = waiting.cancelled_caught  # it waits for other members
            except (AssertionError, trio.BrokenResourceError):
                is_over = True  # the server closed the connection
            if is_over:
                await client.stream.aclose()
                client = await connect(node.ports[listener])
    finally:
        await client.stream.aclose()


@pytest.mark.parametrize("listener", TABLES)
def test_requests_with_the_longest_strings_cause_no_internal_error(
    listener: str, tmp_path: Path
) -> None:
    failed = []

    async def main() -> None:
        async with lone_node(tmp_path) as node:
            assert await node.create(TOPIC) == 0
            counts = node.ready.reports.counts
            for handler in TABLES[listener].values():
                for version in handler.versions:
                    before = counts["internal error"]
                    await ask(node, listener, handler, version)
                    if counts["internal error"] > before:
                        failed.append((handler.name, version))
            assert await node.create("afterwards") == 0
            assert not [event for event in counts if "fail" in event or "held" in event], counts

    run(main)
    assert not failed, failed
