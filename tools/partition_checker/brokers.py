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
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kwire.records import iter_batches
from tools.failing_server import BEFORE
from tools.java import KAFKA_VERSION
from tools.kafka import Cluster, kafka
from tools.kafka_files import Node
from tools.own_brokers import own_brokers
from tools.own_quorum import OwnCluster, own_quorum
from tools.partition_checker.judge import LoggedBatch
from tools.process import PATIENCE_S, ProcessError
from tools.real_brokers import SESSIONS, logged_errors, real_brokers
from tools.tcp_proxy import Network

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


#: The node id of Kafka's only controller.
_KAFKAS_CONTROLLER = 1
#: Nodes that are both.
COMBINED = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
}
#: Node and time; the lines below it have no time.
_FIRST_LINE = re.compile(r"\d+: \d\d:\d\d:")
#: A leader logs this about a batch that it does not take, and its producer hears of it; or about a
#: marker of a coordinator that was paused, and replaced meanwhile. A controller that just started
#: logs a request that came before it became active.
_REFUSED = re.compile(
    r"Error processing append operation.*\n"
    r".*errors\.(NotEnoughReplicas|OutOfOrderSequence|InvalidProducerEpoch"
    r"|TransactionCoordinatorFenced)\w*Exception"
    r"|Unexpected error handling request.*\n.*errors\.NotControllerException"
)
#: Of nodes of Kafka on a slow machine: the controller forgets heartbeats; a broker is asked to lead
#: a partition of groups and not to, before it has read it, or while a timer of a member ends.
_SLOW = re.compile(
    r"controller event queue overloaded\. Timed out heartbeat"
    r"|Failed to load metadata from .* no longer the leader"
    r"|The write event Timeout\(.* failed due to .* not the current leader.* Ignoring it"
)


@dataclass
class Brokers:
    """A running cluster; ``clusters`` run its brokers, ``controllers`` its controllers. All nodes
    talk to one another through ``network``.
    """

    controllers: Cluster
    clusters: Sequence[Cluster]
    network: Network

    @property
    def bootstrap(self) -> str:
        return ",".join(one.bootstrap for one in self.clusters)

    @property
    def nodes(self) -> list[Node]:
        """The brokers."""
        return [node for one in self.clusters for node in one.nodes if node.is_broker()]

    @property
    def own_nodes(self) -> list[Node]:
        """The brokers of kwire: their disks and clocks can fail."""
        own = [one for one in self.clusters if isinstance(one, OwnCluster)]
        return [node for one in own for node in one.nodes if node.is_broker()]

    def of(self, node: Node) -> Cluster:
        """The cluster that runs a broker."""
        return next(one for one in self.clusters if node in one.nodes)

    def create(self, topics: Sequence[str], partitions: int) -> None:
        """Create topics with three replicas, two of which have to be in sync. Brokers take records
        of any time: with a clock that was set back, those of producers are hours ahead.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {
            "min.insync.replicas": "2",
            "segment.bytes": str(1 << 20),
            "message.timestamp.after.max.ms": str((1 << 63) - 1),
        }
        missing = set(topics)
        deadline = time.monotonic() + PATIENCE_S
        while missing:
            new = [NewTopic(name, partitions, REPLICAS, config=config) for name in sorted(missing)]
            for name, created in admin.create_topics(new).items():
                try:
                    created.result(PATIENCE_S)
                except KafkaException as error:
                    # A controller that lost its leadership may have created it.
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        if time.monotonic() > deadline:
                            raise
                        continue
                missing.discard(name)

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

    def log_directories(self, topic: str, partition: int) -> dict[int, Path]:
        """Return where each replica has the log of a partition, by node id."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[partition]
        return {
            node.node_id: node.log_dir / f"{topic}-{partition}"
            for node in self.nodes
            if node.node_id in found.replicas
        }

    def log_directory(self, topic: str, partition: int) -> Path:
        """Return where one of the replicas has the log of a partition."""
        return next(iter(self.log_directories(topic, partition).values()))

    def logs_of(self, topic: str, partition: int) -> dict[int, list[LoggedBatch]]:
        """Return the batches in the files of each replica of a partition, by node id; a replica
        without a directory has none.
        """
        return {
            node: [
                one for file in sorted(where.glob("*.log")) for one in _logged(file.read_bytes())
            ]
            for node, where in self.log_directories(topic, partition).items()
        }


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
        network = stack.enter_context(Network())
        clusters: list[Cluster] = []
        quorum: Cluster
        if controllers == "combined":
            values = {**SESSIONS, **_PROPERTIES, **_TOPICS, **COMBINED}
            quorum = stack.enter_context(
                own_quorum(own, properties=values, network=network, before=BEFORE)
            )
            yield Brokers(quorum, [quorum], network)
            return
        of_kafka = {**SESSIONS, **_PROPERTIES, **_TOPICS}
        if controllers == "kafka":
            quorum = stack.enter_context(
                kafka(
                    version=version, brokers=java, controllers=1, properties=of_kafka,
                    node_properties=partial(_advertised, network, _KAFKAS_CONTROLLER),
                )
            )  # fmt: skip
            clusters += [quorum] if java else []
        else:
            values = {**SESSIONS, "process.roles": "controller"}
            quorum = stack.enter_context(own_quorum(3, properties=values, network=network))
            if java:
                clusters.append(
                    stack.enter_context(
                        real_brokers(
                            quorum, java, version=version, properties=of_kafka,
                            node_properties=partial(_advertised, network, None),
                        )
                    )
                )  # fmt: skip
        if own:
            values = {**_PROPERTIES, **_TOPICS}
            clusters.append(
                stack.enter_context(
                    own_brokers(quorum, own, properties=values, network=network, before=BEFORE)
                )
            )
        yield Brokers(quorum, clusters, network)


def _advertised(network: Network, controller: int | None, node: Node) -> dict[str, str]:
    """Return the properties by which a node of Kafka is found through the network, and finds the
    ``controller``, a node of Kafka that was asked for before.
    """
    if node.is_broker():
        network.add(node.node_id, ("127.0.0.1", node.broker_port), "BROKER")
    if node.is_controller():
        network.add(node.node_id, ("127.0.0.1", node.controller_port))
    shown = network.listeners(node.node_id).items()
    values = {"advertised.listeners": ",".join(f"{name}://{address}" for name, address in shown)}
    if controller is not None:
        values["controller.quorum.bootstrap.servers"] = network.address(controller)
    return values
