"""Peers that say anything at all: nothing is raised, nothing spins, an epoch keeps its leader, what
is committed stays.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.quorum import requests
from gateway.quorum.events import Propose
from gateway.quorum.partition import Position
from gateway.quorum.requests import describe_quorum
from kwire.errors import EncodeError
from kwire.message import Message, Struct, generated_class
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, address, directory, voter_node
from tests.gateway.quorum.world import Member, World

_NUMBERS = {
    "int8": (-128, -1, 0, 1, 127),
    "int16": (-32768, -1, 0, 1, 3, 6, 8, 42, 74, 75, 98, 104, 125, 32767),
    "int32": (-(2**31), -1, 0, 1, 2, 3, 4, 9, 1000, 2**31 - 1),
    "int64": (-(2**63), -1, 0, 1, 2, 3, 4, 5, 9, 1000, 2**63 - 1),
    "uint16": (0, 1, 9091, 65535),
}


def _spoil(value: Struct, rng: random.Random, chance: float) -> None:
    """Change fields of a message, of those inside of it, and how many of those there are."""
    for field in type(value).fields():
        now: Any = getattr(value, field.attr)
        if field.is_struct and field.array:
            setattr(value, field.attr, _spoil_list(list(now or []), rng, chance))
        elif field.is_struct:
            fresh = generated_class(type(now))(
                **{f.attr: getattr(now, f.attr) for f in type(now).fields()}
            )
            _spoil(fresh, rng, chance)
            setattr(value, field.attr, fresh)
        elif rng.random() < chance:
            setattr(value, field.attr, _other(field, now, rng))


def _spoil_list(items: list[Any], rng: random.Random, chance: float) -> list[Any]:
    if rng.random() < chance / 2:
        return []
    if items and rng.random() < chance / 2:
        items = [*items, items[0].copy()]
    for item in items:
        _spoil(item, rng, chance)
    return items


def _other(field: Any, now: Any, rng: random.Random) -> Any:
    if field.array:
        return (
            [rng.choice(_NUMBERS["int32"]) for _ in range(rng.choice((0, 1, 3)))]
            if field.type == "int32"
            else now
        )
    if field.type in _NUMBERS:
        return rng.choice(_NUMBERS[field.type])
    if field.type == "bool":
        return not now
    if field.type == "uuid":
        return rng.choice((ZERO_UUID, METADATA_TOPIC_ID, directory(1), directory(2), directory(9)))
    if field.type == "string":
        return rng.choice(("", "__cluster_metadata", CLUSTER, "other", "x" * 300))
    if field.type in ("bytes", "records"):
        data = bytearray(now or b"")
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return rng.choice((bytes(data), b"", bytes(data[: len(data) // 2])))
    return now


def _sound_requests(rng: random.Random) -> Iterator[tuple[Message, int]]:
    """One of each request, at some version, as a peer with some knowledge would send it."""
    epoch, sender = rng.choice((0, 1, 2, 3)), rng.choice((1, 2, 3, 9))
    me, log_end = (sender, directory(sender)), Position(rng.choice((0, 1, 4)), rng.choice((0, 1)))
    common: dict[str, Any] = {"cluster_id": CLUSTER, "epoch": epoch}
    versions = {name: rng.choice(range_) for name, range_ in _VERSIONS.items()}
    vote = {
        **common,
        "candidate": me,
        "voter": voter_node(2),
        "log_end": log_end,
        "pre_vote": rng.random() < 0.5,
    }
    yield requests.vote(versions["vote"], **vote), versions["vote"]
    endpoints = {LISTENER: address(sender)}
    begin = {**common, "leader_id": sender, "voter": voter_node(2), "endpoints": endpoints}
    yield requests.begin_quorum_epoch(versions["begin"], **begin), versions["begin"]
    end = {
        **common,
        "leader_id": sender,
        "successors": [(2, directory(2)), (3, directory(3))],
        "endpoints": endpoints,
    }
    yield requests.end_quorum_epoch(versions["end"], **end), versions["end"]
    fetch = {
        **common,
        "replica": me,
        "log_end": log_end,
        "high_watermark": 0,
        "max_wait_ms": rng.choice((0, 500)),
        "max_bytes": 99,
    }
    yield requests.fetch(versions["fetch"], **fetch), versions["fetch"]
    snapshot = {**common, "replica": me, "id": SnapshotId(1, 1), "position": 0, "max_bytes": 99}
    yield requests.fetch_snapshot(versions["snapshot"], **snapshot), versions["snapshot"]
    yield describe_quorum(), rng.choice(range(3))
    yield requests.update_voter(CLUSTER, epoch, voter_node(sender)), 0
    listeners = [Listener(name=LISTENER, host="h", port=1)]
    yield (
        AddRaftVoterRequest(
            cluster_id=CLUSTER, voter_id=9, voter_directory_id=directory(9), listeners=listeners
        ),
        0,
    )
    yield RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=3, voter_directory_id=directory(3)), 0


_VERSIONS = {
    "vote": range(3),
    "begin": range(2),
    "end": range(2),
    "fetch": range(13, 19),
    "snapshot": range(2),
}


def _quorum(dynamic: bool, rng: random.Random) -> World:
    world = World(lambda id: rng.random)
    for id in (1, 2, 3):
        world.add(id, **({"formatted": (1, 2, 3)} if dynamic else {"static": (1, 2, 3)}))
        world.members[id].boot()
    world.run(3)
    return world


def _facts(world: World) -> None:
    """Check the invariants that hold after any message."""
    for member in world.up():
        raft = member.raft
        assert raft is not None
        assert 0 <= raft.epoch < 2**31
        assert raft.high_watermark <= raft.log.flushed <= raft.log.end_offset
        assert raft.deadline > world.now or raft.deadline == float("inf"), "it spins"
    world.check()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seed", range(12))
def test_spoilt_requests(seed: int, dynamic: bool) -> None:
    rng = random.Random(f"requests {seed} {dynamic}")
    world = _quorum(dynamic, rng)
    for _ in range(60):
        target = rng.choice(world.up())
        for message, version in _sound_requests(rng):
            _spoil(message, rng, rng.choice((0.0, 0.05, 0.3)))
            try:
                world.request(target.id, message, version, lambda answer: None)
            except EncodeError:
                continue  # that is not on any wire
            _facts(world)
        for member in world.up():
            _propose(member)
        world.run(rng.choice((0.0, 0.1, 3.0)))
    assert all(member.stopped is None for member in world.members.values())


def _propose(member: Member) -> None:
    raft = member.raft
    assert raft is not None
    member.step(Propose(len(member.outcome) + 1, raft.epoch, [[b"record"]]))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("seed", range(12))
def test_spoilt_answers(seed: int, dynamic: bool) -> None:
    """One node gets answers with wrong fields. It may stop where committed records would be lost;
    it never breaks.
    """
    rng = random.Random(f"answers {seed} {dynamic}")
    world = _quorum(dynamic, rng)

    def edit(requester: int, answer: Message) -> Message:
        if requester == 3 and rng.random() < 0.5:
            spoilt = answer.copy()
            _spoil(spoilt, rng, 0.2)
            try:
                spoilt.encode(type(answer).VERSIONS[-1])
            except EncodeError:
                return answer
            return spoilt
        return answer

    world.edit = edit
    before = len(world.seen)
    for _ in range(40):
        for member in world.up():
            if member.id != 3:
                _propose(member)
        world.run(rng.choice((0.1, 1.0)))
        _facts(world)
        if world.members[3].stopped:
            break
    assert len(world.seen) - before < 60_000, "a storm of messages"
    others = [member.raft for member in world.up() if member.id != 3]
    assert len({raft.epoch for raft in others if raft}) <= 2


def test_every_number_of_topics_and_partitions() -> None:
    """CVE-2026-83525: none, one, two, a thousand of each are answered, in every role."""
    rng = random.Random(1)
    world = _quorum(False, rng)
    for member in world.members.values():
        for message, version in _sound_requests(rng):
            for topics in (0, 1, 2, 1000):
                for partitions in (0, 1, 2):
                    varied: Any = message.copy()
                    if not hasattr(varied, "topics"):
                        continue
                    topic = varied.topics[0]
                    topic.partitions = [topic.partitions[0].copy() for _ in range(partitions)]
                    varied.topics = [topic.copy() for _ in range(topics)]
                    answers: list[Any] = []
                    world.request(member.id, varied, version, answers.append)
                    world.run(1.0)
                    assert len(answers) == 1


def test_requests_from_the_last_epoch_raise_no_epoch() -> None:
    world = _quorum(False, random.Random(2))
    last = 2**31 - 1
    for id in (1, 2, 3):
        vote = requests.vote(
            2,
            cluster_id=CLUSTER,
            epoch=last,
            candidate=(9, directory(9)),
            voter=voter_node(id),
            log_end=Position(0, 0),
            pre_vote=False,
        )
        world.request(id, vote, 2)
    world.run(60)
    assert max(member.raft.epoch for member in world.up() if member.raft) < 100
    assert "leader" in {member.raft.role for member in world.up() if member.raft}
