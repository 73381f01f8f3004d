"""Runs a quorum and a gateway under mixed load for hours, and shows whether they grow.

Three voters and a gateway that observes them serve connections, topics that are made and deleted,
consumer groups, readers of the log and of view topics. Leaders are killed, snapshots are written.
Resident memory and open file descriptors of every process are sampled from /proc (Linux). Two
processes live as long as the run: the gateway, and one voter that is suspended instead of killed
when it leads, for longer than the fetch timeout.

It does not check records: ``tools.kill_loop`` does.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import click
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
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import ProcessError, memory_mib
from tools.relay_tree import relay_chain
from tools.wire_client import WireClient

_SNAPSHOT_MS: Final = 60_000
#: Servers keep the log, the audit log and committed offsets on purpose. These bounds are far below
#: what a run of hours writes, so that they explain no growth.
_PROPERTIES: Final = {
    "metadata.log.max.snapshot.interval.ms": str(_SNAPSHOT_MS),
    "metadata.log.segment.bytes": str(64 << 10),
    "metadata.max.retention.bytes": str(128 << 10),
    "metadata.audit.segment.bytes": str(64 << 10),
    "metadata.audit.retention.bytes": str(128 << 10),
    "offsets.retention.minutes": "2",
    "offsets.retention.check.interval.ms": "30000",
}
#: Keys that only a voter has.
_OF_VOTERS: Final = "metadata.audit."
_CONNECTIONS_A_MINUTE: Final = 1_000
_TOPICS: Final = 50
_PARTITIONS: Final = 5
#: Longer than controller.quorum.fetch.timeout.ms (2 s) and an election.
_SUSPENDED_S: Final = 6.0
#: Failures of a step that the load may miss while a leader is elected.
_MISSED: Final = (OSError, EOFError, AdminError, DecodeError, ProcessError)
_GATEWAY: Final = "gateway"
#: Connections that the load may have at one server when a sample is taken.
_CONNECTIONS_OPEN: Final = 10
#: Values in a chart.
_POINTS: Final = 24


class Sample(NamedTuple):
    """A process at a moment: seconds since the start, MiB, open file descriptors."""

    at_s: float
    memory_mib: float
    descriptors: int


@dataclass
class Soak:
    """Runs the load; holds memory samples of the processes that lived through the whole run."""

    cluster: OwnCluster
    gateway: str
    gateway_pid: int
    seed: int
    ended: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
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

    def sample(self, began: float) -> None:
        """Add a sample of each process that lasts."""
        assert self.lasting.process is not None
        pids = {_GATEWAY: self.gateway_pid, "voter": self.lasting.process.pid}
        for name, pid in pids.items():
            descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            now = Sample(time.monotonic() - began, memory_mib(pid), descriptors)
            self.samples.setdefault(name, []).append(now)


@contextlib.contextmanager
def load(soak: Soak, times: float, depose_every_s: float) -> Iterator[None]:
    """Run the load, ``times`` as much as by default, in threads during the block."""
    steps: Mapping[str, tuple[Callable[[random.Random], None], float]] = {
        "connections": (soak.connect, 60 / _CONNECTIONS_A_MINUTE / times),
        "topics": (soak.make_topic, 3 / times),
        "groups": (soak.consume, 10 / times),
        "abandoned groups": (soak.abandon_group, 5 / times),
        "reads of views": (soak.read_view, 30 / times),
        "deposed leaders": (soak.depose_leader, depose_every_s),
    }
    threads = [
        threading.Thread(target=soak.repeat, args=(name, step, every_s), name=name)
        for name, (step, every_s) in steps.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        soak.ended.set()
        for thread in threads:
            thread.join()


def growth(samples: Sequence[Sample], after_s: float) -> Mapping[str, float]:
    """Return how a process grew from ``after_s`` on: medians of the first and the last tenth of
    these samples, so that one moment does not decide.
    """
    late = [one for one in samples if one.at_s >= after_s]
    if len(late) < 2:
        raise ValueError(f"fewer than two samples after {after_s:.0f} s")
    part = max(1, len(late) // 10)
    first, last = late[:part], late[-part:]

    def median(values: Iterator[float]) -> float:
        ordered = sorted(values)
        return ordered[len(ordered) // 2]

    return {
        "memory_mib_then": median(one.memory_mib for one in first),
        "memory_mib_at_the_end": median(one.memory_mib for one in last),
        "descriptors_then": median(one.descriptors for one in first),
        "descriptors_at_the_end": median(one.descriptors for one in last),
    }


def chart(title: str, unit: str, lines: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Return a Mermaid chart of (seconds, value) lines with the same times, in minutes."""
    times = [at_s for at_s, _ in lines[0]]
    chosen = range(0, len(times), -(-len(times) // _POINTS))
    highest = max(value for line in lines for _, value in line)
    minutes = ", ".join(f"{times[n] / 60:.0f}" for n in chosen)
    drawn = "\n".join(
        f"    line [{', '.join(f'{line[n][1]:.0f}' for n in chosen)}]" for line in lines
    )
    return (
        f'```mermaid\nxychart-beta\n    title "{title}"\n    x-axis "minutes" [{minutes}]\n'
        f'    y-axis "{unit}" 0 --> {highest * 1.25:.0f}\n{drawn}\n```\n'
    )


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=120, show_default=True)
@click.option(
    "--settled",
    type=click.FloatRange(min=0),
    default=10,
    show_default=True,
    help="Minutes after which memory has to be flat.",
)
@click.option(
    "--load",
    "times",
    type=click.FloatRange(min=0.1),
    default=1,
    show_default=True,
    help="How many times the usual load; the usual one has 1,000 connections a minute.",
)
@click.option(
    "--depose-every",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    help="Seconds between two leaders that are killed, on average.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=10,
    show_default=True,
    help="Seconds between two samples.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("soak.json"),
    show_default=True,
)
def main(
    minutes: float,
    settled: float,
    times: float,
    depose_every: float,
    every: float,
    seed: int,
    out: Path,
) -> None:
    """Run three voters and a gateway under mixed load; print how they grew, and charts.

    Exit status 1 if the memory of a process that lasted grew by more than a tenth after the time to
    settle, or its open descriptors by more than ten.
    """
    with (
        own_quorum(3, properties=_PROPERTIES) as cluster,
        relay_chain(
            ",".join(node.controller_address for node in cluster.nodes), 1, *_gateway_arguments()
        ) as [relay],
    ):
        cluster.wait_for_leader()
        soak = Soak(cluster, relay.bootstrap, relay.pid, seed)
        began = time.monotonic()
        with load(soak, times, depose_every):
            while time.monotonic() - began < minutes * 60:
                soak.sample(began)
                out.write_text(json.dumps(_document(soak)) + "\n")
                time.sleep(every)
    for name, samples in soak.samples.items():
        click.echo(f"{name}: {json.dumps(growth(samples, settled * 60))}")
    click.echo(json.dumps({"done": soak.done, "missed": soak.missed}))
    names = list(soak.samples)
    for title, unit, column in (("Memory", "MiB", 1), ("Open file descriptors", "number", 2)):
        lines = [[(one.at_s, one[column]) for one in soak.samples[name]] for name in names]
        click.echo(chart(f"{title}: {' and '.join(names)}", unit, lines))
    sys.exit(any(grew(samples, settled * 60) for samples in soak.samples.values()))


def _gateway_arguments() -> Iterator[str]:
    """Yield the options of ``kwire serve`` for those properties that a gateway has too."""
    for key, value in _PROPERTIES.items():
        if not key.startswith(_OF_VOTERS):
            yield from (f"--{key.replace('.', '-')}", value)


def grew(samples: Sequence[Sample], after_s: float) -> bool:
    """Return whether a process grew after ``after_s``: its memory by more than a tenth, or its
    descriptors by more than the load holds open at a time.
    """
    found = growth(samples, after_s)
    memory, descriptors = found["memory_mib_then"], found["descriptors_then"]
    return (
        found["memory_mib_at_the_end"] > memory * 1.1
        or found["descriptors_at_the_end"] > descriptors + _CONNECTIONS_OPEN
    )


def _document(soak: Soak) -> dict[str, object]:
    return {"done": soak.done, "missed": soak.missed, "samples": soak.samples}


if __name__ == "__main__":
    main()
