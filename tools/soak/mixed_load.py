"""The mixed load of a soak: connections, topics that are made and deleted, consumer groups, readers
of the log and of view topics, and leaders that are killed.

Two processes live as long as the run: the gateway, and one voter that is suspended instead of
killed when it leads, for longer than the fetch timeout. Records are not checked here:
``tools.kill_loop`` does.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer

from kwire import DecodeError
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from tools.admin import Admin, AdminError
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.process import ProcessError
from tools.wire_client import WireClient

_CONNECTIONS_A_MINUTE: Final = 1_000
_TOPICS: Final = 50
_PARTITIONS: Final = 5
#: Longer than controller.quorum.fetch.timeout.ms (2 s) and an election.
_SUSPENDED_S: Final = 6.0
#: Failures of a step that the load may miss while a leader is elected.
_MISSED: Final = (OSError, EOFError, AdminError, DecodeError, ProcessError)


@dataclass
class MixedLoad:
    """``gateway`` is the address of the gateway; ``done`` and ``missed`` count steps by name."""

    cluster: OwnCluster
    gateway: str
    seed: int
    ended: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    topics: deque[str] = field(default_factory=deque)

    @property
    def lasting(self) -> Node:
        """The voter that is never killed."""
        return self.cluster.nodes[-1]

    def repeat(self, name: str, step: Callable[[random.Random], None], every_s: float) -> None:
        """Begin ``step`` every ``every_s`` seconds until the end; a step that fails is counted."""
        rng = random.Random(f"{self.seed} {name}")
        due = time.monotonic()
        while True:
            # After a step that took longer than its interval, those that were missed are not made
            # up for.
            due = max(due + every_s * rng.uniform(0.5, 1.5), time.monotonic())
            if self.ended.wait(due - time.monotonic()):
                return
            try:
                step(rng)
                self.done[name] += 1
            except _MISSED:
                self.missed[name] += 1

    def server(self, rng: random.Random) -> str:
        """Return the address of a server: the gateway half of the time."""
        voters = [node.broker_address for node in self.cluster.nodes]
        return rng.choice([*voters, *[self.gateway] * len(voters)])

    def connect(self, rng: random.Random) -> None:
        """A connection that asks something, sends rubbish, half a request, or nothing."""
        kind = rng.randrange(10)
        if kind < 7:
            with WireClient(self.server(rng), timeout_s=10) as client:
                client.call(ApiVersionsRequest(), 3)
            return
        host, _, port = self.server(rng).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall((b"", b"\0\0\0\x64\0", rng.randbytes(200))[kind - 7])

    def make_topic(self, rng: random.Random) -> None:
        """Create a topic, and delete the oldest if there are many."""
        name = f"soak-{rng.getrandbits(64):016x}"
        # A killed leader may have carried out a request without a response, so that the next one
        # finds it carried out.
        self.topics.append(name)
        with Admin(self.cluster.bootstrap.split(",")) as admin:
            topic = CreatableTopic(name=name, num_partitions=_PARTITIONS, replication_factor=1)
            create = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
            admin.send(create, accept={ErrorCode.TOPIC_ALREADY_EXISTS})
            while len(self.topics) > _TOPICS:
                oldest = DeleteTopicState(name=self.topics[0])
                delete = DeleteTopicsRequest(topics=[oldest], timeout_ms=5_000)
                admin.send(delete, accept={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
                self.topics.popleft()

    def consume(self, rng: random.Random) -> None:
        """A consumer group that comes, reads the log, commits and leaves."""
        self._read(rng, CLUSTER_METADATA_TOPIC, f"soak-{rng.randrange(1_000_000)}")

    def read_view(self, rng: random.Random) -> None:
        """A reader of a view topic from its beginning."""
        view = rng.choice(("changes", "topics", "partitions", "configs"))
        self._read(rng, f"{CLUSTER_METADATA_TOPIC}.{view}", "soak-views")

    def _read(self, rng: random.Random, topic: str, group: str) -> None:
        consumer = Consumer({
            "bootstrap.servers": self.server(rng), "group.id": group,
            "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        try:
            consumer.subscribe([topic])
            end = time.monotonic() + 4
            while time.monotonic() < end:
                self.done["records"] += len(consumer.consume(500, timeout=0.5))
        finally:
            consumer.close()

    def abandon_group(self, rng: random.Random) -> None:
        """A member that joins a group and is never heard of again: its session ends by itself."""
        group = f"gone-{rng.randrange(1_000_000)}"
        with WireClient(self.server(rng), timeout_s=10) as client:
            client.call(FindCoordinatorRequest(coordinator_keys=[group]), 4)
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
            request = JoinGroupRequest(
                group_id=group, protocol_type="consumer", protocols=[protocol],
                session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            )  # fmt: skip
            request.member_id = client.call(request, 9).member_id
            client.call(request, 9)

    def depose_leader(self, rng: random.Random) -> None:
        """Kill the leader and start it again after some seconds; suspend the voter that lasts."""
        leader = self.cluster.wait_for_leader(timeout_s=60)
        if leader is self.lasting:
            self.cluster.pause_node(leader)
            self.ended.wait(_SUSPENDED_S)
            self.cluster.resume_node(leader)
            return
        self.cluster.kill_node(leader)
        self.ended.wait(rng.uniform(1, 10))
        self.cluster.start_node(leader)
        self.cluster.wait_for_node(leader)


@contextlib.contextmanager
def running(load: MixedLoad, times: float, depose_every_s: float) -> Iterator[None]:
    """Run the load, ``times`` as much as by default, in threads during the block."""
    steps: Mapping[str, tuple[Callable[[random.Random], None], float]] = {
        "connections": (load.connect, 60 / _CONNECTIONS_A_MINUTE / times),
        "topics": (load.make_topic, 3 / times),
        "groups": (load.consume, 10 / times),
        "abandoned groups": (load.abandon_group, 5 / times),
        "reads of views": (load.read_view, 30 / times),
        "deposed leaders": (load.depose_leader, depose_every_s),
    }
    threads = [
        threading.Thread(target=load.repeat, args=(name, step, every_s), name=name)
        for name, (step, every_s) in steps.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        load.ended.set()
        for thread in threads:
            thread.join()
