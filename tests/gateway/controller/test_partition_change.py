"""Partition changes: cases of Kafka's PartitionChangeBuilderTest, and invariants of any change."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.controller.nodes import LOST, UNASSIGNED
from gateway.controller.partition_change import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    Election,
    Rules,
    Target,
    leave_isr,
    partition_change,
)
from kwire.cluster.entities.partitions import NO_LEADER_CHANGE, merge
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid

#: The levels of metadata.version at which the versions 0, 1 and 2 of the record are written, the
#: last one with ELR.
LEVELS = (15, 17, 23)
DIRECTORY = {node_id: Uuid(bytes([node_id]) * 16) for node_id in range(1, 10)}


def partition(replicas: list[int], isr: list[int], leader: int, **fields: Any) -> PartitionRecord:
    """A partition whose replicas are in the directories of ``DIRECTORY``."""
    directories = [DIRECTORY[node_id] for node_id in replicas]
    return PartitionRecord(
        partition_id=0,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=100,
        partition_epoch=200,
        directories=directories,
        **fields,
    )


def rules(level: int, down: Collection[int] = (), *, min_isr: int = 2) -> Rules:
    return Rules(
        lambda node_id: node_id not in down, min_isr, level >= 23, level, lambda _: UNASSIGNED
    )


FOO = partition([2, 1, 3], [2, 1, 3], 1)
BAR = partition([1, 2, 3, 4], [1, 2, 3], 1, removing_replicas=[1], adding_replicas=[4])
BAZ = partition([2, 1, 3], [1, 3], 3)
#: Without a leader: without and with eligible leader replicas.
OFFLINE = partition([2, 1, 3], [3], NO_LEADER)
OFFLINE_ELR = partition([2, 1, 3], [], NO_LEADER, eligible_leader_replicas=[3], last_known_elr=[2])


@dataclass
class Case:
    """``then`` are the fields that the record has; None: there is no record. Directories are tested
    on their own.
    """

    what: str
    before: PartitionRecord
    target: Target
    then: dict[str, Any] | None
    down: Collection[int] = (3,)
    min_isr: int = 2
    levels: tuple[int, ...] = LEVELS
    elr: dict[str, Any] = field(
        default_factory=dict
    )  #: what is said, too, where the cluster keeps ELR


CASES = [
    Case("nothing", FOO, Target(), None),
    Case("nothing, unclean", FOO, Target(election=Election.UNCLEAN), None),
    Case("a move that goes on", BAR, Target(), None),
    Case("the preferred replica is not in sync", BAZ, Target(election=Election.PREFERRED), None,
         down=()),
    Case("the preferred replica leads", FOO, Target(election=Election.PREFERRED), {"leader": 2}),
    Case("a shrinking ISR keeps the epoch", FOO, Target(isr=[2, 1]), {"isr": [2, 1]}),
    Case("a shrinking ISR began one", FOO, Target(isr=[2, 1]), {"isr": [2, 1], "leader": 1},
         levels=(7, 8, 11)),
    Case("the leader leaves", FOO, Target(isr=[2, 3]), {"isr": [2, 3], "leader": 2}),
    Case("nobody in sync is up", FOO, Target(isr=[3]), {"isr": [3], "leader": -1},
         elr={"eligible_leader_replicas": [1, 2], "last_known_elr": [1]}),
    Case("unclean", FOO, Target(isr=[3], election=Election.UNCLEAN), {"isr": [2], "leader": 2,
         "leader_recovery_state": 1}),
    Case("unclean, from offline", OFFLINE, Target(election=Election.UNCLEAN),
         {"isr": [1], "leader": 1, "leader_recovery_state": 1}, down=(2, 3), levels=LEVELS[:2]),
    Case("unclean, from offline with ELR", OFFLINE_ELR, Target(election=Election.UNCLEAN),
         {"isr": [1], "leader": 1, "leader_recovery_state": 1, "eligible_leader_replicas": [],
         "last_known_elr": []},
         down=(2, 3), levels=(23, 30)),
    Case("replicas in another order", FOO, Target(replicas=[3, 2, 1]), {"replicas": [3, 2, 1]}),
    Case("a move ends", BAR, Target(isr=[1, 2, 3, 4]),
         {"replicas": [2, 3, 4], "isr": [2, 3, 4], "leader": 2, "removing_replicas": [],
         "adding_replicas": []}),
    Case("a move is taken back", BAR, Target(isr=[1, 2, 3], replicas=[1, 2, 3], removing=[],
         adding=[]),
         {"replicas": [1, 2, 3], "leader": 1, "removing_replicas": [], "adding_replicas": []}),
    Case("only removed", FOO, Target(replicas=[1, 2, 3], removing=[3]), {"replicas": [1, 2],
         "isr": [2, 1], "leader": 1}),
    Case("only added", FOO, Target(replicas=[1, 2, 3, 4], adding=[4]), {"replicas": [1, 2, 3, 4],
         "adding_replicas": [4]}),
    # [1, 2, 3, 4, 5] to [3, 4, 5, 6] of which only 6 is in sync: the ISR would shrink for nothing.
    Case("a smaller partition waits for all who stay",
         partition([3, 4, 5, 6, 1, 2], [1, 2], 1, removing_replicas=[1, 2], adding_replicas=[6]),
         Target(isr=[1, 2, 6]), {"isr": [1, 2, 6]}, down=()),
    Case("a partition as large does not",
         partition([3, 4, 5, 1], [1, 3], 1, removing_replicas=[1], adding_replicas=[5]),
         Target(isr=[1, 3, 5]),
         {"isr": [3, 5], "replicas": [3, 4, 5], "leader": 3, "removing_replicas": [],
         "adding_replicas": []}, down=()),
    Case("who stopped does not lead after the move, even if nobody does",
         partition([2, 3, 4, 1], [4, 1], 4, removing_replicas=[4, 1], adding_replicas=[2, 3]),
         Target(isr=[4, 1, 2, 3]),
         {"replicas": [2, 3], "isr": [2, 3], "removing_replicas": [], "adding_replicas": [],
         "leader": -1},
         down=(1, 2, 3, 4), elr={"last_known_elr": [4]}),
    Case("recovered", partition([1, 2], [1], 1, leader_recovery_state=RECOVERING), Target(isr=[1,
         2], recovery_state=RECOVERED),
         {"isr": [1, 2], "leader_recovery_state": RECOVERED}),
    Case("who recovers and stops goes on recovering", partition([1, 2, 3], [1], 1,
         leader_recovery_state=RECOVERING),
         Target(isr=[]), {"leader": -1}, down=(1, 2, 3), levels=LEVELS[:2]),
]  # fmt: skip

ELR_CASES = [
    Case("below min.insync.replicas", partition([1, 2, 3, 4], [1, 2, 3, 4], 1), Target(isr=[1, 2]),
         {"isr": [1, 2], "eligible_leader_replicas": [3, 4]}, min_isr=3),
    Case("above it again", partition([1, 2, 3, 4], [1, 2], 1, eligible_leader_replicas=[3]),
         Target(isr=[1, 2, 3]),
         {"isr": [1, 2, 3], "eligible_leader_replicas": []}, min_isr=3),
    Case("another one joins", partition([1, 2, 3, 4], [1], 1, eligible_leader_replicas=[3]),
         Target(isr=[1, 4]),
         {"isr": [1, 4]}, min_isr=3),
    Case("one of them lost its log", partition([1, 2, 3, 4], [1], 1, eligible_leader_replicas=[2,
         3]),
         Target(unclean_shutdown=(3,)), {"eligible_leader_replicas": [2]}, min_isr=3),
    Case("one of them is elected", partition([1, 2, 3, 4], [1], 1, eligible_leader_replicas=[3]),
         Target(isr=[]),
         {"isr": [3], "eligible_leader_replicas": [1], "leader": 3}, down=(1,), min_isr=3),
    Case("nobody is left", partition([1, 2, 3, 4], [1, 2, 3, 4], 1), Target(isr=[]),
         {"isr": [], "eligible_leader_replicas": [1, 2, 3, 4], "last_known_elr": [1],
         "leader": -1}, down=(1, 2, 3, 4)),
    Case("the last known leader comes back", partition([1, 2], [], NO_LEADER, last_known_elr=[2]),
         Target(),
         {"isr": [2], "leader": 2, "leader_recovery_state": 1, "last_known_elr": []}, down=()),
    Case("another one comes back", partition([1, 2], [], NO_LEADER, last_known_elr=[2]), Target(),
         None, down=(2,)),
    Case("who was removed is not eligible when it is added again",
         partition([3, 1, 2], [1, 2], 1, removing_replicas=[1, 2], adding_replicas=[3]),
         Target(isr=[1, 2, 3]),
         {"replicas": [3], "isr": [3], "leader": 3, "removing_replicas": [],
         "adding_replicas": []}, down=()),
]  # fmt: skip


def said(before: PartitionRecord, target: Target, by: Rules) -> dict[str, Any] | None:
    """The fields of the record that say something, but its key and the directories."""
    record = partition_change(before, target, by)
    if record is None:
        return None
    unsaid: dict[str, Any] = {"leader": NO_LEADER_CHANGE, "leader_recovery_state": -1}
    names = ("isr", "leader", "replicas", "removing_replicas", "adding_replicas",
    "leader_recovery_state",
             "eligible_leader_replicas", "last_known_elr")  # fmt: skip
    return {name: value for name in names if (value := getattr(record, name)) != unsaid.get(name)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_change_makes_kafkas_record(case: Case) -> None:
    for level in case.levels:
        then = case.then if case.then is None or level < 23 else {**case.then, **case.elr}
        assert (
            said(case.before, case.target, rules(level, case.down, min_isr=case.min_isr)) == then
        ), level


@pytest.mark.parametrize("case", ELR_CASES, ids=lambda case: case.what)
def test_change_with_eligible_leader_replicas_makes_kafkas_record(case: Case) -> None:
    assert said(case.before, case.target, rules(30, case.down, min_isr=case.min_isr)) == case.then


def test_eligible_leader_replicas_are_cleared_without_the_feature() -> None:
    before = partition([1, 2, 3], [1], 1, eligible_leader_replicas=[2])
    assert said(before, Target(), rules(22)) == {"eligible_leader_replicas": []}


def test_directories_follow_their_replicas() -> None:
    target = Target(replicas=[3, 1, 5, 4], isr=[1, 3], directories={5: DIRECTORY[9]})
    moved = partition_change(FOO, target, rules(17))
    assert moved is not None
    assert moved.directories == [DIRECTORY[3], DIRECTORY[1], DIRECTORY[9], UNASSIGNED]
    told = partition_change(FOO, Target(directories={3: DIRECTORY[7], 1: LOST}), rules(30))
    assert told is not None
    assert told.directories == [DIRECTORY[2], LOST, DIRECTORY[7]]
    assert partition_change(FOO, Target(directories={3: DIRECTORY[7]}), rules(16)) is None, (
        "no such field before 3.7-IV2"
    )


NODES = st.integers(1, 5)
SETS = st.lists(NODES, unique=True, max_size=4)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionRecord:
    """One that a controller may have made."""
    replicas = draw(st.lists(NODES, unique=True, min_size=1, max_size=5))
    isr = draw(st.lists(st.sampled_from(replicas), unique=True))
    elr = [
        node_id
        for node_id in draw(st.lists(st.sampled_from(replicas), unique=True))
        if node_id not in isr
    ]
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    adding = draw(st.lists(st.sampled_from(replicas), unique=True, max_size=len(replicas) - 1))
    removing = [
        node_id
        for node_id in draw(st.lists(st.sampled_from(replicas), unique=True))
        if node_id not in adding
    ]
    return partition(
        replicas,
        isr,
        leader,
        eligible_leader_replicas=sorted(elr) or None,
        last_known_elr=draw(
            st.one_of(st.none(), st.sampled_from([[node_id] for node_id in replicas]))
        ),
        adding_replicas=adding,
        removing_replicas=removing if len(removing) < len(replicas) else [],
        leader_recovery_state=draw(st.sampled_from([RECOVERED, RECOVERING])),
    )


@settings(max_examples=500, deadline=None)
@given(
    before=partitions(),
    leaving=st.one_of(st.none(), NODES),
    down=SETS,
    election=st.sampled_from(Election),
    level=st.sampled_from([7, 15, 17, 23, 30]),
    min_isr=st.integers(1, 3),
    lost=SETS,
)
def test_random_change_keeps_the_invariants(
    before: PartitionRecord,
    leaving: int | None,
    down: list[int],
    election: Election,
    level: int,
    min_isr: int,
    lost: list[int],
) -> None:
    by = rules(level, {*down, leaving or 0}, min_isr=min_isr)
    isr = [node_id for node_id in before.isr if node_id != leaving]
    record = partition_change(before, Target(isr=isr, election=election, unclean_shutdown=lost), by)
    if record is None:
        return
    after = merge(before, record)
    elr = after.eligible_leader_replicas or []
    assert set(after.isr) <= set(after.replicas)
    assert after.leader in (NO_LEADER, *after.isr)
    assert not set(elr) & set(after.isr)
    assert not set(elr) - set(after.replicas)
    assert level >= 23 or not elr
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    assert after.leader == before.leader or after.leader_epoch > before.leader_epoch
    assert set(before.replicas) <= set(after.replicas) or after.leader_epoch > before.leader_epoch
    assert after.leader in (NO_LEADER, before.leader) or by.accepts(after.leader)
    clean = after.leader in (NO_LEADER, *before.isr, *(before.eligible_leader_replicas or ()))
    assert clean or after.leader_recovery_state == RECOVERING, "who may lack records recovers first"


@pytest.mark.parametrize("seed", range(20))
def test_short_way_out_of_an_isr_makes_the_same_record(seed: int) -> None:
    """The short way that thousands of partitions go at once, beside the long one: the same record,
    or none to be had.
    """
    rand = random.Random(seed)
    short = 0
    for _ in range(500):
        replicas = rand.sample(range(1, 7), rand.randint(1, 4))
        isr = rand.sample(replicas, rand.randint(1, len(replicas)))
        others = [one for one in replicas if one not in isr]
        before = PartitionRecord(
            partition_id=3,
            topic_id=UNASSIGNED,
            replicas=replicas,
            isr=isr,
            leader=rand.choice([NO_LEADER, *isr]),
            directories=[DIRECTORY[one] for one in replicas],
            eligible_leader_replicas=rand.choice(
                [None, sorted(rand.sample(others, rand.randint(0, len(others)))) or None]
            ),
            last_known_elr=rand.choice([None, None, None, [replicas[0]]]),
            adding_replicas=rand.choice([[], [], [], replicas[-1:]]),
            removing_replicas=rand.choice([[], [], [], replicas[:1]]),
            leader_recovery_state=rand.choice([RECOVERED, RECOVERED, RECOVERING]),
        )
        away, node_id, elr = (
            rand.sample(range(1, 7), rand.randint(0, 3)),
            rand.choice(replicas),
            rand.random() < 0.5,
        )
        min_isr, election = rand.randint(1, 3), rand.choice((Election.ONLINE, Election.UNCLEAN))

        def accepts(other: int, away: list[int] = away, node_id: int = node_id) -> bool:
            return other not in (*away, node_id)

        rules = Rules(accepts, min_isr, elr, rand.choice((12, *LEVELS)), lambda _: UNASSIGNED)
        target = Target(isr=[one for one in isr if one != node_id], election=election)
        found = leave_isr(before, node_id, lambda _, other: accepts(other), min_isr, elr=elr)
        if found is not None:
            short += 1
            assert found == partition_change(before, target, rules), before
    assert short > 50
