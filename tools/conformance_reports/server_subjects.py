"""Lists the servers of the page, each with a function that starts it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from kwire.protocol import ApiKey
from tools import java
from tools.gateway_process import gateway
from tools.kafka import Cluster, kafka
from tools.other_servers import build
from tools.other_servers.servers import kfake, mock_cluster

#: Settings of Kafka that make rules wait less: a rule of sessions waits for the end of one, rules
#: of snapshots look at one.
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.log.max.snapshot.interval.ms": "3000",
}
#: Metadata has topic ids, which Fetch needs from version 13 on, from version 10 on.
_MOCK_HIGHEST: Final = {ApiKey.METADATA: 8, ApiKey.FETCH: 12}


class Started(Protocol):
    """A running server."""

    @property
    def bootstrap(self) -> str: ...
    def running(self) -> bool: ...
    def why_it_ended(self) -> str: ...


@dataclass(frozen=True)
class _Lasting:
    """A server that raises if it ends by itself."""

    bootstrap: str

    def running(self) -> bool:
        return True

    def why_it_ended(self) -> str:
        return ""


@dataclass(frozen=True)
class Subject:
    """A server of the page. ``name`` is a word for the command line, ``title`` a heading.

    ``highest``: the highest versions that the server has right, of APIs that rules need on the way
    to what they are about. Rules that failed for a later version are run again with these.
    """

    name: str
    title: str
    version: str
    start: Callable[[], contextlib.AbstractContextManager[Started]]
    highest: Mapping[ApiKey, int] = field(default_factory=dict)


def subjects(directory: Path) -> list[Subject]:
    """The servers of the page, in its order. ``directory`` gets programs that are built."""
    release, own = java.KAFKA_VERSION, importlib.metadata.version("kwire")
    kfake_version = f"{build.go_version(build.KFAKE)}, franz-go {build.go_version(build.FRANZ_GO)}"
    librdkafka = f"librdkafka {importlib.metadata.version('confluent-kafka')}"
    return [
        Subject("kafka-broker", "Kafka, broker", release, _kafka_broker),
        Subject("kafka-controller", "Kafka, controller", release, _kafka_controller),
        Subject("kwire-broker", "kwire, broker", own, _kwire_broker),
        Subject("kwire-quorum", "kwire, node of a quorum without brokers", own, _kwire_quorum),
        Subject("kwire-controller", "kwire, its controller listener", own, _kwire_controller),
        Subject("kwire-observer", "kwire, observer of Kafka's quorum", own, _kwire_observer),
        Subject("kwire-log", "kwire, log directory", own, _kwire_log),
        Subject("kfake", "kfake", kfake_version, lambda: _kfake(directory)),
        Subject("mock", "librdkafka's mock cluster", librdkafka, mock_cluster, _MOCK_HIGHEST),
    ]


def _kafka() -> contextlib.AbstractContextManager[Cluster]:
    return kafka(brokers=1, controllers=1, properties=_PROPERTIES)


@contextlib.contextmanager
def _kafka_broker() -> Iterator[Started]:
    with _kafka() as cluster:
        yield _Lasting(cluster.bootstrap)


@contextlib.contextmanager
def _kafka_controller() -> Iterator[Started]:
    with _kafka() as cluster:
        yield _Lasting(cluster.controllers)


@contextlib.contextmanager
def _kwire(*arguments: str, listener: str = "PLAINTEXT") -> Iterator[Started]:
    with tempfile.TemporaryDirectory(prefix="card-") as data:
        more = [word.replace("{data}", data) for word in arguments]
        with gateway(*more) as server:
            yield _Lasting(server.ready["listeners"][listener])


def _kwire_broker() -> contextlib.AbstractContextManager[Started]:
    return _kwire("--data-dir", "{data}")


def _kwire_quorum() -> contextlib.AbstractContextManager[Started]:
    return _kwire("--process-roles", "controller", "--data-dir", "{data}")


def _kwire_controller() -> contextlib.AbstractContextManager[Started]:
    return _kwire("--process-roles", "controller", "--data-dir", "{data}", listener="CONTROLLER")


@contextlib.contextmanager
def _kwire_observer() -> Iterator[Started]:
    with (
        _kafka() as cluster,
        _kwire("--bootstrap-controller", cluster.controllers, "--data-dir", "{data}") as server,
    ):
        yield server


def _kwire_log() -> contextlib.AbstractContextManager[Started]:
    return _kwire("--source", "sample")


def _kfake(directory: Path) -> contextlib.AbstractContextManager[Started]:
    program = directory / "kfake"
    return kfake(program if program.exists() else build.go_program("kfake", directory))
