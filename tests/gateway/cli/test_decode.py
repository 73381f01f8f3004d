"""``kwire decode`` against the truth that Kafka's own dump tool gave for the same files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli.decode import command
from tests.shared import LOG_NAMES, needs_shared


def truth_line(text: str) -> dict[str, Any]:
    """A line of truth without the sizes, which are not printed."""
    line: dict[str, Any] = json.loads(text)
    del line["keySize"], line["valueSize"]
    return line


def json_lines(text: str) -> list[str]:
    """Lines split at newlines only: strings hold other separators."""
    return text.removesuffix("\n").split("\n") if text else []


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_file_of_every_log_is_decoded_as_kafka_does(name: str, logs: Any) -> None:
    root: Path = logs(name)
    files = 0
    for truth in sorted((root / "truth").rglob("*.jsonl")):
        if truth.name.endswith(".batches.jsonl") or truth.name.startswith("state-"):
            continue
        node = truth.parent.name
        source = root / "nodes" / node / "__cluster_metadata-0" / truth.name.removesuffix(".jsonl")
        if not source.exists():
            source = root / "nodes" / node / source.name
        result = CliRunner().invoke(command, [str(source), "--show-secrets"])
        expected = [truth_line(line) for line in json_lines(truth.read_text(encoding="utf-8"))]
        assert [json.loads(line) for line in json_lines(result.stdout)] == expected, source
        assert result.exit_code == 0, result.stderr
        files += 1
    assert files > 0


def write(path: Path, *batches: bytes) -> Path:
    path.write_bytes(b"".join(batches))
    return path


def batch(offset: int, *values: bytes, control: bool = False) -> bytes:
    from kwire.records import Record, encode_batch

    records = [
        Record(offset=offset + i, timestamp=1000, key=None, value=value)
        for i, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=3, is_control=control)


def topic(name: str) -> bytes:
    from kwire.messages.topic_record import TopicRecord
    from kwire.records import encode_metadata_record

    return encode_metadata_record(TopicRecord(name=name), 0)


def secret() -> bytes:
    from kwire.messages.config_record import ConfigRecord
    from kwire.records import encode_metadata_record

    record = ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.keystore.password", value="hunter2"
    )
    return encode_metadata_record(record, 0)


def test_bad_record_is_a_line_with_an_error_and_decoding_continues(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", batch(0, topic("a"), b"\x01\x7f\x00", topic("b")))
    result = CliRunner().invoke(command, [str(path), "--show-secrets"])
    lines = [json.loads(line) for line in json_lines(result.stdout)]
    assert [line.get("type") for line in lines] == ["TOPIC_RECORD", None, "TOPIC_RECORD"]
    assert "127" in lines[1]["error"] and lines[1]["value"] == "AX8A"
    assert result.exit_code == 1


def test_incomplete_tail_and_damaged_middle_are_reported(tmp_path: Path) -> None:
    good, other = batch(0, topic("a")), batch(1, topic("b"))
    torn = CliRunner().invoke(command, [str(write(tmp_path / "torn.log", good, other[:-3]))])
    assert len(json_lines(torn.stdout)) == 1 and torn.exit_code == 1
    assert f"byte {len(good)}: ends inside a batch" in torn.stderr
    damaged = CliRunner().invoke(
        command, [str(write(tmp_path / "bad.log", good, other[:-1] + b"\xff", good))]
    )
    assert len(json_lines(damaged.stdout)) == 1 and damaged.exit_code == 1
    assert f"byte {len(good)}: damaged" in damaged.stderr


def test_secrets_are_hidden_without_show_secrets(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", batch(0, secret()))
    assert "hunter2" in CliRunner().invoke(command, [str(path), "--show-secrets"]).stdout
    hidden = CliRunner().invoke(command, [str(path)]).stdout
    assert "hunter2" not in hidden and "ssl.keystore.password" in hidden


def test_text_and_directories(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    write(directory / "00000000000000000000.log", batch(0, topic("first")))
    write(directory / "00000000000000000001.log", batch(1, topic("second")))
    for name in (tmp_path, directory):
        lines = json_lines(CliRunner().invoke(command, [str(name), "-o", "text"]).stdout)
        assert [
            "first" in lines[0],
            "second" in lines[1],
            "1970-01-01 00:00:01.000" in lines[0],
        ] == [True] * 3
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no *.log in it" in CliRunner().invoke(command, [str(empty)]).stderr


def test_closed_pipe_ends_the_command_without_a_message(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", *(batch(i, topic("t" * 200)) for i in range(2000)))
    command_line = [sys.executable, "-m", "gateway", "decode", str(path)]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["offset"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)


@pytest.mark.parametrize(
    "content", [b"hi\n", b"a text that is longer than the header of a batch " * 3, b"\x1f\x8b\x08"]
)
def test_file_that_was_never_a_log_is_called_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plain.txt"
    path.write_bytes(content)
    result = CliRunner().invoke(command, [str(path)])
    assert (result.exit_code, "is no Kafka log or snapshot" in result.stderr) == (1, True)
    assert "still being written" not in result.stderr


def test_empty_file_is_called_empty(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.touch()
    result = CliRunner().invoke(command, [str(path)])
    assert (result.exit_code, result.stdout, "is empty" in result.stderr) == (0, "", True)
