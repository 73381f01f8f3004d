"""Tells the service manager, systemd, that the server is ready or stops, as sd_notify(3) has it.

A state is one datagram to the socket that NOTIFY_SOCKET names. Without this variable nothing is
sent. Sockets of virtual machines (``vsock:``) are not supported, and there is no watchdog.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable


def ready(listeners: Iterable[str]) -> None:
    """Tell that the server accepts connections at ``listeners``. Raises OSError."""
    _send(f"READY=1\nSTATUS=Serves {', '.join(listeners)}")


def stopping() -> None:
    """Tell that the server finishes its requests and ends. Raises OSError."""
    _send("STOPPING=1\nSTATUS=Stops: waiting requests are answered")


def _send(state: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):  # a name in Linux's abstract namespace
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.sendto(state.encode(), address)
