"""A leader decides about its followers (KIP-497)."""

from __future__ import annotations

import pytest

from gateway.broker.replica.follower_state import Contact
from gateway.broker.replica.isr import CommittedIsr, Proposal
from kwire.protocol import ErrorCode
from tests.gateway.broker.replica.leaders import LAG_S, World


def requested(proposal: Proposal | None) -> list[tuple[int, int]] | None:
    return None if proposal is None else [tuple(one) for one in proposal.requested]  # type: ignore[misc]


# --- the high watermark
# ------------------------------------------------------------------------------------------------


def test_high_watermark_is_where_every_replica_in_sync_has_the_log() -> None:
    world = World()
    assert world.leader.high_watermark == 0  # no follower has fetched
    world.fetch(2, 10)
    assert world.leader.high_watermark == 0
    world.fetch(3, 7)
    assert world.leader.high_watermark == 7
    world.fetch(3, 10)
    assert world.leader.high_watermark == 10


def test_high_watermark_of_a_sole_replica_is_the_end_of_its_log() -> None:
    world = World((1,), end=4)
    world.lead(1, (1,), replicas=[1])
    assert world.leader.high_watermark == 4
    world.append(9)
    assert world.leader.high_watermark == 9


def test_high_watermark_never_goes_back() -> None:
    world = World()
    world.fetch(2, 10)
    world.fetch(3, 10)
    world.fetch(3, 4)  # its log was cut
    assert world.leader.high_watermark == 10


def test_high_watermark_waits_for_a_replica_that_is_about_to_join() -> None:
    world = World((1, 2))
    world.fetch(2, 10)
    assert world.leader.high_watermark == 10
    proposal = world.fetch(3, 10)
    assert proposal is not None
    world.leader.on_altered(proposal, ErrorCode.INELIGIBLE_REPLICA, world.now)
    world.append(20)
    world.fetch(2, 20)
    assert world.leader.high_watermark == 10  # it would never reach one that runs away
    world.now += LAG_S + 1
    world.append(30)
    world.fetch(2, 30)
    assert world.leader.high_watermark == 30


def test_nothing_is_committed_by_fewer_replicas_than_min_insync_replicas() -> None:
    world = World((1,), min_isr=2)
    assert world.leader.is_under_min_isr and world.leader.high_watermark == 0
    world.lead(1, (1, 2))
    world.fetch(2, 10)
    assert not world.leader.is_under_min_isr and world.leader.high_watermark == 10


def test_min_insync_replicas_is_no_more_than_there_are_replicas() -> None:
    world = World((1,), min_isr=2)
    world.lead(1, (1,), replicas=[1])
    assert world.leader.min_isr == 1 and world.leader.high_watermark == 10


def test_records_of_too_few_replicas_are_acknowledged_with_an_error() -> None:
    world = World((1, 2), min_isr=2)
    assert world.leader.fault_of_commit() is ErrorCode.NONE
    world.lead(1, (1,))
    assert world.leader.fault_of_commit() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


# --- comparison
# ------------------------------------------------------------------------------------------------


def test_log_that_was_compared_counts_as_such_until_another_epoch() -> None:
    world = World((1, 2), end=10)
    assert not world.leader.has_compared(2)
    world.fetch(2, 9, is_compared=True)
    world.fetch(2, 10, is_compared=False)  # the leader has deleted the record before 10
    assert world.leader.has_compared(2) and not world.leader.has_compared(3)
    world.lead(1, (1,))
    assert world.leader.has_compared(2)
    world.lead(2, (1, 2))
    assert not world.leader.has_compared(2)


@pytest.mark.parametrize(("before", "after"), [(102, 103), (-1, -1), (102, -1), (-1, 102)])
def test_log_of_another_process_is_to_be_compared_again(before: int, after: int) -> None:
    world = World((1, 2), end=10)
    world.fetch(2, 10, is_compared=True, epoch=before)
    world.fetch(2, 10, is_compared=False, epoch=after)
    assert not world.leader.has_compared(2)
    world.fetch(2, 10, is_compared=True, epoch=after)
    assert world.leader.has_compared(2)


def test_replica_that_was_taken_away_is_to_be_compared_again() -> None:
    world = World((1, 2), end=10)
    world.fetch(2, 10, is_compared=True)
    world.lead(1, (1,), replicas=[1, 3])
    assert not world.leader.has_compared(2)
    world.lead(1, (1,))
    assert not world.leader.has_compared(2)


# --- expansion
# ------------------------------------------------------------------------------------------------


def test_follower_with_the_high_watermark_and_the_start_of_the_epoch_joins() -> None:
    world = World((1,), end=10)
    assert world.fetch(2, 9) is None
    proposal = world.fetch(2, 10)
    assert requested(proposal) == [(1, 101), (2, 102)]
    assert proposal is not None and proposal.is_expansion
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 0)


def test_follower_that_is_behind_where_the_leader_began_does_not_join() -> None:
    # Another leader may have committed records up to there.
    world = World((1,), min_isr=2, end=10)
    assert world.leader.high_watermark == 0
    assert world.fetch(2, 5) is None
    assert world.fetch(2, 10) is not None


def test_replica_that_is_to_join_counts_for_the_high_watermark_before_it_has() -> None:
    world = World((1,), end=10)
    proposal = world.fetch(2, 10)
    assert proposal is not None and world.leader.state.isr == {1}
    world.append(20)
    assert world.leader.high_watermark == 10
    assert not world.leader.on_altered(proposal, world.altered(proposal), world.now)
    assert world.leader.state == CommittedIsr(frozenset({1, 2}))
    assert world.leader.high_watermark == 10 and world.leader.partition_epoch == 1


def test_one_change_is_asked_for_at_a_time() -> None:
    world = World((1,))
    assert world.fetch(2, 10) is not None
    assert world.fetch(3, 10) is None
    world.now += 2 * LAG_S
    assert world.leader.check_lag(world.now) is None


@pytest.mark.parametrize("what", ["fenced", "in_controlled_shutdown", "gone", "restarted"])
def test_broker_that_may_not_be_elected_does_not_join(what: str) -> None:
    world = World((1,))
    if what == "gone":
        del world.brokers[2]
    elif what == "restarted":
        world.fetch(2, 9)
        world.brokers[2].broker_epoch = 200
        assert world.leader.check_follower(2, 102) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert world.fetch(2, 10, epoch=200) is not None
        return
    else:
        setattr(world.brokers[2], what, True)
    assert world.fetch(2, 10) is None


def test_follower_without_a_broker_epoch_may_join() -> None:
    world = World((1,))
    assert requested(world.fetch(2, 10, epoch=-1)) == [(1, 101), (2, -1)]


def test_replica_that_the_image_does_not_name_is_told_to_try_again() -> None:
    assert World().leader.check_follower(4, -1) is ErrorCode.UNKNOWN_LEADER_EPOCH


# --- lag
# ------------------------------------------------------------------------------------------------


def test_replica_that_lags_for_too_long_leaves() -> None:
    world = World()
    world.fetch(2, 10)
    world.fetch(3, 10)
    world.append(20)
    world.now += LAG_S
    assert world.leader.check_lag(world.now) is None
    world.fetch(2, 20)
    world.now += 1
    assert requested(world.leader.check_lag(world.now)) == [(1, 101), (2, 102)]


def test_replica_that_never_fetched_has_the_time_of_the_lag() -> None:
    world = World()
    world.now += LAG_S
    assert world.leader.check_lag(world.now) is None
    world.now += 1
    assert requested(world.leader.check_lag(world.now)) == [(1, 101)]


def test_replica_with_everything_stays_while_nothing_is_written() -> None:
    world = World((1, 2))
    world.fetch(2, 10)
    world.now += 100 * LAG_S
    assert world.leader.check_lag(world.now) is None


def test_requests_of_the_session_without_the_partition_count_until_the_log_grows() -> None:
    world = World((1, 2))
    contact = Contact(world.now)
    world.fetch(2, 10, contact=contact)
    world.now += 100 * LAG_S
    contact.at = world.now  # the newest Fetch, which left the partition out
    world.append(20)
    world.now += LAG_S
    assert world.leader.check_lag(world.now) is None
    contact.at = world.now  # it has not got the records
    world.now += 1
    assert world.leader.check_lag(world.now) is not None


def test_fetch_from_where_the_log_ended_at_the_one_before_counts_from_then() -> None:
    world = World((1, 2))
    world.append(20)
    world.fetch(2, 10)  # it gets up to 20
    began = world.now
    world.now += LAG_S
    world.append(30)
    world.fetch(2, 20)
    assert world.leader.followers[2].caught_up_at == began
    assert world.leader.check_lag(world.now) is None


def test_removed_replica_counts_until_the_controller_has_agreed() -> None:
    world = World((1, 2))
    world.fetch(2, 10)
    world.append(20)
    world.now += LAG_S + 1
    proposal = world.leader.check_lag(world.now)
    assert proposal is not None and world.leader.high_watermark == 10
    world.append(30)
    assert world.leader.high_watermark == 10
    world.leader.on_altered(proposal, world.altered(proposal), world.now)
    assert world.leader.high_watermark == 30 and world.leader.state.isr == {1}


def test_follower_that_left_comes_back() -> None:
    world = World((1,), end=20)
    world.fetch(2, 5)
    assert world.leader.high_watermark == 20
    assert world.fetch(2, 20) is not None


# --- answers of the controller
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_change_that_was_not_made_is_given_up(error: ErrorCode) -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    assert proposal is not None
    assert not world.leader.on_altered(proposal, error, world.now)
    assert world.leader.state == CommittedIsr(frozenset({1}))


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_change_whose_outcome_is_not_known_waits_for_the_image(error: ErrorCode) -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    assert proposal is not None
    assert not world.leader.on_altered(proposal, error, world.now)
    assert world.leader.state is proposal
    world.lead(1, (1, 2))
    assert world.leader.state.maximal == {1, 2} == world.leader.state.isr


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_change_is_asked_for_again_after_another_error(error: ErrorCode) -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    assert proposal is not None and world.leader.on_altered(proposal, error, world.now)
    assert world.leader.state is proposal


def test_answer_behind_the_image_counts_for_nothing() -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    assert proposal is not None
    world.lead(1, (1, 3), partition_epoch=5)
    assert not world.leader.on_altered(proposal, world.altered(proposal), world.now)
    assert world.leader.state.isr == {1, 3} and world.leader.partition_epoch == 5


def test_record_behind_the_answer_counts_for_nothing() -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    assert proposal is not None
    world.leader.on_altered(proposal, world.altered(proposal, partition_epoch=7), world.now)
    world.lead(1, (1,), partition_epoch=6)
    assert world.leader.state.isr == {1, 2}


def test_record_that_the_leader_knows_does_not_end_a_change() -> None:
    world = World((1,))
    proposal = world.fetch(2, 10)
    world.lead(1, (1,), partition_epoch=0)
    assert world.leader.state is proposal


# --- leader epochs and assignments
# ------------------------------------------------------------------------------------------------


def test_new_epoch_of_the_same_leader_waits_for_a_fetch_of_its_followers() -> None:
    world = World(isr=(1, 2, 3), end=10)
    world.fetch(2, 10)
    world.fetch(3, 5)
    world.now += 5
    # Another broker may have led meanwhile, and broker 2 have cut its log; broker 3 left the ISR.
    world.lead(2, (1, 2))
    assert world.leader.epoch_start_offset == 10 and world.leader.high_watermark == 5
    assert world.leader.followers[2].caught_up_at == world.now
    world.fetch(2, 7)
    assert world.leader.high_watermark == 7


def test_replica_that_was_removed_and_added_again_is_not_taken_for_one_with_its_log() -> None:
    world = World(isr=(1, 2, 3), end=10)
    world.fetch(3, 10)
    world.lead(2, (1, 2))  # both changes at once: broker 3 has deleted its log
    assert world.leader.look_again() is None


def test_assignment_adds_and_removes_followers() -> None:
    world = World((1, 2))
    world.fetch(2, 10)
    world.lead(1, (1, 2), replicas=[1, 2, 4])
    assert set(world.leader.followers) == {2, 4}
    assert world.leader.followers[2].end_offset == 10


def test_leader_that_recovers_has_recovered() -> None:
    world = World((1,))
    world.lead(2, (1,), leader_recovery_state=1)
    assert world.leader.state.recovery_state == 0


def test_low_watermark_is_the_smallest_log_start_of_brokers_that_are_alive() -> None:
    world = World()
    assert world.leader.low_watermark(8) == -1
    world.fetch(2, 10, start=5)
    world.fetch(3, 10, start=3)
    assert world.leader.low_watermark(8) == 3
    world.brokers[3].fenced = True
    assert world.leader.low_watermark(8) == 5
    assert world.leader.low_watermark(2) == 2
