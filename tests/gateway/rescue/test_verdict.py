"""The choice of a copy, the proof that nothing is lost, and the epoch of a rescue."""

from __future__ import annotations

import pytest

from gateway.rescue.compare import compare
from gateway.rescue.copies import Copy, Position
from gateway.rescue.verdict import BROKER, EPOCH_MARGIN, EPOCH_MAX, GATEWAY, VOTER, judge
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.rescue.copies import a_copy, voters

THREE = voters(1, 2, 3)


def test_of_two_copies_the_later_epoch_is_chosen_before_the_larger_offset() -> None:
    longer, newer = a_copy(1, 200, 3, of=THREE), a_copy(2, 150, 4, of=THREE)
    verdict = judge([longer, newer])
    assert verdict.best is newer
    assert "a newer leader went on without its last records" in verdict.reason


def test_a_brokers_copy_that_reaches_further_is_chosen() -> None:
    verdict = judge([a_copy(1, 100, of=THREE), broker := a_copy(4, 120, of=THREE)])
    assert verdict.best is broker


def test_of_equal_copies_a_whole_one_is_chosen() -> None:
    whole = a_copy(2, 100, of=THREE)
    assert judge([a_copy(1, 100, of=THREE, damaged=True), whole]).best is whole


@pytest.mark.parametrize(
    ("of", "present", "excluded"),
    [
        ((1, 2, 3), (1, 2), True),
        ((1, 2, 3), (3,), False),
        ((1, 2, 3, 4), (3, 4), False),
        ((1, 2, 3, 4), (2, 3, 4), True),
        ((1, 2), (2,), False),
        ((1, 2, 3, 4, 5), (3, 4, 5), True),
        ((1, 2, 3, 4, 5), (4, 5), False),
        ((1,), (1,), True),
    ],
)
def test_loss_is_excluded_by_a_majority_of_the_voters_alone(
    of: tuple[int, ...], present: tuple[int, ...], excluded: bool
) -> None:
    """Half of four voters is too little: the other half may have removed a voter since."""
    loss = judge([a_copy(one, 100, of=voters(*of)) for one in present]).loss
    assert loss is not None and loss.is_excluded == excluded
    assert loss.present == present
    assert loss.absent == tuple(sorted(set(of) - set(present)))
    assert (loss.from_offset, loss.certain_offset) == (100, 0)


def test_brokers_never_exclude_a_loss() -> None:
    loss = judge([a_copy(one, 100, of=THREE) for one in (4, 5, 6)]).loss
    assert loss is not None and not loss.is_excluded
    assert "voters 1, 2, 3 may have had more" in loss.reason


def test_a_damaged_voter_does_not_count() -> None:
    loss = judge([a_copy(1, 100, of=THREE), a_copy(2, 90, of=THREE, damaged=True)]).loss
    assert loss is not None and not loss.is_excluded
    assert "not counting the damaged or empty one of voter 2" in loss.reason


def test_an_empty_log_of_a_voter_does_not_count() -> None:
    loss = judge([a_copy(1, 100, of=THREE), a_copy(2, 0, -1)]).loss
    assert loss is not None and not loss.is_excluded and loss.present == (1,)


def test_another_disk_of_a_voter_does_not_count() -> None:
    former = a_copy(2, 100, of=THREE)
    former.identity.directory_id = a_copy(9, 1).identity.directory_id
    loss = judge([a_copy(1, 100, of=THREE), former]).loss
    assert loss is not None and loss.present == (1,)


def test_voters_of_a_younger_change_in_another_copy_count_too() -> None:
    """The best copy names three voters, and another one a later change to other voters."""
    best = a_copy(1, 100, 4, of=THREE)
    other = a_copy(2, 110, 3, of=voters(5, 6, 7), voters_at=105)
    loss = judge([best, other]).loss
    assert loss is not None and not loss.is_excluded and loss.absent == (5, 6, 7)


def test_a_gateways_high_watermark_beyond_the_copy_is_a_loss() -> None:
    gateway = a_copy(1, 90, of=THREE, high_watermark=120)
    gateway.identity.is_gateway = True
    verdict = judge([a_copy(1, 100, of=THREE), a_copy(2, 100, of=THREE), gateway])
    assert verdict.loss is not None and not verdict.loss.is_excluded
    assert "up to offset 120 were committed" in verdict.loss.reason


def test_what_a_gateway_serves_and_what_a_snapshot_has_is_sure_to_be_committed() -> None:
    """The rest of the best copy may be the tail of a leader that was cut off."""
    common = ((0, 1, 10), (50, 3, 11))
    best = a_copy(1, 100, 4, of=THREE, batches=(*common, (60, 4, 12)))
    assert certain(best) == 0
    best.snapshots = (SnapshotId(50, 1),)
    assert certain(best) == 50
    assert certain(best, a_copy(9, 60, 3, batches=common, high_watermark=55)) == 55
    parted = a_copy(9, 70, 3, batches=(*common, (60, 3, 99)), high_watermark=65)
    assert certain(best, parted) == 60
    assert certain(best, a_copy(9, 120, 3, high_watermark=110)) == 100
    cut = a_copy(9, 50, 1, batches=common[:1], high_watermark=90, damaged=True)
    assert certain(best, cut) == 50, "what the gateway served behind the damage may be different"


def certain(best: Copy, *others: Copy) -> int:
    loss = judge([best, *others], best).loss
    assert loss is not None
    return loss.certain_offset


def test_a_gateway_with_the_id_of_a_static_voter_is_no_voter() -> None:
    controller = a_copy(2, 100, static=(1, 2, 3))
    gateway = a_copy(1, 100, static=(1, 2, 3))
    gateway.identity.is_gateway = True
    verdict = judge([controller, gateway])
    assert verdict.loss is not None and verdict.loss.present == (2,)
    assert [one.role for one in verdict.beside] == [GATEWAY]


def test_a_static_quorum_is_judged_by_the_voters_in_quorum_state() -> None:
    loss = judge([a_copy(one, 100, static=(1, 2, 3)) for one in (1, 3)]).loss
    assert loss is not None and loss.is_excluded and loss.absent == (2,)


def test_the_new_epoch_lies_above_every_epoch_that_any_file_names() -> None:
    behind = a_copy(2, 10, 2, of=THREE)
    behind.see_epoch(77)
    verdict = judge([a_copy(1, 100, 5, of=THREE), behind])
    assert (verdict.epoch_seen, verdict.new_epoch) == (77, 77 + EPOCH_MARGIN)


def test_without_an_epoch_left_there_is_no_new_one() -> None:
    copy = a_copy(1, 100, of=THREE)
    copy.see_epoch(EPOCH_MAX - 1)
    assert judge([copy]).new_epoch is None


def test_copies_without_a_record_give_no_verdict() -> None:
    verdict = judge([Copy("empty")])
    assert verdict.best is None and verdict.loss is None


def test_copies_of_two_clusters_are_an_objection() -> None:
    other = a_copy(2, 100, of=THREE)
    other.identity.cluster_id = "another"
    assert "different clusters" in judge([a_copy(1, 100, of=THREE), other]).objections[0]


def test_a_copy_from_before_an_upgrade_of_kraft_version_is_no_objection() -> None:
    batches = ((0, 1, 10), (5, 1, 11))
    before = a_copy(2, 6, static=(1, 2, 3), batches=batches)
    after = a_copy(1, 100, of=THREE, batches=(*batches, (6, 1, 12)))
    assert judge([before, after]).objections == ()
    parted = a_copy(2, 6, static=(1, 2, 3), batches=((0, 1, 10), (5, 1, 99)))
    assert "kraft.version 0 and another history" in judge([parted, after]).objections[0]


def test_each_other_copy_gets_its_advice() -> None:
    common = ((0, 1, 10), (50, 3, 11))
    best = a_copy(1, 100, 4, of=THREE, batches=(*common, (60, 4, 12)))
    behind = a_copy(4, 60, 3, batches=common)
    ahead = a_copy(5, 110, 3, batches=(*common, (60, 3, 77)))
    voter = a_copy(2, 60, 3, batches=common)
    advice = {one.copy.where: one for one in judge([best, behind, ahead, voter]).beside}
    assert advice["node4"].role == BROKER and "without a restart" in advice["node4"].advice
    assert advice["node5"].own_tail == (60, 110)
    assert "drops its records 60 to 109" in advice["node5"].advice
    assert advice["node2"].role == VOTER and "keep it off" in advice["node2"].advice


def test_a_gateway_that_served_records_which_are_gone_needs_a_fresh_directory() -> None:
    """It refuses to follow a quorum that lost what it reported as committed."""
    best, served = a_copy(1, 100, of=THREE), a_copy(6, 110, high_watermark=105)
    served.identity.is_gateway = True
    [beside] = judge([best, served], best).beside
    assert "records 100 to 104 as committed" in beside.advice and "fresh data.dir" in beside.advice
    served.high_watermark = 100
    [beside] = judge([best, served], best).beside
    assert "drops its records 100 to 109 by itself" in beside.advice


def test_copies_part_at_the_first_batch_that_differs() -> None:
    one = a_copy(1, 9, batches=((0, 1, 10), (3, 1, 11), (5, 2, 12)))
    assert compare(one, a_copy(2, 5, batches=((0, 1, 10), (3, 1, 11)))).parts_at is None
    assert compare(one, a_copy(2, 9, batches=((0, 1, 10), (3, 1, 99)))).parts_at == 3
    assert compare(one, a_copy(2, 9, batches=((3, 1, 11), (5, 3, 12)))).parts_at == 5
    assert compare(one, a_copy(2, 9, batches=((0, 1, 10), (4, 1, 11)))).parts_at == 3
    assert compare(one, a_copy(2, 9)).batches == 0


def test_positions_are_ordered_as_votes_are() -> None:
    assert Position(4, 10) > Position(3, 99) and Position(4, 11) > Position(4, 10)
