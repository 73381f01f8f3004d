"""Measures three brokers beside three of Kafka's: the processor time of all three for what is
produced with acks=all to three replicas, and the time without a leader after one was killed.

Both clusters run combined nodes at their defaults. A raw client keeps several requests in flight on
a connection to the leader, and costs little. A follower costs the difference of the same load to
topics with three replicas and with one, by two followers: the leader's part of their Fetch requests
counts, too. After each measurement the ends of the logs are compared with what was sent.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kwire.errors import DecodeError
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tools.bench.data_servers import frame_of
from tools.bench.produce import batch_of, produce_request, wall_ms
from tools.bench.request_load import load
from tools.bench.rounds import ROUNDS, Value, compared, row
from tools.java import KAFKA_VERSION, JavaError
from tools.kafka import FULL_SPEED, Cluster, kafka
from tools.kafka_files import Node
from tools.own_quorum import own_quorum
from tools.process import PATIENCE_S, ProcessError, cpu_seconds
from tools.wire_client import WireClient

_ALL = -1
_API_VERSIONS, _PRODUCE, _CREATE, _DELETE, _LIST = 0, 9, 5, 4, 7
_TIMEOUT_MS = 60_000
_CONNECTIONS, _IN_FLIGHT = 2, 5
_GB = 1e9
_LATEST = -1
_PAUSE_S = 0.005
#: The roles and listeners of kwire's nodes.
_OWN = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
}
#: Logs of topics that are gone, which a bench writes by the gigabyte, are deleted soon.
_PEERS = {"log.segment.delete.delay.ms": "1000"}


#: Of topics, which have names of their own.
_NUMBERS = itertools.count()


class Sizes(NamedTuple):
    """How much is measured. ``asked`` are the partitions in a request, of ``partitions``."""

    partitions: int = 1000
    asked: int = 200
    batch: int = 64 << 10
    measured_s: float = 3.0
    warm_up_s: float = 4.0
    rounds: int = ROUNDS
    kills: int = 3


@dataclass(frozen=True)
class Brokers:
    """Three brokers that run."""

    name: str
    cluster: Cluster

    def leader(self) -> Node:
        """Return the node that leads what is measured: not the active controller, if possible, so
        that its loss is that of a broker.
        """
        active = self.cluster.wait_for_leader().node_id
        return next(node for node in self.cluster.nodes if node.node_id != active)

    def cpu_seconds(self) -> float:
        """Processor time of all brokers so far."""
        return sum(cpu_seconds(node.running_process().pid) for node in self.cluster.nodes)

    def create(self, partitions: int, leader: Node, replicas: int) -> str:
        """Create a topic of which ``leader`` leads every partition; return its name when it does.
        Raises OSError.
        """
        topic = f"bench-{next(_NUMBERS)}"
        others = [one.node_id for one in self.cluster.nodes if one is not leader]
        placed = [leader.node_id, *others][:replicas]
        new = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=placed)
                for index in range(partitions)
            ],
        )
        with WireClient(leader.broker_address) as client:
            asked = CreateTopicsRequest(topics=[new], timeout_ms=_TIMEOUT_MS)
            (created,) = client.call(asked, _CREATE).topics
        if created.error_code:
            raise OSError(f"{self.name}: {topic} was not created: {created.error_code}")
        for index in range(partitions):
            _until(partial(_leads, leader, topic, index), f"{self.name} leads {topic}-{index}")
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        asked = DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS)
        with WireClient(self.cluster.nodes[0].broker_address) as client:
            client.call(asked, _DELETE)


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows; one with the reason where Kafka cannot run."""
    try:
        with _both() as clusters:
            yield from rows(clusters, Sizes())
    except (JavaError, ProcessError) as error:
        yield {"what": "replication", "ok": False, "notes": f"not measured: {error}"}


@contextlib.contextmanager
def _both() -> Iterator[list[Brokers]]:
    with own_brokers() as own, kafka(brokers=3, properties=_PEERS, options=FULL_SPEED) as peers:
        yield [own, Brokers(f"Kafka {KAFKA_VERSION}", peers)]


@contextlib.contextmanager
def own_brokers() -> Iterator[Brokers]:
    """Run three brokers of kwire. Raises ProcessError."""
    with own_quorum(3, properties=_OWN) as own:
        yield Brokers("kwire", own)


def rows(clusters: Sequence[Brokers], sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Yield the rows of two clusters."""
    yield _produce_row(clusters, sizes)
    yield _follower_row(clusters, sizes)
    yield _failover_row(clusters, sizes)


def _produce_row(clusters: Sequence[Brokers], sizes: Sizes) -> dict[str, Any]:
    records, count = batch_of(sizes.batch, 1000, wall_ms())

    def measure(brokers: Brokers, warm_up_s: float) -> Value:
        leader = brokers.leader()
        topic = brokers.create(1, leader, 3)
        request = produce_request(topic, [0], records, _ALL)
        value = _loaded(brokers, leader, frame_of(request, _PRODUCE), warm_up_s, sizes)
        _compare(brokers, leader, topic, [0], value.sent * count)
        brokers.delete(topic)
        return Value(value.cost / len(records) * _GB, value.rate)

    what = "Produce with acks=all to three replicas, batches of 64 KiB, records of 1 kB"
    return {**_compared(clusters, what, "s CPU/GB", measure, sizes), "bar": 1.0}


def _follower_row(clusters: Sequence[Brokers], sizes: Sizes) -> dict[str, Any]:
    """A batch of one record to each of many partitions, over and over."""
    records, _ = batch_of(1, 100, wall_ms())
    leaders = {brokers.name: brokers.leader() for brokers in clusters}
    topics = {
        (brokers.name, replicas): brokers.create(sizes.partitions, leaders[brokers.name], replicas)
        for brokers in clusters
        for replicas in (1, 3)
    }

    def measure(brokers: Brokers, warm_up_s: float) -> Value:
        costs, leader, rate = {}, leaders[brokers.name], 0.0
        first = random.Random(warm_up_s).randrange(sizes.partitions - sizes.asked + 1)
        indexes = range(first, first + sizes.asked)
        for replicas in (1, 3):
            topic = topics[brokers.name, replicas]
            before = sum(end_of(leader, topic, index) or 0 for index in indexes)
            request = produce_request(topic, indexes, records, _ALL)
            value = _loaded(brokers, leader, frame_of(request, _PRODUCE), warm_up_s, sizes)
            _compare(brokers, leader, topic, indexes, before + value.sent * sizes.asked)
            costs[replicas], rate = 1e6 * value.cost / sizes.asked, value.rate
        return Value((costs[3] - costs[1]) / 2, rate)

    what = (
        f"a follower of {sizes.partitions:,} partitions, {sizes.asked} busy at a time, one record"
        " each, with its leader's part"
    )
    return {**_compared(clusters, what, "µs CPU/batch", measure, sizes), "bar": 1.0}


def _failover_row(clusters: Sequence[Brokers], sizes: Sizes) -> dict[str, Any]:
    records, _ = batch_of(1, 100, wall_ms())
    found: dict[str, list[float]] = {}
    for _, brokers in itertools.product(range(sizes.kills), clusters):
        found.setdefault(brokers.name, []).append(_failover(brokers, records))
    own, peer = (statistics.median(found[brokers.name]) for brokers in clusters)
    what = "a leader that is killed, to the next record that is acknowledged by all"
    notes = f"median of {sizes.kills}; broker.session.timeout.ms is the default, 9 s"
    return row(clusters, what, "s", own, peer, bar=0.9, notes=notes)


# --- how
# ------------------------------------------------------------------------------------------------


class _Loaded(NamedTuple):
    """Processor time (s) of all brokers for a request, requests a second, and how many were
    sent in all.
    """

    cost: float
    rate: float
    sent: int


def _compared(clusters: Any, what: str, unit: str, measure: Any, sizes: Sizes) -> dict[str, Any]:
    warm_up_s = sizes.warm_up_s
    return compared(clusters, what, unit, measure, rounds=sizes.rounds, first_warm_up_s=warm_up_s)


def _loaded(
    brokers: Brokers, leader: Node, frame: bytes, warm_up_s: float, sizes: Sizes
) -> _Loaded:
    # As from any client: a connection may begin with a small request only.
    first = frame_of(ApiVersionsRequest(), _API_VERSIONS)
    address = leader.broker_address
    with load(address, frame, _CONNECTIONS, _IN_FLIGHT, first=first, is_continuous=True) as made:
        warm, _ = made.run(warm_up_s)
        before = brokers.cpu_seconds()
        count, took = made.run(sizes.measured_s)
        used = brokers.cpu_seconds() - before
    return _Loaded(used / count, count / took, warm + count)


def _compare(
    brokers: Brokers, leader: Node, topic: str, indexes: Sequence[int], expected: int
) -> None:
    """Raise OSError unless the ends of the partitions are ``expected`` together."""
    found = sum(end_of(leader, topic, index) or 0 for index in indexes)
    if found != expected:
        raise OSError(f"{brokers.name} has {found} records in {topic}, not {expected}")


def _failover(brokers: Brokers, records: bytes) -> float:
    """Kill the leader of a new topic; return the seconds until another acknowledges a record, and
    start the first again.
    """
    leader = brokers.leader()
    request = produce_request(brokers.create(1, leader, 3), [0], records, _ALL)
    _acknowledged([leader], request)
    brokers.cluster.kill_node(leader)
    began = time.monotonic()
    _acknowledged([node for node in brokers.cluster.nodes if node is not leader], request)
    took = time.monotonic() - began
    brokers.cluster.start_node(leader)
    brokers.cluster.wait_for_node(leader)
    return took


def _acknowledged(nodes: Sequence[Node], request: Any) -> None:
    """Return when one of ``nodes`` has acknowledged ``request``, by whichever leads. Raises
    OSError.
    """
    turns = itertools.cycle(nodes)

    def is_taken() -> bool:
        with (
            contextlib.suppress(OSError, EOFError, DecodeError),
            WireClient(next(turns).broker_address) as client,
        ):
            answer = client.call(request, _PRODUCE)
            return not answer.responses[0].partition_responses[0].error_code
        return False

    _until(is_taken, "a record is acknowledged")


def _until(condition: Callable[[], bool], what: str) -> None:
    """Return when ``condition`` holds. Raises OSError after ``PATIENCE_S``."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise OSError(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(_PAUSE_S)


def _leads(leader: Node, topic: str, index: int) -> bool:
    return end_of(leader, topic, index) is not None


def end_of(leader: Node, topic: str, index: int) -> int | None:
    """Return the end offset of a partition; None if ``leader`` does not lead it."""
    partition = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
    asked = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    with WireClient(leader.broker_address) as client:
        found = client.call(asked, _LIST).topics[0].partitions[0]
    return None if found.error_code else int(found.offset)
