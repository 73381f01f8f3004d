"""A rescue is refused with a sentence for each reason, and written where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.quorum.voter_set import VoterNode, VoterSet
from gateway.rescue.copies import Copy, Identity
from gateway.rescue.refusals import Request, Target, refusals
from gateway.rescue.verdict import EPOCH_MAX, judge
from tests.gateway.rescue.copies import a_copy, directory_of, voters

THREE, ONE = voters(1, 2, 3), voters(1)


def refused(
    source: Copy,
    others: Sequence[Copy] = (),
    *,
    new: VoterSet = ONE,
    target: Copy | None = None,
    epoch: int = 1003,
    accept_loss: bool = True,
    is_new: bool = False,
    leader: str | None = None,
) -> list[str]:
    copies = [source, *others]
    targets = [Target("target", 1, target or source, is_new)]
    request = Request(source, copies, new, targets, epoch, accept_loss, leader)
    return refusals(request, judge(copies, source))


def test_a_rescue_of_a_single_survivor_with_accepted_loss_is_written() -> None:
    assert refused(a_copy(1, 100, of=THREE)) == []


def test_a_loss_has_to_be_accepted_unless_it_is_excluded() -> None:
    alone, second = a_copy(1, 100, of=THREE), a_copy(2, 100, of=THREE)
    [sentence] = refused(alone, accept_loss=False)
    assert "from offset 100 on cannot be excluded" in sentence and "--accept-loss" in sentence
    assert refused(alone, [second], accept_loss=False) == []


def test_a_worse_copy_is_refused_and_the_better_one_named() -> None:
    [sentence] = refused(a_copy(1, 100, of=THREE), [a_copy(4, 101, of=THREE)])
    assert "give --from node4" in sentence


def test_a_damaged_copy_is_refused() -> None:
    [sentence] = refused(a_copy(1, 100, of=THREE, damaged=True))
    assert "file at byte 7: bad" in sentence


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_epoch_that_was_seen_is_refused(epoch: int) -> None:
    [sentence] = refused(a_copy(1, 100, of=THREE), epoch=epoch)
    assert f"epoch {epoch} is not above 3" in sentence


def test_an_epoch_that_cannot_be_led_is_refused() -> None:
    [sentence] = refused(a_copy(1, 100, of=THREE), epoch=EPOCH_MAX + 1)
    assert "too high" in sentence


def test_a_quorum_with_a_leader_is_refused() -> None:
    assert refused(a_copy(1, 100, of=THREE), leader="it has one") == ["it has one"]


def test_copies_of_two_clusters_are_refused() -> None:
    other = a_copy(2, 90, of=THREE)
    other.identity.cluster_id = "another"
    [sentence] = refused(a_copy(1, 100, of=THREE), [other])
    assert "different clusters" in sentence


def test_the_id_of_a_broker_is_refused_for_a_voter() -> None:
    source = a_copy(1, 100, of=THREE, brokers=(1, 4))
    assert refused(source) == []
    target = a_copy(4, 0)
    asked = Request(source, [source], voters(4), [Target("target", 4, target, False)], 1003, True)
    assert "4 is the id of a broker" in refusals(asked, judge([source], source))[0]


def test_another_directory_id_than_that_of_the_target_is_refused() -> None:
    other = VoterSet.of([VoterNode(1, directory_of(9), ONE.nodes[1].endpoints, (0, 1))])
    [sentence] = refused(a_copy(1, 100, of=THREE), new=other)
    assert "the node would not be the voter" in sentence


def test_equal_directory_ids_of_two_voters_are_refused() -> None:
    twice = VoterSet.of(
        VoterNode(one, directory_of(1), ONE.nodes[1].endpoints, (0, 1)) for one in (1, 2)
    )
    assert "same directory id" in refused(a_copy(1, 100, of=THREE), new=twice)[0]


def test_voters_without_a_target_are_refused_because_all_need_the_same_log() -> None:
    [sentence] = refused(a_copy(1, 100, of=THREE), new=voters(1, 2))
    assert "voter 2 has no --to" in sentence


def test_a_gateways_directory_is_no_target() -> None:
    target = a_copy(1, 90, of=THREE)
    target.identity.is_gateway = True
    [sentence] = refused(a_copy(4, 100, of=THREE), target=target)
    assert "copy of a gateway" in sentence


def test_a_target_of_another_cluster_or_without_an_owner_is_refused() -> None:
    target = a_copy(1, 0)
    target.identity.cluster_id = "another"
    assert "belongs to cluster another" in refused(a_copy(4, 100, of=THREE), target=target)[0]
    target.identity = Identity()
    [sentence] = refused(a_copy(4, 100, of=THREE), target=target)
    assert "no readable meta.properties" in sentence


def test_a_new_target_needs_the_cluster_of_the_source() -> None:
    source = a_copy(4, 100, of=THREE)
    empty = Copy("target")
    assert refused(source, target=empty, is_new=True) == []
    source.identity.cluster_id = None
    [sentence] = refused(source, target=empty, is_new=True)
    assert "names no cluster" in sentence


def test_a_source_without_a_record_is_refused() -> None:
    assert "has no record" in refused(a_copy(1, 0, -1))[0]
