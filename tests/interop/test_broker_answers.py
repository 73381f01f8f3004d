"""Kafka's controller and kwire's respond alike to brokers, and write the same records."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record
from tests.gateway.controller.broker_cluster import CLUSTER_ID
from tests.gateway.controller.cluster import Cluster
from tests.interop.broker_requests import SESSION_MS, Ask, Side, Silence, lifecycle, upgrades
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.test_controller_admin_answers import NEWEST
from tests.interop.test_controller_answers import comparable, unlike
from tools.kafka import FAST_START, kafka
from tools.kafka import Cluster as Kafka
from tools.wire_client import WireClient

_PROPERTIES: Final = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "3600",
    "unclean.leader.election.interval.ms": "3600000",
}
#: The interval at which kwire checks for expired sessions while no request arrives, ms.
_LOOK_MS: Final = 50
#: kwire's values where they differ from Kafka's on purpose, and the reason.
DELIBERATE: Final[dict[str, str]] = {}


class Both:
    """Kafka's controller over the wire and kwire's in memory; both get the same requests."""

    def __init__(self, real: WireClient, cluster_id: str, level: int) -> None:
        self.kwires = Cluster(
            cluster_id=CLUSTER_ID,
            kraft_version=1,
            level=level,
            broker_session_timeout_ms=SESSION_MS,
        )
        self._real = real
        self._sides = Side(CLUSTER_ID), Side(cluster_id)
        self._began = time.monotonic()
        self.asked = 0

    def live(self, steps: Iterable[Ask | Silence]) -> Iterator[str]:
        """Where they differ."""
        for step in steps:
            self._pass_time()
            if isinstance(step, Silence):
                time.sleep(step.sessions * SESSION_MS / 1000)
                self._pass_time()
                continue
            self.asked += 1
            kwires, real = self._ask(step)
            for one in unlike(real, kwires):
                yield f"{step.about}: {one}"

    def _ask(self, step: Ask) -> tuple[Any, Any]:
        told = []
        for side, ask in zip(self._sides, (self.kwires.ask, self._real.call), strict=True):
            answer: Any = ask(step.make(side), step.version)
            if step.registers is not None and not answer.error_code:
                side.epochs[step.registers] = answer.broker_epoch
                answer.broker_epoch = 0
            told.append(comparable(answer.to_json(step.version)))
        return told[0], told[1]

    def _pass_time(self) -> None:
        """Advance kwire's clock to Kafka's and do its periodic work."""
        target_ms = int((time.monotonic() - self._began) * 1000)
        while self.kwires.now_ms < target_ms:
            self.kwires.now_ms = min(target_ms, self.kwires.now_ms + _LOOK_MS)
            for operation in self.kwires.controller.poll(self.kwires.now_ms):
                self.kwires.commit(operation)


def written(values: Iterable[bytes]) -> list[str]:
    """The records, in their order but for changes of several partitions at a time, which Kafka
    makes in that of a hash table.

    Ids that no two clusters give alike stand as numbers, in the order in which they came.
    """
    epochs: dict[int, int] = {}
    topics: dict[Any, int] = {}
    found = []
    for value in values:
        _, version, message = decode_metadata_record(value)
        if message.NAME in ("NoOpRecord", "RegisterControllerRecord"):
            continue
        fields = message.to_json(version)
        for name, known in (("brokerEpoch", epochs), ("topicId", topics)):
            if name in fields:
                fields[name] = known.setdefault(fields[name], len(known))
        found.append(f"{message.NAME} v{version} {fields}")
    grouped = itertools.groupby(found, key=lambda one: one.startswith("PartitionChangeRecord"))
    return [one for alike, group in grouped for one in (sorted(group) if alike else group)]


def values_of(cluster: Kafka) -> Iterator[bytes]:
    """Every metadata record of Kafka's log."""
    for path in sorted(Path(cluster.nodes[0].metadata_log_dir).glob("*.log")):
        for header, records in read_log_file(path):
            if not header.is_control:
                yield from (record.value for record in records if record.value is not None)


@pytest.mark.parametrize(
    ("release", "level", "steps"),
    [("4.4", 33, lifecycle), ("4.0", 25, upgrades)],
    ids=["brokers", "upgrades"],
)
def test_brokers_get_the_responses_of_kafka_and_the_logs_are_equal(
    release: str, level: int, steps: Callable[[], Iterable[Ask | Silence]]
) -> None:
    need_java()
    options: dict[str, Any] = {
        "version": NEWEST,
        "properties": _PROPERTIES,
        "options": FAST_START,
        "format_arguments": ["--release-version", release],
    }
    with (
        kafka(brokers=0, controllers=1, **options) as cluster,
        WireClient(cluster.controllers) as real,
    ):
        both = Both(real, cluster.cluster_id, level)
        differences = list(both.live(steps()))
        expected = written(values_of(cluster))
    found = {one.partition(": Kafka ")[0]: one for one in differences}
    assert found.keys() == DELIBERATE.keys(), "\n".join(
        found[place] for place in found if place not in DELIBERATE
    )
    assert written(both.kwires.log) == expected
    FIGURES.append(
        f"brokers, Kafka {release}: {both.asked} requests, the same answers and the same "
        f"{len(expected)} records"
    )
