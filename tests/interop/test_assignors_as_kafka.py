"""The assignors of consumer groups give what Kafka's own classes give, of random groups."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.base.slices import run
from gateway.groups.consumer.assignors import ASSIGNORS
from gateway.groups.consumer.assignors.group_spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
)
from kwire.uuid import Uuid
from tests.interop.java_source import run_source

pytestmark = pytest.mark.interop

_ASK = Path(__file__).with_name("AskAssignors.java")


def test_assignments_of_random_groups_are_those_of_kafka() -> None:
    questions = list(_questions(random.Random(848)))
    said = run_source(_ASK, given="".join(line + "\n" for _, _, line in questions)).splitlines()
    for (name, spec, line), expected in zip(questions, said, strict=True):
        assert _text(run(ASSIGNORS[name](spec))) == expected, line


def _questions(chance: random.Random) -> Iterator[tuple[str, GroupSpec, str]]:
    """Groups as they change: what the first assignment gives is what the next one starts from."""
    for _ in range(250):
        name = chance.choice(["uniform", "uniform", "range"])
        topics = [Uuid(chance.randbytes(16)) for _ in range(chance.choice([1, 2, 5, 15]))]
        counts = {topic: chance.choice([1, 2, 3, 7, 20, 40]) for topic in topics}
        uneven = chance.random() < 0.5
        members: dict[str, MemberSpec] = {}
        for _ in range(chance.randrange(1, 5)):
            for _ in range(chance.choice([0, 1, 1, 2, 9])):
                members[_member_id(chance)] = MemberSpec(
                    chance.choice([None, None, _member_id(chance)]), (), 0, {}
                )
            for member_id in chance.sample(sorted(members), len(members) // chance.choice([3, 9])):
                del members[member_id]
            if not members:
                continue
            subscribed = chance.sample(topics, chance.randrange(1, 1 + len(topics)))
            for member_id, member in members.items():
                mine = chance.sample(topics, chance.randrange(1 + len(topics)))
                chosen = mine if uneven else subscribed
                members[member_id] = member._replace(topic_ids=chosen, names=len(chosen))
            spec = _spec(members, counts, uneven)
            yield name, spec, _line(name, spec)
            for member_id, assignment in run(ASSIGNORS[name](spec)).items():
                members[member_id] = members[member_id]._replace(assignment=assignment)


def _member_id(chance: random.Random) -> str:
    return str(Uuid(chance.randbytes(16)))


def _spec(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int], uneven: bool) -> GroupSpec:
    assigned: dict[Uuid, dict[int, str]] = {}
    for member_id, member in members.items():
        for topic_id, partitions in member.assignment.items():
            owners = assigned.setdefault(topic_id, {})
            owners.update(dict.fromkeys(partitions, member_id))
    kind = SubscriptionType.HETEROGENEOUS if uneven else SubscriptionType.HOMOGENEOUS
    return GroupSpec(dict(members), kind, assigned, counts)


def _line(name: str, spec: GroupSpec) -> str:
    parts = [
        f"{name} {spec.subscription_type.name}",
        " ".join(f"{topic}={count}" for topic, count in spec.partition_counts.items()),
    ]
    for member_id, member in spec.members.items():
        owned = " ".join(
            f"{topic}:{','.join(map(str, sorted(some)))}"
            for topic, some in member.assignment.items()
        )
        topics = " ".join(map(str, member.topic_ids))
        parts.append(f"{member_id};{member.instance_id or ''};{topics};{owned}")
    return "|".join(parts)


def _text(target: Mapping[str, Assignment]) -> str:
    return "".join(
        f"|{member_id};"
        + "".join(
            f"{topic}[{','.join(map(str, sorted(some)))}]"
            for topic, some in sorted(target[member_id].items(), key=lambda one: str(one[0]))
        )
        for member_id in sorted(target)
    )
