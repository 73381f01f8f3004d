"""``kwire conform`` ends, and within 100 MiB, whatever the server sends and for however long."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from kwire.conformance.session import codec_versions
from kwire.protocol import ApiKey
from tests.kwire.conformance.scripted import Script
from tests.kwire.conformance.scripted import server as scripted
from tests.waiting import PATIENCE_S

_TIMEOUT_S: Final = 1.0
_WORKERS: Final = 32
_MEMORY_MAX_KIB: Final = 100 * 1024
_NOT_TRIED: Final = ("not offered", "not applicable", "not tried")
#: Rules that read, rules that make and share things, and rules of one API in all versions.
_RULES: Final = ("metadata", "fetch", "groups", "topics", "raft", "vote", "schema.Fetch.*")
_OFFERED: Final = {
    api: (codec_versions(api).start, codec_versions(api).stop - 1)
    for api in ApiKey
    if codec_versions(api)
}
#: The command, which at its end writes the most memory that the process had.
_PROGRAM: Final = """
import re, sys
from pathlib import Path
from gateway.cli import main
try:
    main()
finally:
    print(re.search("VmHWM:.*", Path("/proc/self/status").read_text())[0], file=sys.stderr)
"""
_RUBBISH: Final = random.Random(7).randbytes(1 << 16)
_MIB: Final = bytes(1 << 20)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="/proc tells the memory of a process on Linux"
)


def never_answers(connection: socket.socket, request: bytes) -> bool:
    return True


def answers_a_byte_a_second(connection: socket.socket, request: bytes) -> bool:
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack(">i", 1000))
        for byte in itertools.chain(request[4:8], itertools.repeat(0)):
            connection.sendall(bytes([byte]))
            time.sleep(1)
    return False


def answers_rubbish(connection: socket.socket, request: bytes) -> bool:
    size = 1 + len(request) * 97 % 5000
    connection.sendall(struct.pack(">i", 4 + size) + request[4:8] + _RUBBISH[-size:])
    return True


def sends_no_frames(connection: socket.socket, request: bytes) -> bool:
    connection.sendall(_RUBBISH[:5000])
    return True


def sends_a_frame_of_gigabytes(connection: socket.socket, request: bytes) -> bool:
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack(">i", 2_000_000_000) + request[4:8])
        for _ in range(2000):
            connection.sendall(_MIB)
    return False


def sends_large_frames_without_end(connection: socket.socket, request: bytes) -> bool:
    frame = struct.pack(">i", 8 << 20) + request[4:8] + _MIB * 7 + _MIB[4:]
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(frame)
    return False


def sends_small_frames_without_end(connection: socket.socket, request: bytes) -> bool:
    frame = struct.pack(">i", 60_000) + request[4:8] + bytes(59_996)
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(frame)
    return False


@pytest.mark.parametrize(
    "script",
    [
        never_answers,
        answers_a_byte_a_second,
        answers_rubbish,
        sends_no_frames,
        sends_a_frame_of_gigabytes,
        sends_large_frames_without_end,
        sends_small_frames_without_end,
    ],
)
def test_run_against_a_server_that_does_not_follow_the_protocol_ends_in_its_memory(
    script: Script, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    options = ["--timeout", str(_TIMEOUT_S), "--workers", str(_WORKERS), "--json", str(file)]
    options += [option for rule in _RULES for option in ("--rule", rule)]
    with scripted(script, _OFFERED) as target:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "conform", target.name, *options],
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    report = json.loads(file.read_text())
    tried = [one for one in report["results"] if one["outcome"] not in _NOT_TRIED]
    assert len(tried) >= 150
    assert "error" not in report["counts"]
    memory_kib = int(done.stderr.split("VmHWM:")[1].split()[0])
    assert memory_kib < _MEMORY_MAX_KIB
