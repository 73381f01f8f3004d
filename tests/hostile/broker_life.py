"""A broker that registers and sends heartbeats to the active controller of a quorum."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.controller.features import SUPPORTED
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import made, offered
from tests.waiting import PATIENCE_S
from tools.own_quorum import OwnCluster
from tools.process import ProcessError
from tools.wire_client import WireClient

BROKER_ID: Final = 77
_BEAT_S: Final = 0.2
#: As if the broker had read everything.
_ALL: Final = 1 << 40


@dataclass
class BrokerLife:
    """The answers to the broker's heartbeats: whether each said that the broker is fenced."""

    fenced: list[bool] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@contextlib.contextmanager
def broker_life(cluster: OwnCluster) -> Iterator[BrokerLife]:
    """Register a broker, wait until it is unfenced, and send heartbeats during the block."""
    life, stop, serving = BrokerLife(), threading.Event(), threading.Event()

    def beat() -> None:
        epoch = _register(cluster)
        while not stop.wait(_BEAT_S):
            try:
                answer = _ask(cluster, _heartbeat(epoch), 1)
            except (OSError, EOFError, DecodeError, ProcessError) as error:
                life.errors.append(f"{type(error).__name__}: {error}")
                continue
            if answer.error_code == ErrorCode.REQUEST_TIMED_OUT:  # the machine is busy
                continue
            if answer.error_code:
                life.errors.append(f"error {answer.error_code}")
            elif not answer.is_fenced:
                serving.set()
            if serving.is_set():
                life.fenced.append(bool(answer.is_fenced))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        assert serving.wait(PATIENCE_S), f"the broker is not unfenced: {life.errors}"
        yield life
    finally:
        stop.set()
        thread.join()


def _register(cluster: OwnCluster) -> int:
    features = offered(dict(SUPPORTED))
    answer = _ask(
        cluster,
        made(
            "BrokerRegistrationRequest",
            broker_id=BROKER_ID,
            cluster_id=cluster.cluster_id,
            incarnation_id=Uuid(b"i" * 16),
            log_dirs=[Uuid(b"d" * 16)],
            listeners=[{"name": "BROKER", "host": "127.0.0.1", "port": 1, "security_protocol": 0}],
            features=features,
        ),
        4,
    )
    assert answer.error_code == 0
    return int(answer.broker_epoch)


def _heartbeat(epoch: int) -> Any:
    return made(
        "BrokerHeartbeatRequest",
        broker_id=BROKER_ID,
        broker_epoch=epoch,
        current_metadata_offset=_ALL,
    )


def _ask(cluster: OwnCluster, request: Any, version: int) -> Any:
    with WireClient(cluster.wait_for_leader().controller_address, PATIENCE_S) as client:
        return client.call(request, version)
