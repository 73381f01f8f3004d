"""The small parts of the observer by themselves: where logs part, whom to ask, how long to rest, who votes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quorum import Address, ObserverSettings, voters
from gateway.quorum.backoff import Backoff
from gateway.quorum.divergence import truncation_offset
from gateway.quorum.introduction import Introduction
from gateway.quorum.leader import Heard, Leadership, Said
from gateway.quorum.requests import Position
from kwire.messages import describe_quorum_response as quorum
from kwire.messages.fetch_response import NodeEndpoint
from tests.gateway.quorum.batches import data_batch, leader_change
from tests.gateway.quorum.model import Voter
from tests.gateway.quorum.process import ModelLog

A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)


# --- where logs part --------------------------------------------------------------------------------------------------


@st.composite
def parted_logs(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """(epochs of the records both have, of the follower's tail, of the leader's): what raft can leave behind.

    One (offset, epoch) is one record: the tails share no epoch, and only one of them goes on in the last common one.
    """
    common = sorted(draw(st.lists(st.integers(1, 4), max_size=8)))
    last = common[-1] if common else 0
    later = draw(st.lists(st.integers(last + 1, last + 8), unique=True, max_size=6))
    of_follower = draw(st.sets(st.sampled_from(later), max_size=3)) if later else set()
    tails = [sorted(of_follower), sorted(set(later) - of_follower)]
    if common:
        tails[draw(st.integers(0, 1))].insert(0, last)
    grown = [[epoch for epoch in tail for _ in range(draw(st.integers(1, 3)))] for tail in tails]
    return common, grown[0], grown[1]


def filled(log: ModelLog | Voter, epochs: list[int], values: list[int]) -> None:
    for offset, (epoch, value) in enumerate(zip(epochs, values, strict=True)):
        log.batches.append(data_batch(offset, 1, epoch, value))


@given(parted_logs())
def test_logs_are_cut_back_to_what_both_have_and_no_further(logs: tuple[list[int], list[int], list[int]]) -> None:
    common, ours, theirs = logs
    follower, leader = ModelLog(), Voter(1)
    filled(follower, common + ours, [0] * len(common) + [1] * len(ours))
    filled(leader, common + theirs, [0] * len(common) + [2] * len(theirs))
    for _ in range(20):
        offset, epoch = follower.end_offset, follower.last_epoch
        known, end = leader.end_of_epoch(epoch)
        if (offset, epoch) == (0, 0) or (known == epoch and offset <= end):
            break
        target = truncation_offset(follower, Position(end, known))
        assert target < offset, "every answer takes something away"
        follower.truncate(target)
    assert follower.end_offset == len(common)
    assert follower.batches == leader.batches[: follower.end_offset]


def test_a_log_that_begins_at_a_snapshot_is_never_cut_below_it() -> None:
    class Log(ModelLog):
        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return -1, -1

    log = Log()
    log.start = type(log.start)(20, 5)
    assert truncation_offset(log, Position(30, 3)) == 20


# --- whom to ask ------------------------------------------------------------------------------------------------------


def test_without_a_leader_everybody_is_asked_in_turn() -> None:
    leadership = Leadership((A, B, C), 0, -1, 0)
    assert [leadership.target()[0] for _ in range(4)] == [B, C, A, B]
    assert leadership.target()[1] == -1


def test_a_leader_that_fails_is_asked_in_turn_with_the_others() -> None:
    leadership = Leadership((A, B, C), 3, 7, 0)
    leadership.hear(A, Said(7, 3, 0, []))
    asked = []
    for _ in range(6):
        address, _ = leadership.target()
        asked.append(address)
        leadership.doubt(address)
    assert asked == [A, B, A, C, A, B]


def test_learned_addresses_are_candidates_and_bounded() -> None:
    leadership = Leadership((A,), 3, 7, 0)
    leadership.learn([(7, "leader", 9), (8, "", 9), (9, "x", 0), (-1, "x", 9), (10, "x" * 300, 9), (11, "x", 70000)])
    assert leadership.candidates() == [A, Address("leader", 9)]
    leadership.learn([(7, "advertised", 9)], only_new=True)
    assert leadership.leader_address == Address("leader", 9)
    leadership.learn([(id, f"host{id}", 9) for id in range(1000)])
    assert len(leadership.addresses) <= 64 and leadership.leader_address == Address("host7", 9)


def test_an_epoch_never_goes_back() -> None:
    leadership = Leadership((A,), 3, 7, 0)
    assert leadership.hear(A, Said(8, 2, 0, [])).problem
    assert leadership.hear(A, Said(8, -1, 0, [])).problem
    assert (leadership.epoch, leadership.leader_id) == (3, 7)
    assert leadership.hear(A, Said(-1, 4, 74, [])) == Heard(True, "FENCED_LEADER_EPOCH (74)")
    assert (leadership.epoch, leadership.leader_id) == (4, -1)


def test_where_a_leader_answers_beats_what_it_advertises() -> None:
    leadership = Leadership((A,), 3, -1, 0)
    assert leadership.hear(A, Said(7, 3, 6, [NodeEndpoint(node_id=7, host="advertised", port=9)])).changed
    assert leadership.leader_address == Address("advertised", 9)
    assert leadership.hear(A, Said(7, 3, 0, [NodeEndpoint(node_id=7, host="advertised", port=9)])) == Heard(False, "")
    assert leadership.leader_address == A


# --- how long to rest -------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_pauses_double_up_to_the_most_and_are_never_less_than_half(dice: list[float]) -> None:
    rolls = iter(dice)
    backoff = Backoff(0.02, 1.0, lambda: next(rolls))
    for n in range(len(dice)):
        whole = min(1.0, 0.02 * 2**n)
        assert whole / 2 <= backoff.failed() <= whole
    backoff.progress()
    assert backoff.failures == 0


# --- who votes --------------------------------------------------------------------------------------------------------


def described(error: int = 0, partition_error: int = 0, ids: tuple[int, ...] = (1, 2)) -> quorum.DescribeQuorumResponse:
    replicas = [quorum.ReplicaState(replica_id=id) for id in ids]
    partition = quorum.PartitionData(error_code=partition_error, current_voters=replicas)
    listener = quorum.Listener(name="CONTROLLER", host="h", port=9)
    return quorum.DescribeQuorumResponse(
        error_code=error,
        topics=[quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])],
        nodes=[quorum.Node(node_id=1, listeners=[listener]), quorum.Node(node_id=2)],
    )


def test_the_voters_that_a_leader_describes() -> None:
    assert voters.voters_described(described()) == frozenset({1, 2})
    assert voters.endpoints_described(described()) == [(1, "h", 9)]


def test_a_follower_describes_no_quorum_of_nobody() -> None:
    assert voters.voters_described(described(partition_error=6, ids=())) is None
    assert voters.voters_described(described(ids=())) is None
    assert voters.voters_described(described(error=31)) is None
    assert voters.voters_described(quorum.DescribeQuorumResponse()) is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_voters_that_the_log_names(dynamic: bool) -> None:
    change = leader_change(0, 1, 1, (1, 2, 3), dynamic)
    assert voters.voters_recorded(change.data) == frozenset({1, 2, 3})
    later = leader_change(change.next, 2, 1, (1, 2))
    assert voters.voters_recorded(change.data + data_batch(5, 1, 1, 0).data + later.data) == frozenset({1, 2})
    assert voters.voters_recorded(data_batch(0, 2, 1, 0).data) is None


@pytest.mark.parametrize("cut", [10, 61, 70, 80, 95])
def test_damaged_batches_name_nobody(cut: int) -> None:
    data = leader_change(0, 1, 1, (1, 2, 3), True).data
    assert voters.voters_recorded(data[:cut]) is None
    assert voters.voters_recorded(data[:cut] + b"\xff" * (len(data) - cut)) in (None, {1, 2, 3})


def test_a_voters_id_is_refused_by_a_sentence_that_names_the_voters() -> None:
    assert voters.refusal(3, {1, 2}) is None and voters.refusal(-1, {1, 2}) is None
    sentence = voters.refusal(2, {2, 1})
    assert sentence is not None and "replica.id 2" in sentence and "1, 2" in sentence


def test_the_replica_id_is_kept_back_until_the_voters_are_known() -> None:
    introduction = Introduction(ObserverSettings(bootstrap=(A,), replica_id=70))
    assert introduction.identity.replica_id == -1
    introduction.voters = frozenset({1})
    assert introduction.identity.replica_id == 70


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap": ()},
        {"replica_id": -2},
        {"fetch_max_bytes": 0},
        {"snapshot_max_bytes": 0},
        {"backoff_min_s": 0.0},
        {"backoff_min_s": 2.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        ObserverSettings(**{"bootstrap": (A,), **wrong})  # type: ignore[arg-type]
