"""The small parts of the observer by themselves: where logs diverge, how long to rest, who votes,
which settings work.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.address import Address
from gateway.quorum import batches, voters
from gateway.quorum.backoff import Backoff
from gateway.quorum.divergence import truncation_offset
from gateway.quorum.partition import Position
from gateway.quorum.response_checks import InvalidResponse
from kwire.messages import describe_quorum_response as quorum
from tests.gateway.quorum.batches import data_batch, leader_change
from tests.gateway.quorum.observer.model import Voter
from tests.gateway.quorum.observer.process import ModelLog, observer_settings

A = Address("a", 1)


# --- where logs part
# -------------------------------------------------------------------------------------------------


@st.composite
def parted_logs(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """(epochs of the records both have, of the follower's tail, of the leader's): what raft can
    leave behind.

    One (offset, epoch) is one record: the tails share no epoch, and only one of them goes on in the
    last common one.
    """
    common = sorted(draw(st.lists(st.integers(1, 4), max_size=8)))
    last = common[-1] if common else 0
    pending = draw(st.lists(st.integers(last + 1, last + 8), unique=True, max_size=6))
    of_follower = draw(st.sets(st.sampled_from(pending), max_size=3)) if pending else set()
    tails = [sorted(of_follower), sorted(set(pending) - of_follower)]
    if common:
        tails[draw(st.integers(0, 1))].insert(0, last)
    grown = [[epoch for epoch in tail for _ in range(draw(st.integers(1, 3)))] for tail in tails]
    return common, grown[0], grown[1]


def filled(log: ModelLog | Voter, epochs: list[int], values: list[int]) -> None:
    for offset, (epoch, value) in enumerate(zip(epochs, values, strict=True)):
        log.batches.append(data_batch(offset, 1, epoch, value))


@given(parted_logs())
def test_logs_are_cut_back_to_what_both_have_and_no_further(
    logs: tuple[list[int], list[int], list[int]],
) -> None:
    common, follower_batches, leader_batches = logs
    follower, leader = ModelLog(), Voter(1)
    filled(follower, common + follower_batches, [0] * len(common) + [1] * len(follower_batches))
    filled(leader, common + leader_batches, [0] * len(common) + [2] * len(leader_batches))
    for _ in range(20):
        offset, epoch = follower.end_offset, follower.last_epoch
        known, end = leader.end_of_epoch(epoch)
        if (offset, epoch) == (0, 0) or (known == epoch and offset <= end):
            break
        target = truncation_offset(follower, Position(end, known))
        assert target < offset, "every answer takes something away"
        follower.truncate_to(target)
    assert follower.end_offset == len(common)
    assert follower.batches == leader.batches[: follower.end_offset]


def test_a_log_that_begins_at_a_snapshot_is_never_cut_below_it() -> None:
    class Log(ModelLog):
        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return -1, -1

    log = Log()
    log.start = type(log.start)(20, 5)
    assert truncation_offset(log, Position(30, 3)) == 20


# --- how long to rest
# -------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_pauses_double_up_to_the_most_and_are_never_less_than_half(fractions: list[float]) -> None:
    rolls = iter(fractions)
    backoff = Backoff(0.02, 1.0, lambda: next(rolls))
    for n in range(len(fractions)):
        whole = min(1.0, 0.02 * 2**n)
        assert whole / 2 <= backoff.failed() <= whole
    backoff.progress()
    assert backoff.failures == 0


# --- who votes
# -------------------------------------------------------------------------------------------------


def described(
    error: int = 0, partition_error: int = 0, ids: tuple[int, ...] = (1, 2)
) -> quorum.DescribeQuorumResponse:
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


def test_a_follower_describes_no_empty_quorum() -> None:
    assert voters.voters_described(described(partition_error=6, ids=())) is None
    assert voters.voters_described(described(ids=())) is None
    assert voters.voters_described(described(error=31)) is None
    assert voters.voters_described(quorum.DescribeQuorumResponse()) is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_voters_that_the_log_names(dynamic: bool) -> None:
    change = leader_change(0, 1, 1, (1, 2, 3), dynamic)
    assert batches.inspect(change.data).voter_ids == frozenset({1, 2, 3})
    pending = leader_change(change.next, 2, 1, (1, 2))
    assert batches.inspect(
        change.data + data_batch(5, 1, 1, 0).data + pending.data
    ).voter_ids == frozenset({1, 2})
    assert batches.inspect(data_batch(0, 2, 1, 0).data).voter_ids is None


@pytest.mark.parametrize("cut", [10, 61, 70, 80, 95])
def test_damaged_batches_name_no_voters(cut: int) -> None:
    data = leader_change(0, 1, 1, (1, 2, 3), True).data
    with pytest.raises(InvalidResponse):
        batches.inspect(data[:cut] + b"\xff" * (len(data) - cut))


def test_a_voters_id_is_refused_by_a_sentence_that_names_the_voters() -> None:
    assert voters.refusal(3, {1, 2}) is None and voters.refusal(-1, {1, 2}) is None
    sentence = voters.refusal(2, {2, 1})
    assert sentence is not None and "replica.id 2" in sentence and "1, 2" in sentence


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap": ()},
        {"replica_id": -2},
        {"fetch_max_bytes": 0},
        {"snapshot_max_bytes": 0},
        {"retry_backoff_s": 0.0},
        {"retry_backoff_s": 2.0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        observer_settings(**{"bootstrap": (A,), **wrong})
