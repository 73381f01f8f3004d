"""Names that clients chose reach no output with a character that a terminal executes."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from gateway.base.address import Address
from gateway.cli import main, quorum_view, topic_causes
from gateway.cli.lines import note
from kwire.messages.topic_record import TopicRecord
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.handlers.mini_server import MiniServer, RealBatch, serving
from tests.gateway.handlers.world import MemoryPartition

NAME = "a\x9b31m\u202eb\x7fc\u2066d\ue000e"


def batch() -> bytes:
    value = encode_metadata_record(TopicRecord(name=NAME, topic_id=Uuid(bytes(15) + b"\7")), 0)
    return encode_batch([Record(offset=0, timestamp=5, value=value)], partition_leader_epoch=1)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch())
    return str(path)


@pytest.fixture
def server() -> Iterator[MiniServer]:
    data = batch()
    with serving(MemoryPartition([RealBatch(0, 0, 1, 5, len(data), data)])) as server:
        yield server


COMMANDS = {
    "decode": ("decode", "{log}"),
    "state": ("state", "{log}"),
    "lines of a state": ("state", "{log}", "-o", "lines"),
    "state of a server": ("state", "-b", "{server}"),
    "path that is not there": ("state", "{log}", "--path", "/topics/byName/none"),
    "diff": ("diff", "{log}@0", "{log}"),
    "tail": ("tail", "-b", "{server}", "--until-end"),
}


@pytest.mark.parametrize("output", ["json", "text", "tree"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_hidden_character(
    log: str, server: MiniServer, command: str, output: str
) -> None:
    at = f"127.0.0.1:{server.port}"
    arguments = [one.format(log=log, server=at) for one in COMMANDS[command]]
    if "-o" not in arguments:
        is_state = arguments[0] == "state"
        if output == ("text" if is_state else "tree"):
            pytest.skip("no form of this command")
        arguments += ["-o", output]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 1), result.output
    assert_shown(result.output)
    if output == "json" and result.exit_code == 0:
        assert NAME in names(result.stdout)


def names(text: str) -> set[str]:
    """Every string in JSON, also of one value over several lines."""
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, str):
            found.add(value)
        for one in value.items() if isinstance(value, dict) else ():
            walk(one)
        for one in value if isinstance(value, list | tuple) else ():
            walk(one)

    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        walk(value)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def assert_shown(text: str) -> None:
    """The name is there, and nothing in it is hidden."""
    assert "31m" in text
    assert not [one for one in text if unicodedata.category(one)[0] == "C" and one != "\n"]


def test_described_quorum_shows_no_hidden_character() -> None:
    node = SimpleNamespace(node_id=1, listeners=[SimpleNamespace(name=NAME, host="h", port=1)])
    voter = SimpleNamespace(
        replica_id=1,
        replica_directory_id=Uuid(bytes(16)),
        log_end_offset=1,
        last_fetch_timestamp=1,
        last_caught_up_timestamp=1,
    )
    partition = SimpleNamespace(
        leader_id=1, leader_epoch=1, high_watermark=1, current_voters=[voter], observers=[]
    )
    quorum: Any = SimpleNamespace(cluster_id="c", partition=partition, nodes=[node])
    assert_shown(quorum_view.status_text(quorum))


def test_controllers_that_a_broker_names_are_shown_on_one_line() -> None:
    listener = SimpleNamespace(host=f"h\n{NAME}", port=9093)

    async def call(*_: object, **__: object) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(listeners=[listener])])

    broker: Any = SimpleNamespace(
        address=Address("b1", 9092), common_version=lambda *_: 2, call=call
    )
    text = trio.run(topic_causes.missing, broker, CLUSTER_METADATA_TOPIC).message
    assert_shown(text)
    assert "\n" not in text


def test_notes_show_no_hidden_character(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"first {NAME}\nsecond")
    assert_shown(capsys.readouterr().err)
