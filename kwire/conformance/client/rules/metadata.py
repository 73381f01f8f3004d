"""Rules of metadata: leaders that are missing or move, nodes that are gone, epochs that go back."""

from __future__ import annotations

import functools
import socket
from typing import Any, Final

from kwire.conformance.client.faults import EVER, Answer, close_before
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.traffic import Seen
from kwire.conformance.rule import CLIENT, Family, Level
from kwire.messages.fetch_response import LeaderIdAndEpoch, NodeEndpoint
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("client-metadata", "Metadata")

_METADATA: Final = ApiKey.METADATA
_UNKNOWN_ERROR: Final = 999
#: Several nodes and starts, as clients choose a node by chance.
_DEAD: Final = range(2, 6)
_STARTS: Final = 3


def _errors(probe: ClientProbe, error: int) -> None:
    probe.prepare()
    fault = probe.fault(f"error {error}", _METADATA, error=error, when=_names_topic)
    probe.start()
    probe.happened(fault)
    probe.works()  # a client that sends to a node without asking again learns by its answer


def _names_topic(seen: Seen) -> bool:
    return seen.request.topics is None or bool(seen.request.topics)


@FAMILY.rule(
    "leader-not-available", source="Errors", section="LEADER_NOT_AVAILABLE: RetriableException",
    roles=CLIENT, apis=(_METADATA,),
)  # fmt: skip
def leader_not_available(probe: ClientProbe) -> None:
    """A client goes on after Metadata named a partition without a leader."""
    _errors(probe, ErrorCode.LEADER_NOT_AVAILABLE)


@FAMILY.rule(
    "unknown-topic", source="Errors", section="UNKNOWN_TOPIC_OR_PARTITION: RetriableException",
    roles=CLIENT, apis=(_METADATA,), level=Level.SHOULD,
)  # fmt: skip
def unknown_topic(probe: ClientProbe) -> None:
    """A client goes on after a node did not know the topic, as a node that has not yet heard of it
    does.
    """
    _errors(probe, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule(
    "unknown-error", source="Errors", section="forCode", roles=CLIENT, apis=(_METADATA,),
    level=Level.SHOULD,
)  # fmt: skip
def unknown_error(probe: ClientProbe) -> None:
    """A client goes on after Metadata had an error code of a partition that it does not know."""
    _errors(probe, _UNKNOWN_ERROR)


@FAMILY.rule(
    "advertised-leader", source="MetadataResponse.json", section="Brokers, LeaderId", roles=CLIENT
)
def advertised_leader(probe: ClientProbe) -> None:
    """A client sends Fetch and Produce to the leader that Metadata names, not to the address that
    it was started with.
    """
    probe.prepare(nodes=2)
    probe.state.leader = probe.state.group.coordinator = 2
    probe.start()
    probe.works()
    wrong = probe.traffic.all(probe.data_api, broker=1)
    probe.expect(not wrong, f"{len(wrong)} requests went to a node that is not the leader")


@FAMILY.rule("dead-nodes", source="NetworkClient", section="leastLoadedNode", roles=CLIENT)
def dead_nodes(probe: ClientProbe) -> None:
    """A client works while Metadata names nodes that refuse connections, besides one that works."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # it does not listen, so that connections are refused
        port = int(unused.getsockname()[1])
        for _ in range(_STARTS):
            probe.prepare()
            probe.state.nodes.update(dict.fromkeys(_DEAD, ("127.0.0.1", port)))
            probe.start()
            probe.works()


def _move(probe: ClientProbe) -> Seen:
    """Move the leader from node 1 to node 2, while the client is at work."""
    probe.prepare(nodes=2)

    def act(answer: Answer) -> None:
        with probe.state.lock:
            probe.state.move_leader(2)

    fault = probe.fault(
        "the leader has moved", probe.data_api, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, act=act
    )
    return _started(probe, fault)


def _started(probe: ClientProbe, fault: Any) -> Seen:
    probe.start()
    return probe.happened(fault)


@FAMILY.rule(
    "leader-moves", source="Errors", section="NOT_LEADER_OR_FOLLOWER: InvalidMetadataException",
    roles=CLIENT,
)  # fmt: skip
def leader_moves(probe: ClientProbe) -> None:
    """A client that gets NOT_LEADER_OR_FOLLOWER learns the new leader and goes on there."""
    seen = _move(probe)
    probe.request_after(seen, probe.data_api, "a request to the new leader", broker=2)
    probe.works()


@FAMILY.rule("leader-is-gone", source="NetworkClient", section="handleDisconnections", roles=CLIENT)
def leader_is_gone(probe: ClientProbe) -> None:
    """A client whose leader closes every connection learns the new leader from another node and
    goes on there.
    """
    probe.prepare(nodes=2)
    first: list[Seen] = []

    def gone(seen: Seen) -> bool:
        if seen.broker == 1 and seen.api == probe.data_api and not first:
            first.append(seen)
            probe.state.move_leader(2)
            probe.state.group.coordinator = 2
        return seen.broker == 1 and bool(first)

    probe.fault("the node closes every connection", act=close_before, when=gone, times=EVER)
    # The bootstrap node has to stay useful: the client gets to know both nodes first.
    probe.start()
    probe.until(lambda: first, f"a {probe.data_api.title} request")
    probe.cluster.admits = lambda link: link.broker == 2
    probe.until(lambda: probe.traffic.all(probe.data_api, broker=2), "a request to the new leader")
    probe.works(repeats=True)


@FAMILY.rule(
    "epoch-goes-back",
    source="KIP-320",
    section="Metadata: leader epoch",
    since="2.1",
    roles=CLIENT,
    apis=(_METADATA, ApiKey.FETCH),
)
def epoch_goes_back(probe: ClientProbe) -> None:
    """A client that knows a leader epoch ignores metadata with a lower one, as a node that lags
    gives it, and does not fetch from the old leader.
    """
    probe.uses(_METADATA, 7)
    probe.uses(ApiKey.FETCH, 9)
    seen = _move(probe)
    moved = probe.request_after(seen, ApiKey.FETCH, "a Fetch request to the new leader", broker=2)

    def stale(answer: Answer) -> None:
        for topic in answer.body.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch = 1, probe.state.epoch - 1

    probe.fault("the leader and epoch of before", _METADATA, act=stale, when=_names_topic)
    probe.fault(
        "a reason to ask for metadata", ApiKey.FETCH, error=ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    probe.works()
    back = [
        one
        for one in probe.traffic.after(moved, ApiKey.FETCH)
        if one.request.topics
        and 0 <= one.request.topics[0].partitions[0].current_leader_epoch < probe.state.epoch
    ]
    probe.expect(not back, "the client fetched with the lower leader epoch")


def _hint(probe: ClientProbe, answer: Answer) -> None:
    host, port = probe.state.nodes[2]
    answer.body.node_endpoints = [NodeEndpoint(node_id=2, host=host, port=port)]
    for topic in answer.body.responses:
        for partition in topic.partitions:
            partition.current_leader = LeaderIdAndEpoch(
                leader_id=2, leader_epoch=probe.state.epoch + 1
            )
    probe.state.move_leader(2)


@FAMILY.rule(
    "leader-in-answer", source="KIP-951", section="Fetch: CurrentLeader, NodeEndpoints",
    since="3.7", roles=CLIENT, apis=(ApiKey.FETCH,), level=Level.SHOULD,
)  # fmt: skip
def leader_in_answer(probe: ClientProbe) -> None:
    """A client goes to the leader that a Fetch answer with NOT_LEADER_OR_FOLLOWER names, before a
    Metadata answer names it.
    """
    probe.uses(ApiKey.FETCH, 16)
    probe.prepare(nodes=2)
    fault = probe.fault(
        "the leader has moved; the answer names it",
        ApiKey.FETCH,
        error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        act=functools.partial(_hint, probe),
    )

    def moved(seen: Seen) -> bool:
        return bool(fault.happened)

    # Metadata is silent from then on, so that the answer is the only source.
    probe.fault("no metadata", _METADATA, error=_UNKNOWN_ERROR, when=moved, times=EVER)
    seen = _started(probe, fault)
    probe.request_after(seen, ApiKey.FETCH, "a Fetch request to the new leader", broker=2)
