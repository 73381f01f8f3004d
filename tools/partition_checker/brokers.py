"""Runs controllers and brokers of kwire and of Kafka in one cluster, and harms the brokers by their
node ids.
"""

from __future__ import annotations

import contextlib
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kwire.records import iter_batches
from tools.java import KAFKA_VERSION
from tools.kafka import Cluster, kafka
from tools.kafka_files import Node
from tools.own_brokers import own_brokers
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.partition_checker.judge import LoggedBatch
from tools.process import PATIENCE_S, ProcessError
from tools.real_brokers import SESSIONS, logged_errors, real_brokers

REPLICAS = 3
#: The ISR shrinks soon, so that a round is short.
_PROPERTIES = {"replica.lag.time.max.ms": "3000"}
#: Of Kafka's brokers alone: kwire's create these topics by their defaults of three replicas.
_TOPICS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
}


_COMBINED = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
}
#: Node and time; the lines below it have no time.
_FIRST_LINE = re.compile(r"\d+: \d\d:\d\d:")
#: A leader logs this about a batch that it does not take, and its producer hears of it; or about a
#: marker of a coordinator that was paused, and replaced meanwhile.
_REFUSED = re.compile(
    r"Error processing append operation.*\n"
    r".*errors\.(NotEnoughReplicas|OutOfOrderSequence|InvalidProducerEpoch"
    r"|TransactionCoordinatorFenced)\w*Exception"
)
#: Of nodes of Kafka on a slow machine: the controller forgets heartbeats, and a broker is asked to
#: lead a partition of groups and not to, before it has read it.
_SLOW = re.compile(
    r"controller event queue overloaded\. Timed out heartbeat"
    r"|Failed to load metadata from .* no longer the leader"
)


@dataclass
class Brokers:
    """A running cluster; ``clusters`` run its brokers, ``controllers`` its controllers."""

    controllers: Cluster
    clusters: Sequence[Cluster]

    @property
    def bootstrap(self) -> str:
        return ",".join(one.bootstrap for one in self.clusters)

    @property
    def nodes(self) -> list[Node]:
        """The brokers."""
        return [node for one in self.clusters for node in one.nodes if node.is_broker()]

    def of(self, node: Node) -> Cluster:
        """The cluster that runs a broker."""
        return next(one for one in self.clusters if node in one.nodes)

    def create(self, topics: Sequence[str], partitions: int) -> None:
        """Create topics with three replicas, two of which have to be in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {"min.insync.replicas": "2", "segment.bytes": str(1 << 20)}
        new = [NewTopic(name, partitions, REPLICAS, config=config) for name in topics]
        for created in admin.create_topics(new).values():
            created.result(PATIENCE_S)

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the node id of the leader of a partition, or -1."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        with contextlib.suppress(KafkaException, KeyError):
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions[partition]
            return int(found.leader)
        return -1

    def wait_in_sync(self, topics: Sequence[str]) -> None:
        """Return when all replicas of all partitions are in sync. Raises ProcessError."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + PATIENCE_S
        behind: list[str] = ["not asked yet"]
        while behind:
            if time.monotonic() > deadline:
                raise ProcessError(f"not in sync after {PATIENCE_S:.0f} s: {behind[:5]}")
            time.sleep(0.2)
            with contextlib.suppress(KafkaException):
                found = admin.list_topics(timeout=5).topics
                behind = [
                    f"{name}-{one.id}: leader {one.leader}, in sync {one.isrs}"
                    for name in topics
                    for one in found[name].partitions.values()
                    if one.leader < 0 or len(one.isrs) < len(one.replicas)
                ]

    def errors(self) -> list[str]:
        """Return what nodes of Kafka logged as errors, but for refusals that clients are told, and
        what Kafka alone logs on a slow machine.
        """
        clusters = {id(one): one for one in (self.controllers, *self.clusters)}.values()
        lines = logged_errors(
            node for one in clusters if not isinstance(one, OwnCluster) for node in one.nodes
        )
        found: list[str] = []
        for line in lines:
            if _FIRST_LINE.match(line):
                found.append(line)
            else:
                found[-1] += f"\n{line}"
        return [error for error in found if not (_REFUSED.search(error) or _SLOW.search(error))]

    def log_directory(self, topic: str, partition: int) -> Path:
        """Return where a replica has the log of a partition."""
        directories = [node.log_dir / f"{topic}-{partition}" for node in self.nodes]
        return next(one for one in directories if one.exists())

    def log_of(self, node: Node, topic: str, partition: int) -> list[LoggedBatch]:
        """Return the batches in a broker's files of a partition."""
        files = sorted((node.log_dir / f"{topic}-{partition}").glob("*.log"))
        return [batch for file in files for batch in _logged(file.read_bytes())]


def _logged(data: bytes) -> Iterator[LoggedBatch]:
    """Yield the whole batches of a segment, CRCs checked. Raises DecodeError."""
    for one in iter_batches(data, check_crc=True):
        digest = zlib.crc32(data[one.position : one.end])
        yield LoggedBatch(one.base_offset, one.last_offset, one.partition_leader_epoch, digest)


@contextlib.contextmanager
def brokers(
    *, own: int, java: int, controllers: str = "kwire", version: str = KAFKA_VERSION
) -> Iterator[Brokers]:
    """Yield a cluster of ``own`` brokers of kwire and ``java`` of Kafka ``version``, under three
    controllers of kwire or one of Kafka (``controllers``: "kwire" or "kafka"), or of nodes of kwire
    that are brokers and controllers ("combined").
    """
    with contextlib.ExitStack() as stack:
        clusters: list[Cluster] = []
        quorum: Cluster
        if controllers == "combined":
            values = {**QUICK, **SESSIONS, **_PROPERTIES, **_TOPICS, **_COMBINED}
            quorum = stack.enter_context(own_quorum(own, properties=values))
            yield Brokers(quorum, [quorum])
            return
        if controllers == "kafka":
            values = {**SESSIONS, **_PROPERTIES, **_TOPICS}
            quorum = stack.enter_context(
                kafka(version=version, brokers=java, controllers=1, properties=values)
            )
            clusters += [quorum] if java else []
        else:
            values = {**QUICK, **SESSIONS, "process.roles": "controller"}
            quorum = stack.enter_context(own_quorum(3, properties=values))
            if java:
                values = {**SESSIONS, **_PROPERTIES, **_TOPICS}
                clusters.append(
                    stack.enter_context(
                        real_brokers(quorum, java, version=version, properties=values)
                    )
                )
        if own:
            values = {**_PROPERTIES, **_TOPICS}
            clusters.append(stack.enter_context(own_brokers(quorum, own, properties=values)))
        yield Brokers(quorum, clusters)
