"""Registers brokers with a controller that are no processes, and sends their heartbeats.

A controller places partitions on them and fences them like real brokers. They read no metadata and
serve no clients: their listeners have a port on which no process listens.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.controller.features import SUPPORTED
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kwire.uuid import Uuid
from tools.admin import Admin
from tools.process import ProcessError
from tools.wire_client import WireClient

FIRST_ID: Final = 101
#: The interval of heartbeats, s (``broker.heartbeat.interval.ms``).
_BEAT_S: Final = 2.0
_TIMEOUT_S: Final = 120.0
_HEARTBEAT_VERSION: Final = 1
_REQUEST_TIMED_OUT: Final = 7
#: The last offset that each broker says it has read: larger than any.
_ALL: Final = 1 << 40


class SimulatedBrokers:
    """``epochs`` has the broker epoch of each broker, by id."""

    def __init__(
        self, controller: Callable[[], str], cluster_id: str, count: int, first_id: int = FIRST_ID
    ) -> None:
        """``controller`` returns the address of the active controller."""
        self._controller = controller
        self._cluster_id = cluster_id
        self.epochs: dict[int, int] = dict.fromkeys(range(first_id, first_id + count), -1)
        self._silent: set[int] = set()
        self._stop = threading.Event()

    def register(self) -> None:
        """Register and unfence all brokers, as soon as a controller is active. Raises AdminError,
        OSError, EOFError, ProcessError.
        """
        with Admin([self._controller()]) as admin, self._connect() as client:
            for broker_id in self.epochs:
                answer = admin.send(self._registration(broker_id))
                self.epochs[broker_id] = answer.broker_epoch
                self.heartbeat(broker_id, client=client)

    def heartbeat(
        self, broker_id: int, *, fence: bool = False, client: WireClient | None = None
    ) -> bool:
        """Send one heartbeat; whether the broker is fenced then. ``fence``: the broker wants to
        be; :meth:`run` then sends no heartbeats of it until one is sent here without ``fence``.
        """
        if fence:
            self._silent.add(broker_id)
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=_ALL,
            want_fence=fence,
        )
        with contextlib.ExitStack() as stack:
            client = client or stack.enter_context(self._connect())
            # A broker repeats a heartbeat that took the controller too long.
            answer: Any = client.call(request, _HEARTBEAT_VERSION)
            while answer.error_code == _REQUEST_TIMED_OUT:
                answer = client.call(request, _HEARTBEAT_VERSION)
        if answer.error_code:
            raise ProcessError(f"the heartbeat of {broker_id} is answered with {answer.error_code}")
        if not fence:
            self._silent.discard(broker_id)
        return bool(answer.is_fenced)

    def run(self) -> None:
        """Send heartbeats until :meth:`stop`, also while the controller is down or changes."""
        while not self._stop.wait(_BEAT_S):
            with (
                contextlib.suppress(OSError, EOFError, DecodeError, ProcessError),
                self._connect() as client,
            ):
                for broker_id in self.epochs:
                    if broker_id not in self._silent:
                        self.heartbeat(broker_id, client=client)

    def stop(self) -> None:
        """End :meth:`run`."""
        self._stop.set()

    def _connect(self) -> WireClient:
        return WireClient(self._controller(), _TIMEOUT_S)

    def _registration(self, broker_id: int) -> Message:
        features = [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ]
        listener = Listener(name="BROKER", host="127.0.0.1", port=1, security_protocol=0)
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=_id("incarnation", broker_id),
            listeners=[listener],
            features=features,
            log_dirs=[_id("directory", broker_id)],
        )


@contextlib.contextmanager
def simulated_brokers(
    controller: Callable[[], str], cluster_id: str, count: int, first_id: int = FIRST_ID
) -> Iterator[SimulatedBrokers]:
    """Register ``count`` brokers with ids from ``first_id`` on, and send their heartbeats in a
    thread for the duration of the block. Raises AdminError, OSError, EOFError, ProcessError.
    """
    brokers = SimulatedBrokers(controller, cluster_id, count, first_id)
    brokers.register()
    beats = threading.Thread(target=brokers.run, name="heartbeats", daemon=True)
    beats.start()
    try:
        yield brokers
    finally:
        brokers.stop()
        beats.join()


def _id(kind: str, broker_id: int) -> Uuid:
    return Uuid(f"{kind[:9]:>9}{broker_id:07d}".encode())
