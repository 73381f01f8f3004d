"""``kwire tail`` against the handlers, over a connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from gateway.base.address import Address
from gateway.cli import tail
from gateway.cli.server_options import Server
from gateway.cli.topic_reader import Fetched
from gateway.security.client_properties import ClientSecurity
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import (
    Record,
    decode_batches,
    decode_metadata_record,
    encode_batch,
    encode_metadata_record,
)
from tests.gateway.handlers.mini_server import MiniServer, RealBatch, serving
from tests.gateway.handlers.world import MemoryPartition
from tests.shared import needs_shared
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[MiniServer]:
    with serving() as server:
        yield server


def run(server: MiniServer, *arguments: str) -> Result:
    return CliRunner().invoke(tail.command, ["-b", f"127.0.0.1:{server.port}", *arguments])


def server_at(server: MiniServer) -> Server:
    return Server((Address("127.0.0.1", server.port),), ClientSecurity())


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def decoded(server: MiniServer) -> list[dict[str, Any]]:
    """The records of the log as they should be printed."""
    found = []
    for batch in decode_batches(b"".join(batch.data for batch in server.partition.batches)):
        if batch.header.is_control:
            continue
        for record in batch.records:
            name, version, message = decode_metadata_record(record.value or b"")
            head = {
                "offset": record.offset,
                "epoch": batch.header.partition_leader_epoch,
                "timestamp": record.timestamp,
            }
            found.append(
                head | {"type": name, "version": version, "data": message.to_json(version)}
            )
    return found


def one_record(value: bytes | None) -> MemoryPartition:
    data = encode_batch(
        [Record(offset=0, timestamp=5, key=None, value=value)], partition_leader_epoch=4
    )
    return MemoryPartition([RealBatch(0, 0, 4, 5, len(data), data)])


def test_until_end_prints_every_record_once_and_ends(server: MiniServer) -> None:
    assert lines(run(server, "--until-end", "--show-secrets")) == decoded(server)


def test_members_come_in_the_order_that_people_read(server: MiniServer) -> None:
    first = lines(run(server, "--until-end"))[0]
    assert list(first) == ["offset", "epoch", "timestamp", "type", "version", "data"]


def test_from_an_offset(server: MiniServer) -> None:
    expected = [line["offset"] for line in decoded(server) if line["offset"] >= 10]
    assert [
        line["offset"] for line in lines(run(server, "--until-end", "--from", "10"))
    ] == expected


def test_from_the_end_there_is_nothing_yet(server: MiniServer) -> None:
    assert lines(run(server, "--until-end", "--from", "end")) == []


@pytest.mark.parametrize("offset", ["100000", "-1", "soon"])
def test_an_offset_that_is_not_there_is_refused(server: MiniServer, offset: str) -> None:
    result = run(server, "--until-end", "--from", offset)
    assert result.exit_code != 0
    assert offset in result.output


def test_a_topic_that_is_not_there_is_refused(server: MiniServer) -> None:
    result = run(server, "--until-end", "--topic", "orders")
    assert (result.exit_code, "has no topic orders" in result.output) == (1, True)


def test_a_server_that_is_not_there_is_named() -> None:
    with serving() as server:
        pass
    result = CliRunner().invoke(tail.command, ["-b", f"127.0.0.1:{server.port}", "--until-end"])
    assert result.exit_code == 1
    assert f"127.0.0.1:{server.port}" in result.output


def test_following_continues_with_new_records(server: MiniServer) -> None:
    seen: list[int] = []
    end = server.partition.high_watermark
    data = encode_batch(
        [Record(offset=end, timestamp=1, key=None, value=b"\x01\x14\x00\x00")],
        base_offset=end,
        partition_leader_epoch=1,
    )

    def append_when_read() -> None:
        until(lambda: seen and seen[-1] >= end - 2, "the records before")
        server.partition.batches.append(
            RealBatch(end, end, server.partition.leader_epoch, 1, len(data), data)
        )

    class Enough(Exception):
        pass

    def take(record: Any) -> None:
        seen.append(record.offset)
        if record.offset == end:
            raise Enough

    threading.Thread(target=append_when_read, daemon=True).start()
    with pytest.raises(Enough):
        tail.follow(server_at(server), "__cluster_metadata", "beginning", False, take)
    assert seen == [line["offset"] for line in decoded(server)]


def test_secrets_are_hidden_without_show_secrets() -> None:
    secret = UserScramCredentialRecord(
        name="ann",
        mechanism=1,
        salt=b"salt",
        stored_key=b"stored",
        server_key=b"server",
        iterations=4096,
    )
    with serving(one_record(encode_metadata_record(secret, 0))) as server:
        (hidden,) = lines(run(server, "--until-end"))
        (shown,) = lines(run(server, "--until-end", "--show-secrets"))
    assert (
        hidden["data"]["salt"]
        == hidden["data"]["storedKey"]
        == hidden["data"]["serverKey"]
        == "(redacted)"
    )
    assert shown["data"]["salt"] == "c2FsdA=="
    assert (shown["epoch"], shown["timestamp"]) == (4, 5)


@needs_shared
def test_no_secret_of_a_real_log_is_printed(logs: Any) -> None:
    directory = logs("p-one-basic")
    log = (directory / "nodes" / "1" / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    truth = (
        (directory / "truth" / "1" / f"{0:020d}.log.jsonl").read_text(encoding="utf-8").split("\n")
    )
    true = {
        record["offset"]: record
        for record in map(json.loads, filter(None, truth))
        if "type" in record
    }
    hidden = 0
    for batch in decode_batches(log):
        for record in batch.records if not batch.header.is_control else []:
            seen = Fetched(0, 1, record.offset, record.timestamp, None, record.value)
            shown, data = json.dumps(tail.describe(seen, False)), true[record.offset]["data"]
            assert tail.describe(seen, True)["data"] == data
            name = str(data.get("name"))
            config = ["value"] if name.endswith(("password", "jaas.config")) else []
            for secret in filter(
                None, (data.get(member) for member in ["salt", "storedKey", "serverKey", *config])
            ):
                hidden += 1
                assert json.dumps(secret) not in shown
    assert hidden > 10


@pytest.mark.parametrize(("value", "encoded"), [(b"\x07junk", "B2p1bms="), (None, None)])
def test_record_that_cannot_be_decoded_has_an_error(
    value: bytes | None, encoded: str | None
) -> None:
    with serving(one_record(value)) as server:
        (hidden,) = lines(run(server, "--until-end"))
        (shown,) = lines(run(server, "--until-end", "--show-secrets"))
        text = run(server, "--until-end", "-o", "text").stdout
    assert hidden["error"] and "value" not in hidden and "type" not in hidden
    assert shown["value"] == encoded
    assert "cannot be decoded" in text


@pytest.mark.parametrize("options", [(), ("--no-ops",)])
def test_text_has_a_line_a_record_without_no_ops_unless_they_are_wanted(
    server: MiniServer, options: tuple[str, ...]
) -> None:
    result = run(server, "--until-end", "-o", "text", *options)
    assert result.exit_code == 0
    expected = decoded(server)
    if not options:
        expected = [one for one in expected if one["type"] != "NO_OP_RECORD"]
        assert len(expected) < len(decoded(server))
    printed = result.stdout.splitlines()
    assert len(printed) == len(expected)
    for line, record in zip(printed, expected, strict=True):
        assert line.split()[0] == str(record["offset"])
        assert f"{record['type']} v{record['version']}" in line


def test_an_epoch_that_the_client_does_not_know_is_null() -> None:
    record = Fetched(0, -1, 1, 2, None, b"\x01\x14\x00\x00")
    assert tail.describe(record, False)["epoch"] is None


@pytest.mark.parametrize("text", ["", "1.5", "-3", "0x10", "1e3", "9" * 40])
def test_malformed_start_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        tail.parse_start(text)
