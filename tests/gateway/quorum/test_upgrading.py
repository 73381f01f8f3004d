"""kraft.version from 0 to 1 (KIP-853): voters of the configuration become voters of the log, all of
them or none.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.address import Address
from gateway.quorum import effects as fx
from gateway.quorum import requests
from gateway.quorum.events import Propose
from gateway.quorum.voter_set import VoterNode
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.voters_record import VotersRecord
from kwire.protocol import ErrorCode
from kwire.records import decode_batches, decode_control_record
from kwire.uuid import Uuid
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, Disk, address, directory, voter_node
from tests.gateway.quorum.test_elections import leader_of
from tests.gateway.quorum.test_voter_changes import add, ask, remove, voters_of
from tests.gateway.quorum.world import Member, World
from tests.gateway.quorum.worldly import take_snapshot

#: Until every voter has told the leader what it is: a fetch timeout, and some more.
TOLD_S = 4.0
_NUMBERS = iter(range(1000, 1 << 30))


def static(*voters: int, observers: tuple[int, ...] = (), seconds: float = TOLD_S) -> World:
    world = World()
    for id in (*voters, *observers):
        world.add(id, static=voters)
    for member in world.members.values():
        member.boot()
    world.run(2 + seconds)
    return world


def upgrade(member: Member, version: int = 1, epoch: int | None = None) -> fx.Accepted | fx.Refused:
    """Propose one record behind an upgrade; return Accepted or Refused."""
    assert member.raft is not None
    number = next(_NUMBERS)
    member.step(
        Propose(number, member.raft.epoch if epoch is None else epoch, [[b"no op"]], version)
    )
    return member.outcome[number]


def refusal(member: Member, version: int = 1) -> str:
    """Why not; nothing may have been done."""
    assert member.raft is not None
    before = member.raft.log.end_offset, member.raft.voters, member.raft.kraft_version
    outcome = upgrade(member, version)
    assert isinstance(outcome, fx.Refused) and not outcome.not_leader
    assert before == (member.raft.log.end_offset, member.raft.voters, member.raft.kraft_version)
    assert member.raft.upgrade_refusal(version) == outcome.reason
    return outcome.reason


def versions_of(world: World) -> set[int]:
    return {member.raft.kraft_version for member in world.up() if member.raft}


def others(world: World) -> list[Member]:
    return [member for member in world.up() if member is not leader_of(world)]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_voters_are_in_the_log_then_as_what_they_are(count: int) -> None:
    ids = range(1, count + 1)
    world = static(*ids)
    leader = leader_of(world)
    assert leader.raft is not None and leader.raft.upgrade_refusal(1) is None
    end = leader.raft.log.end_offset
    outcome = upgrade(leader)
    assert isinstance(outcome, fx.Accepted)
    assert (outcome.base_offset, outcome.end_offset) == (end + 2, end + 3)
    assert leader.raft.kraft_version == 1  # from when it is appended
    world.run(1)
    assert versions_of(world) == {1}
    for member in world.up():
        assert member.raft is not None and list(member.raft.voters) == [
            voter_node(id) for id in ids
        ]
        assert member.raft.is_voter and member.raft.high_watermark == end + 3


def test_one_control_batch_of_two_records() -> None:
    world = static(1, 2, 3)
    leader = leader_of(world)
    outcome = upgrade(leader)
    world.run(1)
    assert isinstance(outcome, fx.Accepted)
    [data] = [one.data for one in leader.disk.batches if one.end == outcome.base_offset]
    [batch] = decode_batches(data)
    version, voters = [decode_control_record(record).message for record in batch.records]
    assert batch.header.is_control and version == KRaftVersionRecord(version=0, k_raft_version=1)
    assert isinstance(voters, VotersRecord) and [one.voter_id for one in voters.voters] == [1, 2, 3]


def test_asked_again_it_is_done_already() -> None:
    world = static(1, 2, 3)
    leader = leader_of(world)
    upgrade(leader)
    outcome = upgrade(leader)
    assert isinstance(outcome, fx.Accepted) and outcome.end_offset == outcome.base_offset + 1
    assert leader.raft is not None and outcome.base_offset == leader.raft.log.end_offset - 1
    assert (
        refusal(leader, 0)
        == "Invalid upgrade of kraft.version from version 1 to 0 because the new version is a "
        "downgrade"
    )


def test_an_upgrade_is_refused_until_every_voter_has_registered() -> None:
    world = static(1, 2, 3, seconds=0)
    leader = leader_of(world)
    first, second = others(world)
    said = refusal(leader)
    assert f"voter {first.id} has not told" in said and f"voter {second.id} has not told" in said
    second.kill()
    world.run(TOLD_S)
    said = refusal(leader)
    assert f"voter {first.id}" not in said and f"voter {second.id} has not told" in said
    second.boot()
    world.run(TOLD_S)
    assert leader.raft is not None and leader.raft.upgrade_refusal(1) is None


def test_voters_register_with_every_leader() -> None:
    world = static(1, 2, 3)
    old = leader_of(world)
    old.kill()
    world.run(8)
    leader = leader_of(world)
    assert leader is not old and f"voter {old.id} has not told" in refusal(leader)
    old.boot()
    world.run(TOLD_S)
    assert isinstance(upgrade(leader), fx.Accepted)


def update_voter(world: World, row: VoterNode) -> int:
    leader = leader_of(world)
    assert leader.raft is not None
    return ask(world, requests.update_voter(CLUSTER, leader.raft.epoch, row), 0, seconds=0.1)


def test_a_voter_that_does_not_support_it() -> None:
    world = static(1, 2, 3)
    one = others(world)[0].id
    assert (
        update_voter(world, VoterNode(one, directory(one), {LISTENER: address(one)}, (0, 0))) == 0
    )
    assert refusal(leader_of(world)).endswith(f"voter {one} supports versions 0 to 0")


def test_a_voter_that_fetches_for_another_directory_than_it_said() -> None:
    world = static(1, 2, 3)
    one = others(world)[0].id
    assert (
        update_voter(
            world, VoterNode(one, Uuid(b"another disk...."), {LISTENER: address(one)}, (0, 1))
        )
        == 0
    )
    said = refusal(leader_of(world))
    assert f"voter {one} said that its directory is" in said and str(directory(one)) in said


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (VoterNode(9, directory(9), {LISTENER: address(9)}, (0, 1)), ErrorCode.VOTER_NOT_FOUND),
        (VoterNode(2, Uuid(bytes(16)), {LISTENER: address(2)}, (0, 1)), ErrorCode.INVALID_REQUEST),
        (VoterNode(2, directory(2), {"OTHER": address(2)}, (0, 1)), ErrorCode.INVALID_REQUEST),
        (VoterNode(2, directory(2), {LISTENER: address(2)}, (1, 1)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_entry_that_cannot_be_a_voter_is_refused(row: VoterNode, error: ErrorCode) -> None:
    assert update_voter(static(1, 2, 3), row) == error


def test_a_node_that_does_not_lead_refuses_an_upgrade() -> None:
    world = static(1, 2, 3)
    leader, follower = leader_of(world), others(world)[0]
    assert leader.raft is not None and follower.raft is not None
    for outcome in (upgrade(follower), upgrade(leader, epoch=leader.raft.epoch - 1)):
        assert isinstance(outcome, fx.Refused) and outcome.not_leader
    assert follower.raft.upgrade_refusal(1) is not None


def test_not_before_something_of_the_epoch_is_committed() -> None:
    world = World()
    member = world.add(1, static=(1,))
    member.stuck = True
    member.boot()
    member.disk.sync()
    assert (
        member.raft is not None and member.raft.role == "leader" and member.raft.high_watermark == 0
    )
    assert "committed nothing in its epoch yet" in refusal(member)


def cut_off(world: World, member: Member) -> None:
    ids = [other.id for other in world.members.values() if other is not member]
    world.cut = {(a, member.id) for a in ids} | {(member.id, a) for a in ids}


def test_an_upgrade_that_is_cut_off_never_was() -> None:
    world = static(1, 2, 3)
    old = leader_of(world)
    cut_off(world, old)
    assert (
        isinstance(upgrade(old), fx.Accepted)
        and old.raft is not None
        and old.raft.kraft_version == 1
    )
    world.run(8)
    assert leader_of(world) is not old
    world.cut = set()
    world.run(8)
    assert versions_of(world) == {0} and voters_of(world) == {(1, 2, 3)}
    assert [one.directory_id for one in old.raft.voters] == [Uuid(bytes(16))] * 3
    assert isinstance(upgrade(leader_of(world)), fx.Accepted)
    world.run(1)
    assert versions_of(world) == {1}


def test_a_leader_that_dies_between_appending_and_committing() -> None:
    """A node that has the record is elected, and commits it."""
    world = static(1, 2, 3)
    old = leader_of(world)
    near, far = others(world)
    world.cut = {(far.id, old.id), (old.id, far.id)}
    near.stuck = True  # it has the record, and cannot say so
    upgrade(old)
    world.run(0.3)
    assert old.raft is not None and old.raft.high_watermark < old.raft.log.end_offset
    near.stuck = False
    near.sync()
    old.kill()
    world.cut = set()
    world.run(8)
    assert leader_of(world) is near
    old.boot()
    world.run(4)
    assert versions_of(world) == {1} and voters_of(world) == {(1, 2, 3)}


@pytest.mark.parametrize("all_at_once", [False, True])
def test_the_log_wins_over_the_configuration_after_a_restart(all_at_once: bool) -> None:
    world = static(1, 2, 3)
    upgrade(leader_of(world))
    world.run(2)
    members = list(world.members.values())
    for member in members:
        member.kill()
        if not all_at_once:
            member.boot()
            world.run(6)
    for member in members if all_at_once else ():
        member.boot()
    world.run(6)
    assert versions_of(world) == {1}
    assert all(
        member.raft and list(member.raft.voters) == [voter_node(id) for id in (1, 2, 3)]
        for member in members
    )
    states = [effect for _, effect in world.seen if isinstance(effect, fx.Persist)]
    assert states[-1].kraft_version == 1


def test_voters_can_be_added_and_removed_then() -> None:
    world = static(1, 2, 3, observers=(4,))
    assert ask(world, add(4), 1) == ErrorCode.UNSUPPORTED_VERSION
    upgrade(leader_of(world))
    world.run(2)
    assert ask(world, add(4), 1, seconds=2) == 0
    gone = leader_of(world).id
    assert ask(world, remove(gone), 0, seconds=8) == 0
    left = {1, 2, 3, 4} - {gone}
    raft = leader_of(world).raft
    assert raft is not None and set(raft.voters.nodes) == left
    member = world.members[gone]
    member.kill()
    member.boot()  # its configuration still has it among the voters, and does not count
    world.run(6)
    assert (
        member.raft is not None
        and not member.raft.is_voter
        and member.raft.leader_id == leader_of(world).id
    )


def test_no_change_of_voters_before_the_upgrade_is_committed() -> None:
    world = static(1, 2, 3, observers=(4,))
    for member in others(world):
        member.stuck = True
    upgrade(leader_of(world))
    assert (
        ask(world, add(4), 1)
        == ask(world, remove(leader_of(world).id), 0)
        == ErrorCode.REQUEST_TIMED_OUT
    )


def test_a_late_follower_learns_of_an_upgrade_from_a_snapshot() -> None:
    world = static(1, 2, 3)
    leader, late = leader_of(world), others(world)[0]
    late.kill()
    upgrade(leader)
    world.run(1)
    for member in world.up():
        assert member.raft is not None
        take_snapshot(member, member.raft.high_watermark)
        member.kill()
        member.boot()
    world.run(6)
    late.disk = Disk()
    late.boot()
    world.run(6)
    assert late.raft is not None and late.disk.snapshots
    assert versions_of(world) == {1} and late.raft.is_voter


def test_an_address_of_the_configuration_counts_only_until_then() -> None:
    """The leader is where the log says: the configuration may be old by then."""
    world = static(1, 2, 3)
    leader, follower = leader_of(world), others(world)[0]
    upgrade(leader)
    world.run(1)
    follower.kill()
    elsewhere = {id: Address("nowhere", 1) for id in (1, 2, 3)}
    settings = {field: getattr(follower.settings, field) for field in follower.settings.__slots__}
    follower.settings = type(follower.settings)(**(settings | {"static_voters": elsewhere}))
    follower.boot()
    assert leader.raft is not None
    before = leader.raft.log.end_offset
    leader.step(Propose(next(_NUMBERS), leader.raft.epoch, [[b"more"]]))
    world.run(3)
    assert follower.raft is not None and follower.raft.log.end_offset > before


def test_leaders_that_do_not_support_registration_are_asked_once() -> None:
    """Kafka before 4.1 refuses it in such a quorum: nothing is lost, and it is not asked again and
    again.
    """
    world = World()
    for id in (1, 2):
        world.add(id, static=(1, 2)).boot()
    told: list[Any] = []

    def refusing(requester: int, answer: Any) -> Any:
        if answer.NAME == "UpdateRaftVoterResponse":
            told.append(requester)
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer

    world.edit = refusing
    world.run(30)
    assert len(told) == 1 and leader_of(world).raft is not None
