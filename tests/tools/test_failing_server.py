"""A process fails as the files beside its configuration say, and works again without them."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.failing_server import full, slow, step
from tools.kafka_files import Node

#: Writes to two files, and says what failed, how long the sleeps were, and what time it is.
_SCRIPT = """
import json, os, sys, time
from tools.failing_server import prepare

directory = sys.argv[1]
prepare(["", "", "", "", "serve", "--config", directory + "/server.properties"])
slept = []
time.sleep = slept.append
failed = {}
for name in ("full", "other"):
    path = f"{directory}/{name}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"x", 0)
        os.fsync(fd)
    except OSError as error:
        failed[name] = error.errno
print(json.dumps([failed, slept, time.time()]))
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(1, ("broker",), tmp_path)


def run(node: Node) -> tuple[dict[str, int], list[float], float]:
    """Return the failures, the sleeps, and the time of a process less that of this one."""
    line = [sys.executable, "-c", _SCRIPT, str(node.directory)]
    began = time.time()
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    failed, slept, now = json.loads(done.stdout)
    return failed, slept, now - began


def test_full_disk_refuses_writes_and_new_files_of_its_part_alone(node: Node) -> None:
    with full(node, "/full"):
        assert run(node)[0] == {"full": errno.ENOSPC}
        assert not (node.directory / "full").exists(), "creating it failed already"
    (node.directory / "full").touch()
    with full(node, "/full"):
        assert run(node)[0] == {"full": errno.ENOSPC}
        assert (node.directory / "full").read_bytes() == b""
    assert run(node)[:2] == ({}, [])


def test_slow_disk_delays_each_write_and_sync(node: Node) -> None:
    with slow(node, 0.25):
        assert run(node)[:2] == ({}, [0.25] * 4)


def test_clock_of_a_process_is_stepped(node: Node) -> None:
    run(node)
    step(node, -7200)
    assert run(node)[2] < 0
    step(node, 0)
    assert run(node)[2] >= 0
