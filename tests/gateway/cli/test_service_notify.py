"""``kwire serve`` tells systemd when it is ready and when it stops, over NOTIFY_SOCKET."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli import service_notify


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket of the service manager, which NOTIFY_SOCKET names."""
    if request.param == "abstract" and sys.platform != "linux":
        pytest.skip("abstract sockets are Linux's")
    name = str(tmp_path / "notify") if request.param == "path" else f"@kwire-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0"))
        sock.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield sock


def test_states_are_one_datagram_each(manager: socket.socket) -> None:
    service_notify.ready(["127.0.0.1:9092", "127.0.0.1:9093"])
    service_notify.stopping()
    assert manager.recv(1000) == b"READY=1\nSTATUS=Serves 127.0.0.1:9092, 127.0.0.1:9093"
    assert manager.recv(1000).split(b"\n")[0] == b"STOPPING=1"


@pytest.mark.parametrize("address", [None, "", "vsock:2:1234", "relative"])
def test_nothing_is_sent_without_an_address_of_systemd(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if address is None:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    else:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    service_notify.ready([])


def test_state_that_the_manager_does_not_take_is_an_error_and_never_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    with pytest.raises(OSError):
        service_notify.stopping()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "full"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "full"))
        with pytest.raises(BlockingIOError):
            for _ in range(100_000):  # the queue of the socket is bounded by the system
                service_notify.stopping()


def _serve(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "gateway", "serve", "--source", "sample",
            "--listeners", "PLAINTEXT://127.0.0.1:0", "--state-dir", str(tmp_path / "state"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_server_tells_that_it_is_ready_and_then_that_it_stops(
    manager: socket.socket, tmp_path: Path
) -> None:
    with _serve(tmp_path) as server:
        try:
            first = manager.recv(1000).decode()
            assert first.startswith("READY=1\nSTATUS=Serves 127.0.0.1:")
            host, _, port = first.rpartition(" ")[2].partition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
            server.send_signal(signal.SIGTERM)
            assert manager.recv(1000).startswith(b"STOPPING=1\n")
        finally:
            server.terminate()
        assert server.wait(30) == 0


def test_server_runs_although_systemd_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    with _serve(tmp_path) as server:
        assert server.stdout is not None and "ready" in server.stdout.readline()
        server.terminate()
        _, errors = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "NOTIFY_SOCKET cannot be used" in errors
