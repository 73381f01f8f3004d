"""Starts a real controller of Kafka on a copy of a rescued directory, and waits until it leads.

The copy has listeners of its own on loopback. It is started only where it is the only voter, so
that it connects to no node of the real cluster. It judges nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

import click

from gateway.log.files import quorum_state
from gateway.rescue.copies import Copy
from kwire.errors import DecodeError
from kwire.protocol import CLUSTER_METADATA_PARTITION

_START: Final = Path("bin") / "kafka-server-start.sh"
_PAUSE_S: Final = 0.1
_STOP_S: Final = 10.0
#: Lines of Kafka's output that an error repeats.
_LINES: Final = 15
_LISTENER: Final = "CONTROLLER"


def lead_with_kafka(clone: Path, copy: Copy, home: Path, timeout_s: float) -> int:
    """Return the epoch that Kafka's controller leads on the data directory ``clone``. Raises
    click.ClickException with the end of its output.
    """
    script = home / _START
    if not script.is_file():
        raise click.ClickException(f"{script} is not there: give the directory of a Kafka release")
    voters = copy.newest_voters
    others = [one for one in voters or () if one.id != copy.identity.node_id]
    if others:
        raise click.ClickException(
            f"voter {others[0].id} is another node: Kafka is started for a single voter only,"
            " because it would connect to the others"
        )
    properties = clone.with_name("server.properties")
    properties.write_text(_properties(clone, copy, _free_port()))
    output = clone.with_name("kafka.out")
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [str(script), str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LOG_DIR": str(clone.parent)},
            start_new_session=True,
        )
    try:
        return _wait(process, clone, copy, output, timeout_s)
    finally:
        _stop(process)


def _properties(clone: Path, copy: Copy, port: int) -> str:
    node_id, voters = copy.identity.node_id, copy.newest_voters
    name = next((name for one in voters or () for name in one.endpoints), _LISTENER)
    address = f"127.0.0.1:{port}"
    lines = [
        "process.roles=controller",
        f"node.id={node_id}",
        f"controller.listener.names={name}",
        f"listeners={name}://{address}",
        f"listener.security.protocol.map={name}:PLAINTEXT",
        f"log.dirs={clone}",
        f"controller.quorum.voters={node_id}@{address}"
        if voters is None
        else f"controller.quorum.bootstrap.servers={address}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _wait(
    process: subprocess.Popen[bytes], clone: Path, copy: Copy, output: Path, timeout_s: float
) -> int:
    deadline = time.monotonic() + timeout_s
    while True:
        epoch = _led_epoch(clone, copy)
        if epoch is not None:
            return epoch
        if process.poll() is not None:
            raise click.ClickException(f"Kafka ended with {process.returncode}: {_end(output)}")
        if time.monotonic() > deadline:
            raise click.ClickException(f"Kafka did not lead in {timeout_s:g} s: {_end(output)}")
        time.sleep(_PAUSE_S)


def _led_epoch(clone: Path, copy: Copy) -> int | None:
    """Return the epoch in which the node leads, by its ``quorum-state``."""
    path = clone / CLUSTER_METADATA_PARTITION / quorum_state.FILE_NAME
    with contextlib.suppress(OSError, DecodeError):
        _, state = quorum_state.read_quorum_state(path)
        before = copy.election.epoch if copy.election else -1
        if state.leader_id == copy.identity.node_id and state.leader_epoch > before:
            return int(state.leader_epoch)
    return None


def _end(output: Path) -> str:
    lines = output.read_text(errors="replace").splitlines()[-_LINES:]
    return "\n".join(lines) or "it printed nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that its script started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
            return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
