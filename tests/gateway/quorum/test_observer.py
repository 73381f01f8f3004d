"""What a driver may do besides asking and answering: the corners that no transcript and no simulation goes through."""

from __future__ import annotations

import math

import pytest

from gateway.quorum import (
    Address,
    Advance,
    Append,
    Ask,
    Effect,
    LearnClusterId,
    Observer,
    ObserverSettings,
    Pause,
    Remember,
    Stop,
)
from kwire.message import Message
from kwire.messages import describe_quorum_response as quorum
from kwire.messages import fetch_response as fetch
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.process import ModelLog


def a_log() -> ModelLog:
    log = ModelLog()
    log.append(data_batch(0, 4, 2, 0).data)
    return log


def an_observer(
    log: ModelLog, *, epoch: int = 2, cluster_id: str | None = "abc", replica_id: int = -1, fetch_timeout_s: float = 2.0
) -> Observer:
    settings = ObserverSettings(
        bootstrap=(Address("a", 1),), cluster_id=cluster_id, replica_id=replica_id, fetch_timeout_s=fetch_timeout_s
    )
    return Observer(settings, log, epoch=epoch, leader_id=1, high_watermark=2, dice=lambda: 0.0)


def asked(observer: Observer, now: float) -> Ask:
    act = observer.next(now)
    assert isinstance(act, Ask)
    return act


def batches(high_watermark: int) -> Message:
    data = fetch.PartitionData(records=data_batch(4, 2, 2, 0).data, high_watermark=high_watermark)
    data.current_leader = fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])])


def only_stop(effects: list[Effect]) -> str:
    [stop] = effects
    assert isinstance(stop, Stop)
    return stop.reason


def test_a_log_knows_its_epoch_when_quorum_state_is_lost() -> None:
    facts = an_observer(a_log(), epoch=0).facts
    assert (facts.epoch, facts.leader_id) == (2, -1)


def test_effects_that_were_not_performed_are_no_progress() -> None:
    """A driver that dropped them, or a log that did nothing: the high watermark is taken back, and the pause begins."""
    observer = an_observer(a_log())
    effects = observer.answered(asked(observer, 0.0), batches(6), 18, 0.1)
    assert [type(effect) for effect in effects] == [Append, Advance] and observer.facts.high_watermark == 6
    pause = observer.next(0.1)
    assert isinstance(pause, Pause) and pause.until > 0.1
    assert observer.facts.high_watermark == 2 and observer.facts.failures == 1


@pytest.mark.parametrize(("fetch_timeout_s", "expected"), [(1.5, 1.5), (9.0, 2.0)])
def test_the_leader_may_be_silent_for_the_fetch_timeout(fetch_timeout_s: float, expected: float) -> None:
    observer = an_observer(a_log(), fetch_timeout_s=fetch_timeout_s)
    first = asked(observer, 0.0)
    assert (first.node_id, first.timeout_s) == (-1, 2.0)  # nobody knows yet who leads
    observer.answered(first, batches(6), 18, 1.0)
    pause = observer.next(1.0)
    assert isinstance(pause, Pause)
    second = asked(observer, pause.until)
    assert (second.node_id, second.timeout_s) == (1, expected)


def test_voters_learned_from_elsewhere_are_known_and_bring_their_addresses() -> None:
    observer = an_observer(a_log(), replica_id=70)
    partition = quorum.PartitionData(current_voters=[quorum.ReplicaState(replica_id=id) for id in (1, 2)])
    nodes = [quorum.Node(node_id=2, listeners=[quorum.Listener(name="C", host="b", port=2)])]
    topic = quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    assert observer.described(quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)) == []
    assert observer.facts.voters == {1, 2}
    request = asked(observer, 0.0).request(18)
    assert request.replica_state.replica_id == 70  # type: ignore[attr-defined]
    assert observer.described(quorum.DescribeQuorumResponse(error_code=31)) == []
    assert observer.facts.voters == {1, 2}


def test_our_id_among_the_voters_stops_for_good() -> None:
    observer = an_observer(a_log(), replica_id=70)
    ask = asked(observer, 0.0)
    reason = only_stop(observer.learn_voters([1, 70]))
    assert "70" in reason and observer.facts.stopped == reason
    assert observer.next(1.0) == Pause(math.inf)
    assert observer.answered(ask, batches(6), 18, 1.0) == []
    assert observer.learn_voters([1]) == []
    assert only_stop(observer.rejected("disk full", 1.0)) == reason, "a Stop that was not performed is said again"


def test_a_cluster_id_is_learned_once_and_compared_for_ever() -> None:
    observer = an_observer(a_log(), cluster_id=None)
    assert observer.learn_cluster_id("") == []
    assert observer.learn_cluster_id("abc") == [LearnClusterId("abc")]
    assert observer.learn_cluster_id("abc") == []
    reason = only_stop(observer.learn_cluster_id("other"))
    assert "abc" in reason and "other" in reason
    assert observer.learn_cluster_id("other") == []


def test_an_empty_cluster_id_is_an_unknown_one() -> None:
    assert an_observer(a_log(), cluster_id="").facts.cluster_id is None


def test_a_refusal_says_the_epoch_again() -> None:
    observer = an_observer(a_log())
    observer.answered(asked(observer, 0.0), batches(6), 18, 0.1)
    assert observer.rejected("no space left on device", 0.2)[0] == Remember(2, 1)
