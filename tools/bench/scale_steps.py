"""Carries out the steps of the bench of scale on a quorum, and measures each: its time, its
processor time, and the wait of another client.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kwire.message import Message
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kwire.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata_request import MetadataRequest
from tools.bench.latency_probe import Probe, Waits, probe
from tools.kafka_files import Node
from tools.listing_clients import list_everything
from tools.loop_reports import loop_reports, milliseconds
from tools.own_quorum import OwnCluster
from tools.process import ProcessError, cpu_seconds, main_thread_seconds, memory_mib
from tools.simulated_brokers import SimulatedBrokers, simulated_brokers
from tools.wire_client import WireClient

PARTITIONS_PER_TOPIC: Final = 100
REPLICAS: Final = 3
#: Brokers of which each has a fifth of all partitions in its ISRs.
BROKERS: Final = 15
#: Topics of one request: a request makes at most 10,000 records.
_TOGETHER: Final = 50
#: Clients that list all topics at once, and for how long.
LISTING_CLIENTS: Final = 50
LISTING_S: Final = 10.0
_MOVED_TOPICS: Final = 10
_CHANGES: Final = 20
_TIMEOUT_S: Final = 300.0
_TIMEOUT_MS: Final = 300_000
_TOPIC: Final = 2
_CONFIG: Final = "retention.ms"


@dataclass(frozen=True)
class Took:
    """The cost of a step: wall time, processor time of the server, and the effect on others."""

    seconds: float
    cpu_s: float
    loop_s: float  #: the part of ``cpu_s`` that the event loop took
    waits: Waits
    held_ms: int  #: the longest step of the server's event loop, 0 below 50 ms
    elections: int
    result: Any = None


class Bench:
    """A quorum under load. Raises what the clients of ``tools`` raise."""

    def __init__(self, cluster: OwnCluster, partitions: int, stack: ExitStack) -> None:
        self.cluster = cluster
        self.topics = [f"topic-{n:05d}" for n in range(partitions // PARTITIONS_PER_TOPIC)]
        self.partitions = len(self.topics) * PARTITIONS_PER_TOPIC
        self._stack = stack
        self._ids: dict[str, Any] = {}
        self._probe: Probe | None = None
        self._numbers = iter(range(1_000_000))
        self.leader = cluster.wait_for_leader()
        self.brokers: SimulatedBrokers = stack.enter_context(
            simulated_brokers(
                lambda: cluster.wait_for_leader().controller_address, cluster.cluster_id, BROKERS
            )
        )

    @contextmanager
    def probed(self) -> Iterator[None]:
        """Measure another client of the leader during the block, in which no node stops."""
        self.leader = self.cluster.wait_for_leader()
        with probe(self.leader.broker_address, self.leader.pid) as self._probe:
            yield
        self._probe = None

    def took(self, step: Callable[[], Any]) -> Took:
        """Carry out ``step`` within :meth:`probed`, and measure it."""
        assert self._probe is not None, "probed() begins first"
        pid, epoch = self.leader.pid, self._epoch()
        self._probe.take()
        loop_reports.take()
        cpu, loop, began = cpu_seconds(pid), main_thread_seconds(pid), time.monotonic()
        result = step()
        seconds = time.monotonic() - began
        cpu, loop = cpu_seconds(pid) - cpu, main_thread_seconds(pid) - loop
        waits = self._probe.take()
        held = max(map(milliseconds, loop_reports.take()), default=0)
        return Took(seconds, cpu, loop, waits, held, self._epoch() - epoch, result)

    def memory_mib(self, key: str = "VmRSS") -> float:
        """Resident memory of the leader, or its peak (``VmHWM``), MiB."""
        return memory_mib(self.leader.pid, key)

    # --- steps

    def create(self) -> None:
        """Create all topics."""
        with self._client() as client:
            for at in range(0, len(self.topics), _TOGETHER):
                names = self.topics[at : at + _TOGETHER]
                answer: Any = client.call(_create(names, PARTITIONS_PER_TOPIC, REPLICAS), 7)
                _check(topic.error_code for topic in answer.topics)
                self._ids.update((topic.name, topic.topic_id) for topic in answer.topics)

    def list_topics(self) -> int:
        """Ask for the Metadata of all topics; the bytes of the answer."""
        with self._client() as client:
            return client.size_of_answer(MetadataRequest(topics=None), 12)

    def list_by_many(self) -> int:
        """Ask for the Metadata of all topics with many clients at once, at all nodes, for some
        seconds; the number of answers.
        """
        addresses = [node.broker_address for node in self.cluster.nodes]
        return sum(n for n, _ in list_everything(LISTING_S, LISTING_CLIENTS, addresses))

    def describe(self) -> int:
        """Describe all topics, page by page; the number of pages."""
        cursor, pages = None, 0
        with self._client() as client:
            while True:
                request = DescribeTopicPartitionsRequest(topics=[], cursor=cursor)
                answer: Any = client.call(request, 0)
                pages += 1
                if answer.next_cursor is None:
                    return pages
                cursor = Cursor(
                    topic_name=answer.next_cursor.topic_name,
                    partition_index=answer.next_cursor.partition_index,
                )

    def describe_configs(self) -> int:
        """Describe the configs of all topics in one request; the bytes of the answer."""
        resources = [
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=None
            )
            for name in self.topics
        ]
        with self._client() as client:
            return client.size_of_answer(DescribeConfigsRequest(resources=resources), 4)

    def change_config(self) -> float:
        """Set a config of one topic, many times; the median in ms."""

        def change(client: WireClient) -> None:
            config = AlterableConfig(
                name=_CONFIG, config_operation=0, value=str(10_000 + next(self._numbers))
            )
            resource = AlterConfigsResource(
                resource_type=_TOPIC, resource_name=self.topics[0], configs=[config]
            )
            answer: Any = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            _check(one.error_code for one in answer.responses)

        return self._median_ms(self.leader.broker_address, change)

    def alter_partition(self) -> float:
        """Remove a replica from the ISR of partitions as their leaders do; the median in ms."""
        partitions = iter(self._partitions_of(self.topics[0]))

        def shrink(client: WireClient) -> None:
            one = next(partitions)
            isr = [
                BrokerState(broker_id=node, broker_epoch=self.brokers.epochs[node])
                for node in one.isr_nodes
                if node == one.leader_id or node != one.isr_nodes[-1]
            ]
            data = PartitionData(
                partition_index=one.partition_index,
                leader_epoch=one.leader_epoch,
                new_isr_with_epochs=isr,
                partition_epoch=0,
            )
            topic = TopicData(topic_id=self._ids[self.topics[0]], partitions=[data])
            request = AlterPartitionRequest(
                broker_id=one.leader_id,
                broker_epoch=self.brokers.epochs[one.leader_id],
                topics=[topic],
            )
            answer: Any = client.call(request, 3)
            _check(
                [answer.error_code, *(p.error_code for t in answer.topics for p in t.partitions)]
            )

        return self._median_ms(self.leader.controller_address, shrink)

    def fence(self) -> None:
        """Fence a broker, which gives its partitions new leaders."""
        if not self.brokers.heartbeat(self._fenced, fence=True):
            raise ProcessError(f"broker {self._fenced} was not fenced")

    def unfence(self) -> None:
        """Let the fenced broker serve again."""
        if self.brokers.heartbeat(self._fenced):
            raise ProcessError(f"broker {self._fenced} stays fenced")

    def move(self) -> int:
        """Begin to move partitions to other brokers; the number of them."""
        ids = sorted(self.brokers.epochs)
        topics = []
        for name in self.topics[1 : 1 + _MOVED_TOPICS]:
            chosen = [
                ReassignablePartition(
                    partition_index=index,
                    replicas=[ids[(index + k) % len(ids)] for k in range(REPLICAS)],
                )
                for index in range(PARTITIONS_PER_TOPIC)
            ]
            topics.append(ReassignableTopic(name=name, partitions=chosen))
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)
        with self._client() as client:
            answer: Any = client.call(request, 0)
        _check([answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)])
        return len(topics) * PARTITIONS_PER_TOPIC

    def write(self) -> None:
        """Create one topic, at whichever node leads, as soon as one does."""
        deadline = time.monotonic() + _TIMEOUT_S
        request = _create([f"first-{next(self._numbers)}"], 1, 1)
        while time.monotonic() < deadline:
            for node in self.cluster.nodes:
                if node.process is not None and _created(node, request):
                    return
            time.sleep(0.01)
        raise ProcessError("no node creates a topic")

    @property
    def _fenced(self) -> int:
        return min(self.brokers.epochs)

    def _median_ms(self, address: str, call: Callable[[WireClient], None]) -> float:
        found = []
        with WireClient(address, _TIMEOUT_S) as client:
            for _ in range(_CHANGES):
                began = time.perf_counter()
                call(client)
                found.append(1000 * (time.perf_counter() - began))
        return statistics.median(found)

    def _partitions_of(self, name: str) -> list[Any]:
        with self._client() as client:
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)])
            answer: Any = client.call(request, 0)
        return [one for one in answer.topics[0].partitions if len(one.isr_nodes) == REPLICAS]

    def _client(self) -> WireClient:
        return WireClient(self.leader.broker_address, _TIMEOUT_S)

    def _epoch(self) -> int:
        """The leader's epoch, from its file: the step may keep its listener from answering."""
        return int(self.leader.quorum_state()["leaderEpoch"])


def _create(names: list[str], partitions: int, replicas: int) -> Message:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)


def _created(node: Node, request: Message) -> bool:
    """Whether the node created the topic of ``request``."""
    try:
        with WireClient(node.broker_address, timeout_s=_TIMEOUT_S) as client:
            answer: Any = client.call(request, 7)
    except (OSError, EOFError):
        return False
    return all(topic.error_code == 0 for topic in answer.topics)


def _check(codes: Any) -> None:
    if bad := {code for code in codes if code}:
        raise ProcessError(f"the server answers with errors {sorted(bad)}")
