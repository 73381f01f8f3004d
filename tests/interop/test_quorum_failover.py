"""A real quorum of three static voters under load whose leaders are killed, and cut off with records that are lost, while
our observer is killed, too: what a consumer saw all the while is what was committed, and nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.ports import TOPIC_NAME
from tests.interop.clients import need_clients
from tests.interop.conftest import READ
from tests.interop.libraries import ConfluentKafka
from tests.interop.quorum import (
    QUICK_ELECTIONS,
    clipped,
    fetched_from,
    files_of,
    first_unequal,
    need_kafka,
    observing,
    offsets_of,
    records_of,
    wait_for_end,
    wait_for_segments,
)
from tests.interop.reading import digest, first_difference
from tests.interop.restarts import Restarted
from tests.interop.truth import Batch, split
from tools.kafka import FAST_START, Cluster, Node, kafka
from tools.metadata_load import Load

_LEADERS_KILLED = 10
_GATEWAYS_KILLED = 20
#: In these rounds the leader is cut off before it dies: it writes what it cannot commit.
_CUT_OFF_ROUNDS = (2, 5, 8)
#: In these rounds one voter is down.
_LEFT_BEHIND_ROUNDS = range(3, 6)
#: Elections, snapshots every few seconds of the load.
_PROPERTIES = {**QUICK_ELECTIONS, "metadata.log.max.record.bytes.between.snapshots": "30000"}
_SEED = 4


class Follower(ConfluentKafka):
    """Looks for its server more often than librdkafka does by itself, and never begins again by itself."""

    settings = {  # noqa: RUF012
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "auto.offset.reset": "error",
        "log_level": 2,
    }


@dataclass
class Story:
    """What happened: the cluster and the gateway as they are now, what was committed, and what the consumer was given."""

    cluster: Cluster
    server: Restarted
    data_dir: Path
    reader: Follower
    load: Load
    truth: list[Batch] = field(default_factory=list)
    #: What leaders wrote while they were cut off, as their files had it when they died.
    tails: list[list[Batch]] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Behind the last record of the truth."""
        return self.truth[-1].last_offset + 1


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    need_clients()
    need_kafka()
    scratch = tmp_path_factory.mktemp("failover")
    with ExitStack() as stack:
        cluster = stack.enter_context(
            kafka(
                brokers=2, controllers=3, static_voters=True, properties=_PROPERTIES, options=FAST_START, kill_at_end=True
            )
        )  # fmt: skip
        server = stack.enter_context(Restarted(scratch, *observing(cluster, scratch / "data")))
        reader = Follower(server.address, TOPIC_NAME, None)
        load = stack.enter_context(Load(cluster.controllers.split(","), per_second=30))
        told = Story(cluster, server, scratch / "data", reader, load)
        reader.start()
        load.wait_for(20)
        server.kill_at_random(_GATEWAYS_KILLED, random.Random(_SEED))
        kill_leaders(told)
        server.wait_for_kills(90)
        load.stop()
        settle(told)
        reader.stop()
        yield told


def kill_leaders(story: Story) -> None:
    """Ten times: the leader dies, another one leads and takes requests, the dead one comes back."""
    left_behind: Node | None = None
    for number in range(_LEADERS_KILLED):
        cluster, leader = story.cluster, story.cluster.wait_for_leader()
        others = [node for node in cluster.nodes if node.is_controller() and node is not leader]
        if number == _LEFT_BEHIND_ROUNDS.start:
            left_behind = others.pop()
            cluster.kill_node(left_behind)
        others = [node for node in others if node is not left_behind]
        if number in _CUT_OFF_ROUNDS:
            cut_off(story, leader, others)
        else:
            cluster.kill_node(leader)
        cluster.start_node(leader)
        if left_behind is not None and number == _LEFT_BEHIND_ROUNDS.stop - 1:
            cluster.start_node(left_behind)
            left_behind = None
        cluster.wait_for_leader()
        story.load.wait_for(5)
        cluster.wait_for_node(leader)


def cut_off(story: Story, leader: Node, others: list[Node]) -> None:
    """The leader writes while nobody else does, and dies: nothing of that is ever committed."""
    before = files_of(leader)[-1].last_offset
    for node in others:
        story.cluster.pause_node(node)
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline and files_of(leader)[-1].last_offset < before + 20:
        time.sleep(0.02)
    story.cluster.kill_node(leader)
    story.tails.append(clipped(files_of(leader), None, start=before + 1))
    for node in others:
        story.cluster.resume_node(node)


def settle(story: Story) -> None:
    """Everybody comes to the same end; the truth is the leader's."""
    leader = story.cluster.wait_for_leader()
    for node in story.cluster.nodes:
        story.cluster.wait_for_node(node)
    end = files_of(leader)[-1].last_offset + 1
    wait_for_end(story.server.address, end)
    story.truth = wait_for_segments(leader, end)
    story.reader.wait_for(len(records_of(story.truth)), 30)


def test_it_was_as_bad_as_it_was_meant_to_be(story: Story) -> None:
    """Ten leaders and twenty gateways were killed, and records were given out that were lost afterwards."""
    assert story.server.kills == _GATEWAYS_KILLED
    assert len({batch.epoch for batch in story.truth}) > _LEADERS_KILLED
    assert len(lost(story)) > 0
    assert story.load.done > 100


def lost(story: Story) -> list[Batch]:
    """Batches that a leader wrote and no quorum committed."""
    kept = {batch.data for batch in story.truth}
    return [batch for tail in story.tails for batch in tail if batch.data not in kept]


def test_the_consumer_saw_what_was_committed_and_nothing_else(story: Story) -> None:
    """No gap, no duplicate, nothing that was lost: record for record what the quorum has."""
    expected = records_of(story.truth)
    seen = [record for record in story.reader.records if record.offset < story.end]
    assert not first_difference(seen, expected)
    READ.append(("quorum with fail-overs", "confluent-kafka-assign", len(seen), digest(seen)))


def test_the_gateway_has_the_quorums_log(story: Story) -> None:
    """Its files and its answers, byte for byte; and so have all voters."""
    segments = sorted((story.data_dir / f"{TOPIC_NAME}-0").glob("*.log"))
    copied = clipped((batch for one in segments for batch in split(one.read_bytes(), growing=True)), story.end)
    assert not first_unequal(copied, story.truth)
    fetched = fetched_from(story.server.address, 0, story.end)
    assert not first_unequal(clipped(fetched, story.end), story.truth)
    for node in story.cluster.nodes:
        assert not first_unequal(wait_for_segments(node, story.end), story.truth), f"node {node.node_id}"


def test_a_gateway_that_was_left_behind_takes_the_snapshot(story: Story) -> None:
    """While it is down every voter loses its disk, one after the other: what it has not seen is in a snapshot alone.

    It must come back to the leader's snapshot, byte for byte, and the leader's log behind that; and a consumer that begins
    anew is given the records of the snapshot, and then the log.
    """
    cluster, server = story.cluster, story.server
    server.kill()
    with Load(cluster.controllers.split(","), per_second=60) as load:
        while newest_snapshot(cluster.wait_for_leader()) <= story.end:
            load.wait_for(10)
    for node in [node for node in cluster.nodes if node.is_controller()]:
        lose_disk(cluster, node)
    leader = cluster.wait_for_leader()
    end = files_of(leader)[-1].last_offset + 1
    start = newest_snapshot(leader)
    log = clipped(wait_for_segments(leader, end), end)
    assert log[0].base_offset >= start > story.end

    server.start()
    wait_for_end(server.address, end)
    [name] = [path.name for path in leader.metadata_log_dir.glob(f"{start:020d}-*.checkpoint")]
    snapshot = (leader.metadata_log_dir / name).read_bytes()
    assert (story.data_dir / f"{TOPIC_NAME}-0" / name).read_bytes() == snapshot
    first, _ = offsets_of(server.address)
    fetched = fetched_from(server.address, first, end)
    assert not first_unequal(clipped(fetched, end, start), log)
    prefix = [(record.key, record.value) for record in records_of(clipped(fetched, start))]
    assert prefix == [(record.key, record.value) for record in records_of(split(snapshot))]


def newest_snapshot(node: Node) -> int:
    """The end offset of the node's newest snapshot, 0 without one."""
    return max((int(path.name.partition("-")[0]) for path in node.metadata_log_dir.glob("*.checkpoint")), default=0)


def lose_disk(cluster: Cluster, node: Node) -> None:
    """A voter crashes and comes back with an empty disk; returns when it has what the leader has."""
    cluster.kill_node(node)
    cluster.wipe_node(node)
    end = files_of(cluster.wait_for_leader())[-1].last_offset + 1
    cluster.start_node(node)
    cluster.wait_for_node(node)
    wait_for_segments(node, end)
