"""A leader's responses to Fetch at every version, and delayed Fetches."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quorum import effects as fx
from gateway.quorum.events import Cancelled, Propose, Requested, Resign
from gateway.quorum.roles import Leader
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID
from tests.gateway.quorum.model_disk import LISTENER
from tests.gateway.quorum.serving_world import (
    fetch,
    leading,
    partition,
)
from tests.gateway.quorum.test_elections import leader_of
from tests.gateway.quorum.test_voter_changes import quorum
from tests.gateway.quorum.world import World


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_with_topic_ids(version: int) -> None:
    world, _ = leading(1)
    answer = world.request(1, fetch(version), version)
    data = partition(answer)
    assert answer.responses[0].topic_id == METADATA_TOPIC_ID
    assert (
        data.error_code,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    ) == (0, 4, -1, 0)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    assert data.records and data.aborted_transactions == [] and data.preferred_read_replica == -1
    assert bool(answer.node_endpoints) == (version >= 17)


def _by_name(name: str = "__cluster_metadata") -> FetchRequest:
    part = FetchPartition(partition=0, current_leader_epoch=1, fetch_offset=0, last_fetched_epoch=0)
    return FetchRequest(cluster_id=None, topics=[FetchTopic(topic=name, partitions=[part])])


def test_version_12_names_the_topic_as_kip_595_has_it() -> None:
    world, _ = leading(1)
    answer = world.request(1, _by_name(), 12)
    assert answer.responses[0].topic == "__cluster_metadata" and partition(answer).records
    assert world.request(1, _by_name("other"), 12).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [7, 11])
def test_versions_without_epochs_are_refused(version: int) -> None:
    world, _ = leading(1)
    part = FetchPartition(
        partition=0, fetch_offset=0, current_leader_epoch=1 if version >= 9 else -1
    )
    request = FetchRequest(topics=[FetchTopic(topic="__cluster_metadata", partitions=[part])])
    assert world.request(1, request, version).error_code == ErrorCode.INVALID_REQUEST


def test_max_bytes_is_obeyed_and_one_batch_comes_always() -> None:
    world, _ = leading(1)
    one = partition(world.request(1, fetch(max_bytes=1), 18)).records
    few = partition(world.request(1, fetch(max_bytes=250), 18)).records
    everything = partition(world.request(1, fetch(), 18)).records
    assert 0 < len(one) < len(few) <= 250 < len(everything)
    none_asked = fetch()
    none_asked.topics[0].partitions[0].partition_max_bytes = 0  # what Kafka's own nodes say
    assert partition(world.request(1, none_asked, 18)).records == everything


def test_cluster_ids() -> None:
    world, _ = leading(1)
    assert partition(world.request(1, fetch(cluster_id=None), 18)).error_code == 0
    for wrong in ("", "other"):
        assert (
            world.request(1, fetch(cluster_id=wrong), 18).error_code
            == ErrorCode.INCONSISTENT_CLUSTER_ID
        )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"last": -1}, ErrorCode.INVALID_REQUEST),
        ({"last": 2}, ErrorCode.INVALID_REQUEST),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -1, "last": -1}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 1}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"replica": -2}, ErrorCode.NONE),
    ],
)
def test_fetch_with_a_wrong_field_is_refused(change: dict[str, int], error: ErrorCode) -> None:
    world, _ = leading(1)
    assert partition(world.request(1, fetch(**change), 18)).error_code == error


def _waiting(world: World, version: int = 18, **more: Any) -> list[Any]:
    answers: list[Any] = []
    at = world.members[1].raft
    assert at is not None
    given = {"offset": at.log.end_offset, "last": 1, "max_wait_ms": 500} | more
    world.request(1, fetch(version, **given), version, answers.append)
    return answers


def test_a_fetch_waits_for_its_time_and_gets_nothing() -> None:
    world, _ = leading(1)
    answers = _waiting(world)
    world.run(0.4)
    assert not answers
    world.run(0.2)
    assert partition(answers[0]).records == b"" and partition(answers[0]).error_code == 0


@pytest.mark.parametrize("version", range(13, 19))
def test_a_fetch_waits_for_records_and_another_for_the_high_watermark(version: int) -> None:
    """Both come, whatever the version, and without any tag: as measured."""
    world, leader = leading(1, 2)
    world.members[2].kill()
    answers = _waiting(world, version)
    leader.step(Propose(9, 1, [[b"more"]]))
    assert partition(answers[0]).records and partition(answers[0]).high_watermark == 4
    pending = _waiting(world, version, offset=5)
    follower = fetch(offset=5, last=1, replica=2)
    world.request(1, follower, 18)
    assert partition(pending[0]).records == b"" and partition(pending[0]).high_watermark == 5


@pytest.mark.parametrize(("tag", "waits"), [(3, False), (4, True), (-2, False), (None, True)])
def test_the_high_watermark_tag_says_what_is_news(tag: int | None, waits: bool) -> None:
    """KIP-1166. Our own requests leave the tag out when they know none; -1 of others is answered at
    once.
    """
    world, _ = leading(1)
    request = fetch(offset=4, last=1, max_wait_ms=500)
    if tag is not None:
        request.topics[0].partitions[0].high_watermark = tag
    answers: list[Any] = []
    world.request(1, request, 18, answers.append)
    assert bool(answers) == (not waits)


def test_diverging_answers_do_not_wait() -> None:
    world, _ = leading(1)
    data = partition(world.request(1, fetch(offset=9, last=1, max_wait_ms=500), 18))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset, data.records) == (
        1,
        4,
        b"",
    )


def test_a_delayed_fetch_is_answered_when_the_leader_resigns() -> None:
    world, leader = leading(1, 2, 3)
    answers = [_waiting(world) for _ in range(3)]
    leader.step(Resign(1, "the controller failed"))
    for waiting in answers:
        assert partition(waiting[0]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_resigning_an_older_epoch_changes_nothing() -> None:
    _, leader = leading(1, 2, 3)
    leader.step(Resign(0, "late"))
    assert leader.raft is not None and leader.raft.role == "leader"


def test_a_disconnected_fetch_is_not_answered() -> None:
    world, leader = leading(1)
    number = 10_000
    world.requests[number] = -1, 0, 18
    request = fetch(offset=4, last=1, max_wait_ms=500)
    leader.step(Requested(number, request, 18, LISTENER))
    leader.step(Cancelled(number))
    before = len(world.seen)
    world.run(2)
    assert not any(isinstance(effect, fx.Reply) for _, effect in world.seen[before:])


def test_waiting_fetches_are_bounded() -> None:
    world, leader = leading(1)
    answers: list[Any] = []
    for replica in range(1500):
        world.request(
            1,
            fetch(offset=4, last=1, max_wait_ms=2**31 - 1, replica=100 + replica),
            18,
            answers.append,
        )
    assert len(answers) == 1500 - 1024
    assert leader.raft is not None
    assert len(leader.raft.replicas[1]) == 256


def test_fetch_that_wants_to_wait_for_weeks_is_answered_within_five_minutes() -> None:
    world, leader = leading(1)
    world.request(
        1, fetch(offset=4, last=1, max_wait_ms=2**31 - 1, replica=100), 18, lambda _: None
    )
    assert leader.raft is not None
    node = leader.raft._node
    assert isinstance(node.role, Leader)
    (waiting,) = node.role.delayed.values()
    assert waiting.until - node.now == 300


@pytest.mark.parametrize("version", [16, 17])
def test_a_fetch_without_the_directory_of_a_voter_in_the_log_acknowledges_nothing(
    version: int,
) -> None:
    """As ``LeaderState.ReplicaState.matchesKey``: only a voter of a static quorum has none."""
    world = quorum(1, 2, 3)
    leader = leader_of(world)
    others = [id for id in (1, 2, 3) if id != leader.id]
    for id in others:
        world.members[id].kill()
    raft = leader.raft
    assert raft is not None
    leader.step(Propose(1, raft.epoch, [[b"a record"]]))
    world.settle()
    before, end = raft.high_watermark, raft.log.end
    request = fetch(version, epoch=end.epoch, offset=end.offset, last=end.epoch, replica=others[0])
    request.topics[0].partitions[0].replica_directory_id = ZERO_UUID
    assert partition(world.request(leader.id, request, version)).error_code == 0
    assert (raft.role, raft.high_watermark) == ("leader", before) and before < end.offset
