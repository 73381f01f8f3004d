"""Runs the documented commands that need a server at 127.0.0.1:9092 against a new quorum of one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.documented import blocks, commands
from tests.interop.clients import missing
from tests.waiting import PATIENCE_S
from tools.gateway_process import KWIRE, Gateway, gateway

pytestmark = pytest.mark.interop

_SERVER: Final = "127.0.0.1:9092"
_READING: Final = ("tail", "state", "quorum")
COMMANDS: Final = sorted(
    {
        tuple(words)
        for block in blocks()
        for words in commands(block)
        if _SERVER in words
        and (words[0] == "kcat" or (words[0] == "kwire" and words[1] in _READING))
        # tests/interop/test_audit.py runs these, behind changes that they have to show, and
        # test_data_topics.py those of a broker.
        and block.page not in ("docs/audit.md", "docs/broker.md")
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data: Path = tmp_path_factory.mktemp("quorum")
    with gateway("--source", "own", "--data-dir", str(data / "data")) as running:
        if shutil.which("kcat"):
            _write_a_record(running.bootstrap)
        yield running


def _write_a_record(bootstrap: str) -> None:
    """Do what the README does before it reads the topic."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("events", 3)])["events"].result(PATIENCE_S)
    write = ["kcat", "-b", bootstrap, "-P", "-t", "events"]
    subprocess.run(write, input="hello\n", text=True, timeout=PATIENCE_S, check=True)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_documented_command_succeeds_and_prints(server: Gateway, command: tuple[str, ...]) -> None:
    words = [server.bootstrap if word == _SERVER else word for word in command]
    if words[0] == "kwire":
        words[:1] = KWIRE
    elif shutil.which(words[0]) is None:
        missing(f"{words[0]} is not on the PATH")
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_pages_have_commands_for_a_server() -> None:
    assert {words[0] for words in COMMANDS} == {"kcat", "kwire"}
