"""Voters added, removed and updated (KIP-853): the checks of Kafka's handlers, and what becomes of
them.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

from gateway.base.address import Address
from gateway.quorum import checks, requests
from gateway.quorum.events import Tick
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, Disk, address, directory, voter_node
from tests.gateway.quorum.serving_world import leading
from tests.gateway.quorum.test_elections import leader_of
from tests.gateway.quorum.world import World
from tests.gateway.quorum.worldly import run_out


def quorum(*voters: int, observers: tuple[int, ...] = (), **more: Any) -> World:
    world = World()
    for id in voters:
        world.add(id, formatted=voters)
    for id in observers:
        world.add(id, bootstrap=voters, **more)
    for member in world.members.values():
        member.boot()
    world.run(6)
    return world


def add(id: int, **more: Any) -> AddRaftVoterRequest:
    listeners = [Listener(name=LISTENER, host=address(id).host, port=address(id).port)]
    given: dict[str, Any] = {
        "voter_id": id,
        "voter_directory_id": directory(id),
        "listeners": listeners,
        "timeout_ms": 1000,
    }
    return AddRaftVoterRequest(**{"cluster_id": CLUSTER, **given, **more})


def remove(id: int, **more: Any) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        **{"cluster_id": CLUSTER, "voter_id": id, "voter_directory_id": directory(id), **more}
    )


def ask(
    world: World, message: Any, version: int, to: int | None = None, seconds: float = 0.2
) -> int:
    answers: list[Any] = []
    world.request(leader_of(world).id if to is None else to, message, version, answers.append)
    world.run(seconds)
    return answers[0].error_code if answers else 999


def voters_of(world: World) -> set[tuple[int, ...]]:
    return {tuple(member.raft.voters.nodes) for member in world.up() if member.raft}


def test_one_voter_becomes_three_and_one_again() -> None:
    world = quorum(1, observers=(2, 3))
    assert ask(world, add(2), 1) == 0
    world.run(1)
    assert ask(world, add(3), 1) == 0
    world.run(1)
    assert voters_of(world) == {(1, 2, 3)}
    assert ask(world, remove(1), 0, seconds=5) == 0
    assert leader_of(world).id in (2, 3)
    assert ask(world, remove(2 if leader_of(world).id == 3 else 3), 0, seconds=3) == 0
    world.run(3)
    raft = leader_of(world).raft
    assert raft is not None and len(raft.voters) == 1 and raft.high_watermark == raft.log.end_offset


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (add(4, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add(4, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (add(4, voter_id=-1), ErrorCode.INVALID_REQUEST),
        (add(4, listeners=[]), ErrorCode.INVALID_REQUEST),
        (add(4, listeners=[Listener(name="OTHER", host="h", port=1)]), ErrorCode.INVALID_REQUEST),
        (add(3), ErrorCode.DUPLICATE_VOTER),
        (add(3, voter_directory_id=Uuid(b"another disk....")), ErrorCode.DUPLICATE_VOTER),
        (add(4), ErrorCode.REQUEST_TIMED_OUT),  # no node answers ApiVersions there
        (remove(3, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (remove(3, voter_directory_id=ZERO_UUID), ErrorCode.INVALID_REQUEST),
        (remove(9), ErrorCode.VOTER_NOT_FOUND),
        (remove(3, voter_directory_id=Uuid(b"another disk....")), ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_refused_change_appends_nothing(message: Any, error: ErrorCode) -> None:
    world = quorum(1, 2, 3)
    raft = leader_of(world).raft
    assert raft is not None
    end = raft.log.end_offset
    assert ask(world, message, 1 if isinstance(message, AddRaftVoterRequest) else 0) == error
    assert raft.log.end_offset == end and voters_of(world) == {(1, 2, 3)}


def test_the_last_voter_stays() -> None:
    assert ask(quorum(1), remove(1), 0) == ErrorCode.VOTER_NOT_FOUND


def test_followers_change_nothing() -> None:
    world = quorum(1, 2, 3, observers=(4,))
    follower = next(id for id in (1, 2, 3) if id != leader_of(world).id)
    assert (
        ask(world, add(4), 1, follower)
        == ask(world, remove(3), 0, follower)
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_static_quorums_cannot_be_changed() -> None:
    world, _ = leading(1, 2, 3)
    world.run(1)
    assert ask(world, add(4), 1) == ask(world, remove(3), 0) == ErrorCode.UNSUPPORTED_VERSION


def test_one_change_at_a_time() -> None:
    world = quorum(1, 2, 3, observers=(4,))
    leader = leader_of(world)
    others = [id for id in (1, 2, 3) if id != leader.id]
    for id in others:
        world.members[id].stuck = True  # nothing can be committed
    first: list[Any] = []
    world.request(leader.id, remove(others[0]), 0, first.append)
    assert ask(world, add(4), 1) == ErrorCode.REQUEST_TIMED_OUT
    assert not first
    world.run(1.9)
    assert first[0].error_code == ErrorCode.REQUEST_TIMED_OUT  # the wait is over
    assert (
        ask(world, remove(others[1]), 0) == ErrorCode.REQUEST_TIMED_OUT
    )  # but its record may still be committed
    for id in others:
        world.members[id].stuck = False
        world.members[id].sync()
    world.run(2)
    assert ask(world, add(4), 1, seconds=2) == 0


def test_no_change_before_something_of_this_epoch_is_committed() -> None:
    world = World()
    for id in (1, 2, 3):
        world.add(id, formatted=(1, 2, 3)).boot()
    world.settle()
    leader = world.members[1]
    assert leader.raft is not None
    run_out(leader.raft, world.now)
    leader.step(Tick())
    while leader.raft.role != "leader":
        world.deliver(1)
    for id in (2, 3):
        world.members[id].kill()
    assert leader.raft.high_watermark == 0
    assert ask(world, remove(3), 0, seconds=0.0) == ErrorCode.REQUEST_TIMED_OUT


def test_an_observer_that_lags_is_not_added() -> None:
    world = quorum(1, 2, 3, observers=(4,))
    world.members[4].kill()
    world.run(30)
    world.cut = {(4, id) for id in (1, 2, 3)}  # it is there, and does not fetch
    world.members[4].boot()
    assert ask(world, add(4), 1, seconds=1) == ErrorCode.REQUEST_TIMED_OUT


def test_an_answer_before_the_change_is_committed() -> None:
    """Version 1, as nodes ask that join by themselves."""
    world = quorum(1, 2, 3, observers=(4,))
    leader = leader_of(world)
    others = [id for id in (1, 2, 3) if id != leader.id]
    for id in others:
        world.members[id].stuck = True
    assert ask(world, add(4, ack_when_committed=False), 1) == 0
    assert leader.raft is not None and leader.raft.high_watermark < leader.raft.log.end_offset


def test_a_change_that_is_cut_off_never_was() -> None:
    world = quorum(1, 2, 3)
    leader = leader_of(world)
    others = [id for id in (1, 2, 3) if id != leader.id]
    world.cut = {(a, leader.id) for a in others} | {(leader.id, a) for a in others}
    answers: list[Any] = []
    world.request(leader.id, remove(others[0]), 0, answers.append)
    assert leader.raft is not None and len(leader.raft.voters) == 2
    world.run(8)
    assert answers[0].error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.cut = set()
    world.run(8)
    assert voters_of(world) == {(1, 2, 3)}


def test_a_voter_that_moved_tells_so() -> None:
    world = quorum(1, 2, 3)
    leader = leader_of(world)
    mover = world.members[next(id for id in (1, 2, 3) if id != leader.id)]
    settings = {field: getattr(mover.settings, field) for field in mover.settings.__slots__}
    listeners = {LISTENER: address(mover.id), "SECOND": Address("second", 7)}
    mover.kill()
    mover.settings = type(mover.settings)(**(settings | {"endpoints": listeners}))
    mover.boot()
    world.run(6)
    assert leader.raft is not None
    assert leader.raft.voters.nodes[mover.id].endpoints == listeners
    assert {member.raft.log.end_offset for member in world.up() if member.raft} == {
        leader.raft.log.end_offset
    }


def test_endless_updates_of_a_voter_keep_no_voters_before_the_committed_ones() -> None:
    world = quorum(1, 2, 3)
    leader = leader_of(world)
    mover = next(id for id in (1, 2, 3) if id != leader.id)

    def kept_after(updates: int) -> int:
        for number in range(updates):
            port = 1 + number % 60_000
            endpoints = {LISTENER: address(mover), "SECOND": Address("second", port)}
            answers: list[Any] = []
            told = update(VoterNode(mover, directory(mover), endpoints, (0, 1)))
            world.request(leader.id, told, 0, answers.append)
            world.run(0.5)
            assert answers[0].error_code == 0
        gc.collect()
        return sum(isinstance(one, VoterSet) for one in gc.get_objects())

    first = kept_after(5)
    assert kept_after(40) <= first
    assert leader.raft is not None
    assert leader.raft.voters.nodes[mover].endpoints["SECOND"] == Address("second", 40)


def test_endpoints_of_a_request_are_few_and_short() -> None:
    endpoints = [Listener(name=f"L{number}", host="h", port=1) for number in range(1000)]
    assert len(checks.addresses(endpoints)) == 64
    assert checks.addresses([Listener(name="L" * 256, host="h", port=1)]) == {}


def update(node: VoterNode, epoch: int = 1, cluster: str = CLUSTER) -> Any:
    return requests.update_voter(cluster, epoch, node)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (update(voter_node(2)), ErrorCode.NONE),
        (update(voter_node(2), cluster="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (update(voter_node(2), epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (update(voter_node(2), epoch=9), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (update(voter_node(9)), ErrorCode.VOTER_NOT_FOUND),
        (update(VoterNode(2, directory(2), {}, (0, 1))), ErrorCode.INVALID_REQUEST),
        (
            update(VoterNode(2, directory(2), {LISTENER: address(2)}, (2, 3))),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_update_of_a_voter_is_checked_in_static_and_dynamic_quorums(
    message: Any, error: ErrorCode, dynamic: bool
) -> None:
    """Static quorums take updates too, as every follower of Kafka sends them."""
    if dynamic:
        world = quorum(1, 2, 3)
        if leader_of(world).id == 2:
            message = (
                message.copy(voter_id=3, voter_directory_id=directory(3))
                if message.voter_id == 2
                else message
            )
    else:
        world, _ = leading(1, 2, 3)
    leader = leader_of(world)
    answers: list[Any] = []
    world.request(leader.id, message, 0, answers.append)
    assert answers[0].error_code == error
    if error != ErrorCode.INCONSISTENT_CLUSTER_ID:
        told = answers[0].current_leader
        assert (told.leader_id, told.leader_epoch, told.host) == (
            leader.id,
            1,
            address(leader.id).host,
        )


def test_an_observer_joins_by_itself_and_takes_the_place_of_its_former_disk() -> None:
    world = quorum(1, 2, 3, observers=(4,), auto_join=True)
    assert voters_of(world) == {(1, 2, 3, 4)}
    member = world.members[4]
    member.kill()
    settings = {field: getattr(member.settings, field) for field in member.settings.__slots__}
    member.settings = type(member.settings)(
        **(settings | {"directory_id": Uuid(b"another disk....")})
    )
    member.disk = Disk()
    member.boot()
    world.run(15)
    raft = leader_of(world).raft
    assert raft is not None and raft.voters.nodes[4].directory_id == Uuid(b"another disk....")
    assert member.raft is not None and member.raft.is_voter


def test_a_voter_removed_by_a_record_that_only_it_has_can_still_be_elected() -> None:
    """No other node can be: its log is the longer one. Its own vote does not count."""
    world = quorum(1, 2)
    leader = leader_of(world)
    other = world.members[3 - leader.id]
    other.kill()
    world.request(leader.id, remove(leader.id), 0, lambda answer: None)
    leader.kill()
    leader.boot()
    other.boot()
    world.run(10)
    assert other.raft is not None and leader.raft is not None
    assert (other.raft.role, len(other.raft.voters)) == ("leader", 1)
    assert not leader.raft.is_voter and leader.raft.leader_id == other.id
