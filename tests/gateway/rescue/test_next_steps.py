"""The steps after a rescue name what is left to do, and nothing else."""

from __future__ import annotations

import pytest

from gateway.quorum.voter_set import VoterSet
from gateway.rescue.next_steps import next_steps
from gateway.rescue.plan import Plan
from gateway.rescue.refusals import Target
from gateway.rescue.verdict import judge
from tests.gateway.rescue.copies import a_copy, voters

ONE, THREE = voters(1), voters(1, 2, 3)


def steps(new: VoterSet, *, static: tuple[int, ...] = ()) -> str:
    source = a_copy(1, 100, of=None if static else THREE, static=static, brokers=(4,))
    plan = Plan(1003, 101, new, bool(static), b"", ())
    return "\n".join(next_steps(plan, source, (), judge([source])))


@pytest.mark.parametrize("static", [(), (1, 2, 3)], ids=["dynamic", "static"])
def test_lost_controllers_are_to_be_brought_back_by_their_ids(static: tuple[int, ...]) -> None:
    said = steps(ONE, static=static)
    assert "bring back controllers 2, 3, one after the other" in said
    assert ("kraft.version=1" in said) == bool(static)


@pytest.mark.parametrize("static", [(), (1, 2, 3)], ids=["dynamic", "static"])
def test_voters_that_only_moved_leave_none_to_bring_back(static: tuple[int, ...]) -> None:
    said = steps(THREE, static=static)
    assert "bring back" not in said and "kafka-features" not in said


def test_a_broker_whose_copy_was_not_given_is_named() -> None:
    assert "broker 4, not given as a copy: nothing, unless one ends" in steps(ONE)


def test_the_cluster_of_a_snapshot_file_is_that_of_the_directory_written_to() -> None:
    source, target = a_copy(None, 100, of=THREE), a_copy(1, 0)
    source.identity.cluster_id = None
    plan = Plan(1003, 101, ONE, False, b"", ())
    said = next_steps(plan, source, [Target("to", 1, target, False)], judge([source]))
    assert any("format -t cluster -c FILE" in one for one in said)


@pytest.mark.parametrize("source", [4, 1], ids=["broker", "controller"])
def test_a_broker_beyond_the_cut_is_told_that_it_drops_records(source: int) -> None:
    copies = {one: a_copy(one, 100, of=THREE, brokers=(4, 5)) for one in (1, 4)}
    chosen = copies.pop(source)
    plan = Plan(1003, 60, ONE, False, b"", ())
    said = next_steps(plan, chosen, (), judge([chosen, *copies.values()], chosen))
    assert [one for one in said if one.startswith("broker at")] == [
        "broker at node4: it drops its records 60 to 99 by itself; if its process ends at that,"
        " start it again, and leave its directory as it is"
    ]
