"""``kwire serve`` as a process: the ready line, signals, exit statuses, and every key as a flag."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import COMMANDS, main
from gateway.cli.serve_help import GROUPS, group_of
from gateway.config.keys import KEYS
from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tools.loop_reports import loop_reports

SERVE = [sys.executable, "-m", "gateway", "serve"]


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_server_outlives_its_test() -> Iterator[None]:
    """A test that fails before it stops its server leaves none behind."""
    yield
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
        assert process.stderr is not None
        if not process.stderr.closed:
            loop_reports.read("kwire serve", process.communicate()[1])


def start(state: Path, *arguments: str, **how: Any) -> subprocess.Popen[str]:
    command = [
        *SERVE,
        "--listeners",
        "PLAINTEXT://127.0.0.1:0",
        "--state-dir",
        str(state),
        *(arguments or ("--source", "sample")),
    ]
    process: subprocess.Popen[str] = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    )
    _started.append(process)
    return process


def processor_time_of_children() -> float:
    """Seconds that the child processes that have ended took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ends(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=60)
    loop_reports.read("kwire serve", err)
    assert process.returncode == status, err
    return out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_ready_line_then_a_signal_ends_it_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = processor_time_of_children()
    process = start(tmp_path)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert (ready["event"], ready["pid"], ready["high_watermark"]) == ("ready", process.pid, 1057)
    assert Path(ready["directory"], "__cluster_metadata-0").is_dir()
    host, port = ready["listeners"]["PLAINTEXT"].split(":")
    socket.create_connection((host, int(port))).close()
    process.send_signal(number)
    out, err = ends(process)
    # Processor time: how long it takes by the clock is a matter of what else the machine does.
    assert processor_time_of_children() - before < 10
    assert out == ""
    for line in err.splitlines():
        json.loads(line)


def test_a_parked_fetch_is_answered_before_the_end(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    host, port = ready["listeners"]["PLAINTEXT"].split(":")
    partition = FetchPartition(
        partition=0, fetch_offset=ready["high_watermark"], partition_max_bytes=1000
    )
    topics = [FetchTopic(topic="__cluster_metadata", partitions=[partition])]
    body = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics).encode(12)
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(frame(encode_request_header(1, 12, 77, "c"), body))
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        answer = client.recv(1000)
        assert answer[4:8] == (77).to_bytes(4, "big")
        assert client.recv(1000) == b""
    ends(process)


def test_people_get_a_sentence(tmp_path: Path) -> None:
    terminal, descriptor = pty.openpty()
    command = [
        *SERVE,
        "--source",
        "sample",
        "--listeners",
        "PLAINTEXT://127.0.0.1:0",
        "--state-dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=descriptor, stderr=subprocess.PIPE, text=True)
    os.close(descriptor)
    said = ""
    while "try:" not in said:
        said += os.read(terminal, 1000).decode()
    process.send_signal(signal.SIGTERM)
    loop_reports.read("kwire serve", process.communicate(timeout=60)[1])
    assert process.returncode == 0
    assert (
        "kwire is ready at 127.0.0.1:" in said
        and "offsets 0 to 1057" in said
        and "kcat -b 127.0.0.1:" in said
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--log-dir", "/nowhere/at/all"], {}, "log.dirs"),
        (["--max-connections", "many"], {}, "max.connections"),
        (["--listeners", "SSL://127.0.0.1:0"], {}, "ssl.keystore.location"),
        ([], {"KWIRE_NODE_ID": "x"}, "node.id (KWIRE_NODE_ID)"),
        ([], {"KWIRE_MAX_CONECTIONS": "1"}, "KWIRE_MAX_CONNECTIONS"),
        (["--config", "/nowhere.properties"], {}, "/nowhere.properties"),
        (["--no-such-key"], {}, "--no-such-key"),
    ],
)
def test_bad_configuration_ends_with_2_and_names_the_key(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    process = start(tmp_path, *arguments, env=os.environ | environment)
    out, err = ends(process, 2)
    assert out == ""
    assert says in err
    assert "Traceback" not in err


def test_a_state_directory_in_use_ends_with_2(tmp_path: Path) -> None:
    first = start(tmp_path)
    assert first.stdout is not None
    first.stdout.readline()
    _, err = ends(start(tmp_path), 2)
    assert "state.dir" in err and "Traceback" not in err
    first.terminate()
    ends(first)


def test_check_config_exits_with_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://127.0.0.1:9092\nmax.connections=10\n")
    good = CliRunner().invoke(main, ["serve", "--config", str(file), "--check-config"])
    assert (good.exit_code, good.output) == (0, "The configuration is good.\n")
    file.write_text("listenrs=PLAINTEXT://127.0.0.1:9092\n")
    bad = CliRunner().invoke(main, ["serve", "--config", str(file), "--check-config"])
    assert bad.exit_code == 2
    assert "did you mean listeners?" in bad.output


def test_every_key_is_a_flag_with_help() -> None:
    said = CliRunner().invoke(main, ["serve", "--help"], terminal_width=120).output
    lines = [line.split() for line in said.splitlines()]
    flags = {word.rstrip(",") for words in lines for word in words if word.startswith("--")}
    assert {f"--{key.name.replace('.', '-')}" for key in KEYS.values()} <= flags
    told = " ".join(said.split())
    for key in KEYS.values():
        assert all(word in told for word in key.help.split() if "-" not in word), key.name


def test_commands_are_listed_and_imported_one_by_one() -> None:
    said = CliRunner().invoke(main, ["--help"]).output
    assert all(name in said for name in COMMANDS)
    code = (
        "import sys; from gateway.cli import main; main(['serve', '--help'],"
        " standalone_mode=False);print([name for name in ('trio', 'rich', 'kafka', 'construct') if"
        " name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_unknown_commands_are_refused() -> None:
    result = CliRunner().invoke(main, ["server"])
    assert result.exit_code == 2
    assert "server" in result.output


def test_help_has_every_key_in_a_group() -> None:
    groupless = [key.name for key in KEYS.values() if group_of(key.name) is None]
    assert not groupless
    text = CliRunner().invoke(main, ["serve", "--help"]).output
    assert [title for title in GROUPS if f"\n{title}:\n" not in text] == []
    assert sum(line.startswith("  --") for line in text.splitlines()) >= len(KEYS) + 2


@pytest.mark.parametrize(
    ("word", "guess"), [("serv", "Did you mean serve?"), ("stat", "state"), ("zzz", "'zzz'")]
)
def test_unknown_command_gets_a_guess(word: str, guess: str) -> None:
    result = CliRunner().invoke(main, [word])
    assert (result.exit_code, guess in result.stderr) == (2, True)
    assert ("Did you mean" in result.stderr) == (word != "zzz")
