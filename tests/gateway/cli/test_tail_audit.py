"""``kwire tail`` of the audit topic: changes as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import tail
from gateway.controller.apis import named_resources
from gateway.ports.services import AUDIT_TOPIC, Requester
from gateway.views.audit import Change, audit_value
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.records import Record, encode_batch
from tests.gateway.handlers.mini_server import MiniServer, RealBatch, serving
from tests.gateway.handlers.world import NODE, MemoryPartition

AT = 1_795_269_787_512


def value(name: str, client_id: str | None = "admin-1", count: int = 1) -> bytes:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=f"{name}{number or ''}") for number in range(count)]
    )
    change = Change(request, 7, Requester("User:alice", "10.0.0.7", client_id), NODE, 5, 30, 33, AT)
    return audit_value(change, "2026-11-21T14:03:07.512Z", named_resources(request))


def kept(values: Sequence[bytes]) -> Any:
    """``gateway.ports.services.Audit`` with a record for each value."""
    batches = []
    for offset, one in enumerate(values):
        data = encode_batch(
            [Record(offset=offset, timestamp=AT, value=one)], partition_leader_epoch=0
        )
        batches.append(RealBatch(offset, offset, 0, AT, len(data), data))
    return SimpleNamespace(nodes=[NODE], partition=MemoryPartition(batches))  # type: ignore[arg-type]


@pytest.fixture
def server() -> Iterator[MiniServer]:
    with serving() as server:
        server.audit = kept([value("orders"), b"\xff", b"[]", value("\x1b[2J", None, count=25)])
        yield server


def run(server: MiniServer, *arguments: str) -> Result:
    return CliRunner().invoke(
        tail.command,
        ["-b", f"127.0.0.1:{server.port}", "--topic", AUDIT_TOPIC, "--until-end", *arguments],
    )


def test_json_is_the_change_and_where_it_stands(server: MiniServer) -> None:
    result = run(server, "-o", "json")
    assert result.exit_code == 0, result.output
    first, torn, other, last = map(json.loads, result.stdout.splitlines())
    assert first == {
        "partition": 0,
        "offset": 0,
        "timestamp": AT,
        "change": json.loads(value("orders")),
    }
    assert (torn["offset"], "no JSON" in torn["error"], other["error"]) == (
        1,
        True,
        "no JSON object",
    )
    assert last["change"]["client_id"] is None


def test_text_is_a_line_for_people(server: MiniServer) -> None:
    result = run(server, "-o", "text")
    first, torn, _, last = result.stdout.splitlines()
    assert first.split() == [
        "0",
        "0",
        "2026-11-21",
        "14:03:07.512",
        "CreateTopics",
        "v7",
        "User:alice",
        "from",
        "10.0.0.7",
        "(admin-1)",
        "TOPIC:orders",
        "offsets",
        "30-33",
        "epoch",
        "5",
    ]
    assert "cannot be decoded" in torn
    assert "TOPIC:\\x1b[2J" in last and "and 5 more" in last and "\x1b[2J" not in last


@pytest.mark.parametrize(
    ("start", "offsets"), [("beginning", [0, 1, 2, 3]), ("2", [2, 3]), ("end", [])]
)
def test_audit_topic_is_read_from_the_start_position(
    server: MiniServer, start: str, offsets: list[int]
) -> None:
    result = run(server, "-o", "json", "--from", start)
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == offsets


def test_offset_out_of_range_is_refused(server: MiniServer) -> None:
    result = run(server, "--from", "5")
    assert (result.exit_code, "it goes from 0 to 4" in result.output) == (1, True)


def test_an_offset_is_of_one_partition(server: MiniServer) -> None:
    server.audit.nodes = [NODE, NODE + 1]
    result = run(server, "--from", "1")
    assert (result.exit_code, "2 partitions" in result.output) == (1, True)


@pytest.mark.parametrize(
    "told", [b"{}", b'{"api":1,"version":2,"principal":[],"host":0,"client_id":0,"resources":7}']
)
def test_json_that_is_no_audit_entry_is_printed_as_it_is(server: MiniServer, told: bytes) -> None:
    server.audit = kept([told])
    result = run(server, "-o", "text")
    assert (result.exit_code, result.stdout.split(None, 4)[4].strip()) == (
        0,
        json.dumps(json.loads(told)),
    )


def test_a_server_without_it(server: MiniServer) -> None:
    server.audit = None
    result = run(server)
    assert (result.exit_code, f"has no topic {AUDIT_TOPIC}" in result.output) == (1, True)
