"""The corners of an observer that no transcript and no simulation goes through."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.base.address import Address
from gateway.quorum.effects import Effect, LearnClusterId, Send
from kwire.message import Message
from kwire.messages import describe_quorum_response as quorum
from kwire.messages import fetch_response as fetch
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.observer.driven import Driven
from tests.gateway.quorum.observer.process import DIRECTORY_ID, ModelLog, observer_settings

BOOTSTRAP = (Address("a", 1),)


def a_log() -> ModelLog:
    log = ModelLog()
    log.append(data_batch(0, 4, 2, 0).data)
    return log


def an_observer(
    *,
    epoch: int = 2,
    cluster_id: str | None = "abc",
    bootstrap: tuple[Address, ...] = BOOTSTRAP,
    **more: Any,
) -> Driven:
    settings = observer_settings(bootstrap, cluster_id=cluster_id, **more)
    return Driven(settings, a_log(), epoch=epoch, leader_id=1 if epoch else -1, high_watermark=2)


def responds(
    high_watermark: int = 2, *, error: int = 0, nodes: tuple[Any, ...] = (), records: bytes = b""
) -> Message:
    data = fetch.PartitionData(records=records, high_watermark=high_watermark, error_code=error)
    data.current_leader = fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return fetch.FetchResponse(responses=[topic], node_endpoints=list(nodes))


def described(*ids: int) -> quorum.DescribeQuorumResponse:
    partition = quorum.PartitionData(
        current_voters=[quorum.ReplicaState(replica_id=id) for id in ids]
    )
    nodes = [quorum.Node(node_id=2, listeners=[quorum.Listener(name="C", host="b", port=2)])]
    topic = quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return quorum.DescribeQuorumResponse(topics=[topic], nodes=nodes)


def asked(driven: Driven) -> Send:
    """The oldest open request; time goes by until there is one."""
    while not driven.open:
        assert driven.tick()
    return driven.open[0]


def fetched_by(send: Send) -> FetchRequest:
    request = send.request(18)
    assert isinstance(request, FetchRequest)
    return request


def test_log_knows_its_epoch_when_quorum_state_is_lost() -> None:
    driven = an_observer(epoch=0)
    assert (driven.raft.epoch, driven.raft.leader_id) == (2, -1)


@pytest.mark.parametrize(("fetch_timeout_s", "expected"), [(1.5, 1.5), (9.0, 2.0)])
def test_request_to_the_leader_fails_after_the_fetch_timeout(
    fetch_timeout_s: float, expected: float
) -> None:
    driven = an_observer(fetch_timeout_s=fetch_timeout_s)
    discovery = asked(driven)
    assert (discovery.node_id, discovery.timeout_s) == (-1, 2.0)
    driven.answer(discovery, responds())
    assert (asked(driven).node_id, asked(driven).timeout_s) == (1, expected)


def test_address_that_responds_as_the_leader_beats_the_advertised_one() -> None:
    driven = an_observer()
    advertised = fetch.NodeEndpoint(node_id=1, host="advertised", port=9)
    driven.answer(asked(driven), responds(error=6, nodes=(advertised,)))
    assert driven.raft.leader_address == Address("advertised", 9)
    while not any(
        send.address == BOOTSTRAP[0] for send in driven.open
    ):  # the advertised one does not answer
        driven.tick()
    driven.answer(
        next(send for send in driven.open if send.address == BOOTSTRAP[0]),
        responds(nodes=(advertised,)),
    )
    assert driven.raft.leader_address == BOOTSTRAP[0]


def test_learned_addresses_are_bounded() -> None:
    driven = an_observer()
    nodes = [fetch.NodeEndpoint(node_id=id, host=f"host{id}", port=9) for id in range(2, 1000)]
    bad = [
        fetch.NodeEndpoint(node_id=-1, host="x", port=9),
        fetch.NodeEndpoint(node_id=5, host="", port=70000),
    ]
    driven.answer(asked(driven), responds(error=6, nodes=(*nodes, *bad)))
    assert len(driven.raft._node.addresses) <= 64


def test_replica_id_is_used_once_the_voters_are_known() -> None:
    driven = an_observer(replica_id=70)
    driven.answer(asked(driven), responds())
    driven.answer(asked(driven), described(1, 2))
    assert driven.raft.reported_voters == {1, 2}
    fetch_request = fetched_by(asked(driven))
    assert fetch_request.replica_state.replica_id == 70
    assert fetch_request.topics[0].partitions[0].replica_directory_id == DIRECTORY_ID


def test_observer_without_a_replica_id_sends_no_directory_id() -> None:
    driven = an_observer()
    driven.answer(asked(driven), responds())
    fetch_request = fetched_by(asked(driven))
    assert fetch_request.replica_state.replica_id == -1
    assert fetch_request.topics[0].partitions[0].replica_directory_id == ZERO_UUID


def test_replica_id_of_a_voter_stops_the_observer_for_good() -> None:
    driven = an_observer(replica_id=70)
    driven.answer(asked(driven), responds())
    driven.answer(asked(driven), described(1, 70))
    assert "replica.id 70 is a voter" in driven.stopped
    assert driven.raft.deadline == math.inf


def test_cluster_id_is_learned_once_and_compared_from_then_on() -> None:
    learned: list[Effect] = []
    driven = an_observer(cluster_id="")
    driven.spy = lambda effect: (
        learned.append(effect) if isinstance(effect, LearnClusterId) else None
    )
    assert fetched_by(asked(driven)).cluster_id is None, "an empty cluster id is an unknown one"
    driven.answer(asked(driven), responds())
    driven.answer(asked(driven), DescribeClusterResponse(cluster_id="abc", endpoint_type=2))
    assert len(learned) == 1 and driven.cluster_id == driven.raft.cluster_id == "abc"
    driven.raft._node.learn_cluster_id("other")
    assert driven.raft._node.stopped


def test_observer_needs_neither_cluster_id_nor_voters_to_follow() -> None:
    driven = an_observer(cluster_id=None, replica_id=70)
    driven.answer(asked(driven), responds())
    driven.answer(asked(driven), DescribeClusterResponse(error_code=31))
    driven.answer(asked(driven), quorum.DescribeQuorumResponse(error_code=31))
    driven.answer(asked(driven), responds(6, records=data_batch(4, 2, 2, 0).data))
    assert driven.shown == 6


def test_kraft_version_of_a_newer_quorum_is_copied_and_not_obeyed() -> None:
    from gateway.quorum import batches

    driven = an_observer()
    driven.answer(asked(driven), responds())
    data = batches.control_batch([batches.kraft_version(7)], 4, 2, 0)
    driven.answer(asked(driven), responds(5, records=data))
    assert driven.shown == 5 and driven.raft.role == "follower" and not driven.raft.is_voter
