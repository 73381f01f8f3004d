"""Observers that follow another observer, a relay, in place of the leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.quorum.events import Cleaned, Propose, SnapshotWritten
from gateway.quorum.settings import ObserverSettings, RaftSettings
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.model_disk import CLUSTER, Batch, Disk, address, directory
from tests.gateway.quorum.relay_world import (
    NOBODY,
    answered_s_ago,
    asks,
    log_of,
    observer,
    shown,
    write,
)
from tests.gateway.quorum.serving_world import fetch, leading, partition
from tests.gateway.quorum.world import Member, World


def test_three_levels_have_the_leaders_bytes() -> None:
    world, leader = leading(1)
    levels = [observer(world, 11, 1), observer(world, 12, 11), observer(world, 13, 12)]
    world.run(2)
    end = write(world, leader, 5)
    world.run(1)
    for number, level in enumerate(levels):
        assert shown(level) == end and log_of(level) == log_of(leader)
        assert level.raft is not None and level.raft.relays == number
        assert (level.raft.leader_id, level.raft.epoch) == (1, 1)
        assert level.raft.leader_high_watermark == end


def test_observers_behind_a_relay_send_nothing_to_the_quorum() -> None:
    world, leader = leading(1)
    asked: list[tuple[int, int]] = []
    world.spy = lambda kind, sender, receiver, message: (
        asked.append((sender, receiver)) if kind == ">" else None
    )
    observer(world, 11, 1)
    below = observer(world, 12, 11, replica_id=70)
    world.run(3)
    world.members[11].kill()
    world.run(10)
    assert shown(below) and {receiver for sender, receiver in asked if sender == 12} == {11}
    assert any(sender == 11 and receiver == 1 for sender, receiver in asked)
    assert leader.raft is not None


def test_commit_reaches_each_level_without_a_wait() -> None:
    world, leader = leading(1)
    levels = [observer(world, 11, 1), observer(world, 12, 11), observer(world, 13, 12)]
    world.run(2)
    before = world.now
    end = write(world, leader)
    assert [shown(level) for level in levels] == [end] * 3 and world.now == before


def test_relay_gives_out_committed_records_only() -> None:
    world, leader = leading(1, 2)
    relay = observer(world, 11, 1)
    world.run(2)
    committed = shown(relay)
    world.cut |= {(2, 1), (1, 2)}
    assert leader.raft is not None
    leader.step(Propose(7, leader.raft.epoch, [[b"not committed"]]))
    world.run(0.2)
    assert relay.raft is not None and relay.raft.log.end_offset == committed + 1
    given = asks(world, 11, offset=committed - 1, last=1)
    assert given.records and given.high_watermark == committed
    assert not asks(world, 11, offset=committed, last=1).records


def test_observer_that_is_ahead_waits_and_keeps_what_it_shows() -> None:
    """It followed another relay before, which had more."""
    world, leader = leading(1)
    behind = observer(world, 11, 1)
    ahead = observer(world, 12, 1)
    world.run(2)
    world.cut |= {(11, 1), (1, 11)}
    end = write(world, leader, 3)
    world.run(0.1)
    assert shown(ahead) == end > shown(behind)
    given = asks(world, 11, offset=end, last=1)
    assert given.diverging_epoch.epoch == -1 and given.snapshot_id.epoch == -1
    assert given.high_watermark == shown(behind) and not given.records
    world.cut.clear()
    world.run(5)
    assert not asks(world, 11, offset=end, last=1, high_watermark=end).records
    assert shown(behind) == end


def test_records_that_no_quorum_committed_are_truncated_once_that_is_proven() -> None:
    world, leader = leading(1)
    relay = observer(world, 11, 1)
    world.run(1)
    assert leader.raft is not None
    end = shown(relay)
    # A tail of an epoch before the leader's: behind the relay's end it may be anything, but once
    # the relay has a committed record of a later epoch at its place it cannot be committed.
    below = observer(world, 12, 99)
    below.kill()
    below.disk.batches = list(relay.disk.batches)
    tail = data_batch(end, 2, 1, 0)
    below.disk.batches.append(Batch(end, end + 2, 1, tail.data))
    assert asks(world, 11, offset=end + 2, last=1).diverging_epoch.epoch == -1
    leader.kill()
    leader.boot()
    world.run(3)
    leader = world.members[1]
    assert leader.raft is not None and leader.raft.epoch == 2
    write(world, leader, 3)
    world.run(1)
    verdict = asks(world, 11, epoch=2, offset=end + 2, last=1).diverging_epoch
    assert (verdict.epoch, verdict.end_offset) == (1, end)
    below.settings = replace(below.settings, bootstrap=(address(11),))
    below.boot()
    world.run(3)
    assert shown(below) == shown(relay) and log_of(below) == log_of(relay)
    assert any("log truncated" in told for told in below.told)


def test_empty_relay_does_not_make_observers_truncate() -> None:
    world, _ = leading(1)
    relay = observer(world, 11, 1)
    world.run(1)
    end = shown(relay)
    relay.kill()
    relay.disk = Disk()
    world.cut |= {(1, 11)}
    relay.boot()
    world.run(0.5)
    assert shown(relay) == 0
    answer = world.request(11, fetch(replica=NOBODY, epoch=0, offset=end, last=0), 18)
    given = partition(answer)
    assert given.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.cut.clear()
    world.run(5)
    given = asks(world, 11, offset=end, last=1)
    assert given.diverging_epoch.epoch == -1 and given.error_code == 0


def test_snapshot_takes_the_place_of_records_that_the_relay_has_deleted() -> None:
    world, leader = leading(1)
    relay = observer(world, 11, 1)
    world.run(1)
    end = write(world, leader, 4)
    world.run(1)
    snapshot = SnapshotId(end, 1)
    relay.disk.snapshots[snapshot] = data_batch(0, 1, 1, 0).data
    relay.step(SnapshotWritten(snapshot))
    relay.step(Cleaned(end, (snapshot,)))
    given = asks(world, 11)
    assert (given.snapshot_id.end_offset, given.snapshot_id.epoch) == snapshot
    below = observer(world, 12, 11)
    world.run(2)
    assert below.raft is not None and below.raft.log.start_offset == end == shown(below)
    assert any("snapshot installed" in told for told in below.told)
    end = write(world, leader, 2)
    world.run(1)
    assert shown(below) == end


def test_download_begins_anew_at_another_relay() -> None:
    """Two relays write files of one id that may differ in every byte."""
    world, leader = leading(1)
    relays = [observer(world, 11, 1), observer(world, 12, 1)]
    world.run(1)
    end = write(world, leader, 4)
    world.run(1)
    snapshot = SnapshotId(end, 1)
    for number, relay in enumerate(relays):
        relay.disk.snapshots[snapshot] = data_batch(0, 1, 1, 1000 * number).data * 3
        relay.step(SnapshotWritten(snapshot))
        relay.step(Cleaned(end, (snapshot,)))
    below = Member(
        world,
        13,
        RaftSettings(
            node_id=-1,
            directory_id=directory(13),
            cluster_id=CLUSTER,
            listener="",
            endpoints={},
            bootstrap=(address(11), address(12)),
            observer=ObserverSettings(),
            snapshot_max_bytes=50,
        ),
        Disk(),
    )
    world.members[13] = below
    below.boot()
    chunks: list[int] = []

    def kill_after_two_chunks(kind: str, sender: int, receiver: int, message: Any) -> None:
        if kind == "<" and isinstance(message, FetchSnapshotResponse):
            chunks.append(sender)
            if len(chunks) == 2:
                world.members[sender].kill()

    world.spy = kill_after_two_chunks
    world.run(8)
    first, last = chunks[0], chunks[-1]
    assert first == chunks[1] != last and len(relays[0].disk.snapshots[snapshot]) > 100
    assert below.disk.snapshots[snapshot] == world.members[last].disk.snapshots[snapshot]


def test_observers_follow_a_new_leader_behind_the_same_relay() -> None:
    world, leader = leading(1, 2, 3)
    relay, below = observer(world, 11, 1, 2, 3), observer(world, 12, 11)
    world.run(2)
    leader.kill()
    world.run(6)
    assert relay.raft is not None and below.raft is not None
    assert relay.raft.epoch > 1 and relay.raft.leader_id in (2, 3)
    assert (below.raft.epoch, below.raft.leader_id) == (relay.raft.epoch, relay.raft.leader_id)
    write(world, world.members[relay.raft.leader_id], 2)
    world.run(1)
    assert log_of(below) == log_of(relay) and shown(below) == shown(relay)
    assert below.raft.leader_address == address(11)


def test_observer_moves_to_another_relay_and_back_to_none() -> None:
    world, leader = leading(1)
    relays = [observer(world, 11, 1), observer(world, 12, 1)]
    below = observer(world, 13, 11, 12)
    for relay in relays * 2:
        world.run(3)
        relay.kill()
        end = write(world, leader, 2)
        world.run(4)
        assert shown(below) == end
        relay.boot()


def test_silence_of_the_quorum_adds_up_at_each_level() -> None:
    world, leader = leading(1)
    levels = [observer(world, 11, 1), observer(world, 12, 11), observer(world, 13, 12)]
    world.run(3)
    assert max(answered_s_ago(world, level) for level in levels) < 2.0
    leader.kill()
    world.run(20)
    assert min(answered_s_ago(world, level) for level in levels) > 18.0
    late = observer(world, 14, 13)
    world.run(3)
    assert shown(late) == shown(levels[0]), "what is committed is still given out"
    assert answered_s_ago(world, late) > 20.0
    leader.boot()
    world.run(8)
    assert max(answered_s_ago(world, level) for level in (*levels, late)) < 2.5


def test_circle_of_relays_is_noticed_and_left() -> None:
    """Each of them knows the quorum and the other one."""
    world, leader = leading(1)
    both = [observer(world, 11, 1, 12), observer(world, 12, 11)]
    world.run(3)
    leader.kill()
    world.run(30)
    assert min(answered_s_ago(world, one) for one in both) > 25.0
    sent = len(world.seen)
    world.run(10)
    assert len(world.seen) - sent < 600, "a circle makes few requests"
    leader.boot()
    world.run(10)
    assert leader.raft is not None
    write(world, leader, 2)
    world.run(3)
    assert [shown(one) for one in both] == [leader.raft.high_watermark] * 2
    assert max(answered_s_ago(world, one) for one in both) < 2.5
    first, second = (one.raft for one in both)
    assert first is not None and second is not None and (first.relays, second.relays) == (0, 1)


def test_relay_refuses_voters() -> None:
    world = World()
    world.add(1, formatted=(1,)).boot()
    world.run(1)
    observer(world, 11, 1)
    world.run(2)
    answer = world.request(11, fetch(replica=1), 18)
    assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE and not answer.responses
    chunk = FetchSnapshotRequest(cluster_id=CLUSTER, replica_id=1)
    assert world.request(11, chunk, 1).error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert partition(world.request(11, fetch(replica=99), 18)).error_code == 0


def test_relay_that_knows_no_cluster_refuses_without_naming_another_one() -> None:
    world, _ = leading(1)
    observer(world, 11, 99, cluster_id=None)
    answer = world.request(11, fetch(replica=NOBODY), 18)
    assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_other_epochs_get_the_relays_epoch_and_its_address(epoch: int, error: ErrorCode) -> None:
    world, _ = leading(1)
    observer(world, 11, 1)
    world.run(1)
    answer = world.request(11, fetch(replica=NOBODY, epoch=epoch), 18)
    given = partition(answer)
    assert given.error_code == error
    assert (given.current_leader.leader_id, given.current_leader.leader_epoch) == (1, 1)
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, (endpoint.host, endpoint.port)) == (1, address(11))


def test_waiting_fetch_is_answered_when_its_time_is_over() -> None:
    world, _ = leading(1)
    relay = observer(world, 11, 1)
    world.run(1)
    answers: list[Any] = []
    waits = fetch(
        replica=NOBODY, offset=shown(relay), last=1, max_wait_ms=300, high_watermark=shown(relay)
    )
    world.request(11, waits, 18, answers.append)
    world.run(0.2)
    assert not answers
    world.run(0.2)
    assert partition(answers[0]).high_watermark == shown(relay)


def test_many_waiting_fetches_are_answered_in_steps() -> None:
    world, leader = leading(1)
    relay = observer(world, 11, 1)
    world.run(1)
    answers: list[Any] = []
    waits = fetch(
        replica=NOBODY, offset=shown(relay), last=1, max_wait_ms=500, high_watermark=shown(relay)
    )
    for _ in range(200):
        world.request(11, waits, 18, answers.append)
    write(world, leader)
    steps = []
    while len(answers) < 200:
        before = len(answers)
        assert world.tick()
        steps.append(len(answers) - before)
    assert max(steps) <= 64 and all(partition(one).records for one in answers)
