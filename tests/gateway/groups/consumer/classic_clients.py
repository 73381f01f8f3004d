"""Clients of the classic protocol in the world of a coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.groups import events as e
from gateway.groups.consumer_protocol import assignment_bytes, read_assignment
from kwire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.gateway.groups.consumer.world import World

#: Topic -> partitions
Named = Mapping[str, Iterable[int]]


def subscription(
    topics: Iterable[str], owned: Named | None = None, rack: str | None = None
) -> bytes:
    """The metadata that a consumer sends with its protocols."""
    has = [
        TopicPartition(topic=topic, partitions=list(some)) for topic, some in (owned or {}).items()
    ]
    message = ConsumerProtocolSubscription(
        topics=list(topics), owned_partitions=has, rack_id=rack, generation_id=-1
    )
    return b"\0\3" + message.encode(3)


def join_group(member_id: str, *topics: str, **fields: Any) -> e.JoinGroup:
    """A JoinGroup to group "g". ``owned``, ``rack`` and ``protocols`` (names) are the metadata."""
    metadata = subscription(topics, fields.pop("owned", None), fields.pop("rack", None))
    names = fields.pop("protocols", ("range",))
    known: dict[str, Any] = {
        "group_id": "g", "instance_id": None, "client_id": "c", "client_host": "/h",
        "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer", "member_id_required": True, "can_skip_assignment": True,
        "protocols": tuple(e.Protocol(name, metadata) for name in names),
    }  # fmt: skip
    return e.JoinGroup(member_id=member_id, **{**known, **fields})


def sync_group(
    member_id: str, generation: int, assignments: Mapping[str, Named] | None = None, **fields: Any
) -> e.SyncGroup:
    """A SyncGroup of a member, the leader's with assignments."""
    given = tuple(
        (name, assignment_bytes(some, b"\0\3")) for name, some in (assignments or {}).items()
    )
    known: dict[str, Any] = {
        "group_id": "g", "instance_id": None, "protocol_type": None, "protocol_name": None
    }  # fmt: skip
    return e.SyncGroup(
        member_id=member_id, generation=generation, assignments=given, **{**known, **fields}
    )


def join(world: World, member_id: str, *topics: str, **fields: Any) -> e.JoinResult:
    """The result of a JoinGroup that is answered at once."""
    result = world.send(join_group(member_id, *topics, **fields))
    assert isinstance(result, e.JoinResult)
    return result


def sync(
    world: World, member_id: str, generation: int, **fields: Any
) -> tuple[e.SyncResult, dict[str, list[int]]]:
    """The result of a SyncGroup that is answered at once, and the assignment in it."""
    result = world.send(sync_group(member_id, generation, **fields))
    assert isinstance(result, e.SyncResult)
    return result, partitions_of(result.assignment)


def beat(world: World, member_id: str, generation: int, **fields: Any) -> str:
    """The name of the error of a Heartbeat."""
    event = e.Heartbeat(
        group_id="g", member_id=member_id, generation=generation,
        **{"instance_id": None, **fields},
    )  # fmt: skip
    result = world.send(event)
    assert isinstance(result, e.HeartbeatResult)
    return result.error.name


def commit(member_id: str, generation: int, *, knows: bool = False) -> e.OffsetCommit:
    """A commit of offset 7 of partition 0 of "t"."""
    return e.OffsetCommit(
        group_id="g", member_id=member_id, instance_id=None, generation=generation, retention_ms=-1,
        offsets=(e.OffsetToCommit("t", 0, 7, -1, ""),), knows_group_id_not_found=knows,
    )  # fmt: skip


def partitions_of(assignment: bytes) -> dict[str, list[int]]:
    """An assignment by topic."""
    return {
        one.topic: sorted(one.partitions)
        for one in read_assignment(assignment).assigned_partitions
        if one.partitions
    }


def classic_group(world: World, **assigned: list[int]) -> list[str]:
    """Make "g" a stable classic group, with a static member for each name, which has these
    partitions of "t". Returns the member ids in that order.
    """
    for name in assigned:
        world.post(join_group("", "t", instance_id=name, owner=f"User:{name}"))
    while len(world.answers) < len(assigned):
        # The first join phase ended with the members that were there: all join again.
        done = {event.instance_id for event, _ in map(_of, world.answers)}
        ids = {event.instance_id: result.member_id for event, result in map(_of, world.answers)}
        world.answers.clear()
        for static in done:
            world.post(join_group(ids[static], "t", instance_id=static))
    members = {event.instance_id: result for event, result in map(_of, world.answers)}
    world.answers.clear()
    plan = {members[name].member_id: {"t": some} for name, some in assigned.items()}
    for name in assigned:
        one = members[name]
        is_leader = one.leader == one.member_id
        given = plan if is_leader else None
        world.post(sync_group(one.member_id, one.generation, given, instance_id=name))
    world.answers.clear()
    return [members[name].member_id for name in assigned]


def _of(answer: Any) -> tuple[e.JoinGroup, e.JoinResult]:
    event, result = answer.asked.event, answer.result
    assert isinstance(event, e.JoinGroup)
    assert isinstance(result, e.JoinResult)
    return event, result
