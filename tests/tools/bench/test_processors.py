"""Clients and servers of a bench keep apart, and nothing stays pinned behind it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.bench.processors import pin_processors

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="processors can be chosen on Linux only"
)


def test_clients_and_servers_on_processors_of_their_own() -> None:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one processor is all there is")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        with pin_processors(server.pid):
            client = subprocess.run(
                [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
                capture_output=True,
                text=True,
                check=True,
            )
            assert {int(client.stdout)} == os.sched_getaffinity(0)
            assert len(os.sched_getaffinity(server.pid)) == 1
            assert os.sched_getaffinity(server.pid).isdisjoint(os.sched_getaffinity(0))
        assert os.sched_getaffinity(0) == before
        server.communicate(b"\n")


def test_one_processor_is_shared() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        with pin_processors(os.getpid()):
            assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)
