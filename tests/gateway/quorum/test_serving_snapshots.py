"""A leader's progress of observers, FetchSnapshot and DescribeQuorum."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quorum import requests
from gateway.quorum.events import Cleaned, Propose, SnapshotWritten
from gateway.quorum.requests import describe_quorum
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, directory
from tests.gateway.quorum.serving_world import (
    fetch,
    leading,
    partition,
)
from tests.gateway.quorum.world import World
from tests.gateway.quorum.worldly import take_snapshot


def test_observers_and_unknown_replicas_never_move_the_high_watermark() -> None:
    world, leader = leading(1, 2, 3)
    for id in (2, 3):
        world.members[id].kill()
    leader.step(Propose(9, 1, [[b"more"]]))
    for replica in (4, 5, 77, -1):
        partition(world.request(1, fetch(offset=5, last=1, replica=replica), 18))
    assert leader.raft is not None and leader.raft.high_watermark == 4


def test_a_voter_with_another_disk_is_an_observer() -> None:
    """KIP-853: id and directory id, where both are known."""
    world = World()
    for id in (1, 2):
        world.add(id, formatted=(1, 2))
        world.members[id].boot()
    world.run(3)
    leader = next(member for member in world.up() if member.raft and member.raft.role == "leader")
    other = 3 - leader.id
    world.members[other].kill()
    raft = leader.raft
    assert raft is not None
    leader.step(Propose(9, raft.epoch, [[b"more"]]))
    before, end = raft.high_watermark, raft.log.end_offset
    outsider = fetch(offset=end, last=raft.epoch, epoch=raft.epoch, replica=other)
    outsider.topics[0].partitions[0].replica_directory_id = Uuid(b"another disk....")
    world.request(leader.id, outsider, 18)
    assert raft.high_watermark == before
    world.request(
        leader.id, fetch(offset=end, last=raft.epoch, epoch=raft.epoch, replica=other), 18
    )
    assert raft.high_watermark == end


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_in_pages(version: int) -> None:
    world, leader = leading(1)
    id = take_snapshot(leader, 4)
    leader.step(SnapshotWritten(id))
    leader.step(Cleaned(4, (id,)))
    told = partition(world.request(1, fetch(), 18)).snapshot_id
    assert SnapshotId(told.end_offset, told.epoch) == id
    whole = leader.disk.snapshots[id]
    got = b""
    while len(got) < len(whole):
        request = requests.fetch_snapshot(
            version,
            cluster_id=CLUSTER,
            replica=(9, directory(9)),
            epoch=1,
            id=id,
            position=len(got),
            max_bytes=100,
        )
        answer = world.request(1, request, version)
        page = answer.topics[0].partitions[0]
        assert (page.error_code, page.size, page.position) == (0, len(whole), len(got))
        assert bool(answer.node_endpoints) == (version >= 1)
        got += page.unaligned_records
    assert got == whole


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"id": SnapshotId(9, 9)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"id": SnapshotId(0, 0)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_snapshots_refused_have_empty_bytes_and_not_none(
    change: dict[str, Any], error: ErrorCode
) -> None:
    world, _ = leading(1)
    given: dict[str, Any] = {
        "replica": (9, directory(9)),
        "epoch": 1,
        "id": SnapshotId(2, 1),
        "position": 0,
        "max_bytes": 100,
    } | change
    answer = world.request(1, requests.fetch_snapshot(1, cluster_id=CLUSTER, **given), 1)
    page = answer.topics[0].partitions[0]
    assert (page.error_code, page.unaligned_records) == (error, b"")


def test_snapshots_of_other_topics_clusters_and_followers() -> None:
    world, _ = leading(1, 2, 3)
    given: dict[str, Any] = {
        "replica": (9, directory(9)),
        "epoch": 1,
        "id": SnapshotId(2, 1),
        "position": 0,
        "max_bytes": 100,
    }
    request = requests.fetch_snapshot(1, cluster_id=CLUSTER, **given)
    request.topics[0].name = "other"
    page = world.request(1, request, 1).topics[0].partitions[0]
    assert page.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        world.request(1, requests.fetch_snapshot(1, cluster_id="other", **given), 1).error_code
        == 104
    )
    follower = (
        world.request(2, requests.fetch_snapshot(1, cluster_id=CLUSTER, **given), 1)
        .topics[0]
        .partitions[0]
    )
    assert (
        follower.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        and follower.current_leader.leader_id == 1
    )


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum(version: int) -> None:
    world, leader = leading(1, 2, 3)
    world.add(7, static=(1, 2, 3)).boot()
    world.run(1)
    answer = world.request(1, describe_quorum(), version)
    data = answer.topics[0].partitions[0]
    assert (data.error_code, data.leader_id, data.leader_epoch, data.high_watermark) == (0, 1, 1, 4)
    assert {(one.replica_id, one.log_end_offset) for one in data.current_voters} == {
        (1, 4),
        (2, 4),
        (3, 4),
    }
    assert [one.replica_id for one in data.observers] == [7]
    times = {
        one.last_caught_up_timestamp > 0 and one.last_fetch_timestamp > 0
        for one in data.current_voters
    }
    assert times == {version >= 1}
    assert {one.replica_directory_id for one in data.current_voters if version >= 2} in (
        set(),
        {directory(n) for n in (1, 2, 3)},
    )
    assert [(one.node_id, one.listeners[0].name) for one in answer.nodes] == [
        (n, LISTENER) for n in (1, 2, 3) if version >= 2
    ]
    world.members[7].kill()
    world.run(400)
    assert (
        world.request(leader.id, describe_quorum(), version).topics[0].partitions[0].observers == []
    )


@pytest.mark.parametrize("version", range(3))
def test_describe_quorum_elsewhere(version: int) -> None:
    """As measured: who does not lead says neither who does nor who votes."""
    world, _ = leading(1, 2, 3)
    data = world.request(2, describe_quorum(), version).topics[0].partitions[0]
    assert (data.error_code, data.leader_id, data.leader_epoch, data.current_voters) == (
        6,
        0,
        0,
        [],
    )
    request = describe_quorum()
    request.topics[0].topic_name = "other"
    assert (
        world.request(1, request, version).topics[0].partitions[0].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
