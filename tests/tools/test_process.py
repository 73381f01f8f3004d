"""Child processes: told when ready, stopped by their own id, with their last words in the error."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, until
from tools.process import (
    Process,
    ProcessError,
    accepts,
    cpu_seconds,
    free_ports,
    lasting_ports,
    memory_mib,
)

_OBEDIENT = "import time; print('up', flush=True); time.sleep(600)"
_STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + _OBEDIENT
#: Prints lasting ports that would be the same in each process.
_FIRST_PORTS = (
    "import random, time; random.sample = lambda population, count: sorted(population);"
    " from tools.process import lasting_ports; print(lasting_ports(3), flush=True); time.sleep(600)"
)


def child(program: str, tmp_path: Path) -> Process:
    return Process("child", [sys.executable, "-c", program], tmp_path / "out")


def test_ready_then_stopped(tmp_path: Path) -> None:
    process = child(_OBEDIENT, tmp_path)
    process.wait_until(lambda: "up" in process.output_end(), PATIENCE_S)
    assert process.running()
    assert memory_mib(process.pid) > 1
    assert process.stop() == -signal.SIGTERM
    assert not process.running()


def test_processor_time_of_a_child_is_what_it_used(tmp_path: Path) -> None:
    busy = (
        "import time\nwhile time.process_time() < 0.3: pass\n"
        "print(time.process_time(), flush=True)\ntime.sleep(600)"
    )
    process = child(busy, tmp_path)
    until(lambda: process.output_end().endswith("\n"), "the child has used some processor time")
    assert cpu_seconds(process.pid) == pytest.approx(float(process.output_end()), abs=0.1)
    process.stop()


def test_child_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    process = child(_STUBBORN, tmp_path)
    process.wait_until(lambda: "up" in process.output_end(), PATIENCE_S)
    assert process.stop(timeout_s=0.2) == -signal.SIGKILL


def test_early_end_is_reported_with_the_last_output(tmp_path: Path) -> None:
    process = child("import sys; sys.exit('no such file: cluster.id')", tmp_path)
    with pytest.raises(ProcessError, match=r"ended with 1:\nno such file: cluster\.id"):
        process.wait_until(lambda: False, PATIENCE_S)


def test_child_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    process = child(_OBEDIENT, tmp_path)
    with pytest.raises(ProcessError, match="was not ready after 0 s"):
        process.wait_until(lambda: False, 0.1)
    process.kill()


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        assert not accepts("127.0.0.1", port)
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))


def test_lasting_ports_are_none_that_an_outgoing_connection_may_have() -> None:
    ports = lasting_ports(5)
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == 5
    assert all(port < low and not accepts("127.0.0.1", port) for port in ports)


def test_a_lasting_port_is_given_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be down just now; by chance alone two of hundreds of servers would meet."""
    monkeypatch.setattr("random.sample", lambda population, count: sorted(population))
    ports = [port for _ in range(5) for port in lasting_ports(2)]
    assert len(set(ports)) == 10


def test_processes_that_live_give_different_lasting_ports(tmp_path: Path) -> None:
    """Servers of one of them may be down just now, or not be started yet."""
    children = [
        Process(f"child {name}", [sys.executable, "-c", _FIRST_PORTS], tmp_path / name)
        for name in ("first", "second")
    ]
    try:
        for one in children:
            one.wait_until(lambda: all("]" in it.output_end() for it in children), PATIENCE_S)
        ports = [port for one in children for port in json.loads(one.output_end())]
    finally:
        for one in children:
            one.kill()
    assert len(set(ports)) == 6


def test_paused_child_prints_nothing_until_it_resumes_and_can_be_stopped(tmp_path: Path) -> None:
    process = child(
        "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)", tmp_path
    )
    process.wait_until(lambda: "tick" in process.output_end(), PATIENCE_S)
    process.pause()
    until(lambda: _state(process) == "T", "the child is paused")
    said = len(process.output_end())
    assert _state(process) == "T" and len(process.output_end()) == said
    process.resume()
    until(lambda: len(process.output_end()) > said, "the child goes on")
    process.pause()
    assert process.stop() == -signal.SIGTERM


def _state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
