"""Rules that all requests among the nodes of a metadata quorum have in common (KIP-595, KIP-853).

Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch name a cluster, one partition and an epoch; their
answers name the leader. No request here can end a leader's epoch: each is refused, or repeats what
is known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import OTHER_CLUSTER, OTHER_TOPIC, Quorum, find_quorum, leader_in
from kwire.conformance.rule import CONTROLLER, Family, Rule
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("raft", "What all requests of a metadata quorum have in common")

#: The first version whose answer names the leader's endpoint (KIP-853). Kafka fills the field of
#: Fetch from version 17 on.
_ENDPOINTS_FROM: Final = {
    ApiKey.VOTE: 1,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH: 17,
}
#: The first release whose answers do so.
_ENDPOINTS_SINCE: Final = "3.9"
_SINCE: Final = "3.1"


def _version(probe: Probe, api: ApiKey) -> int:
    return probe.need(api, *requests.FETCH_VERSIONS) if api is ApiKey.FETCH else probe.newest(api)


def _request(
    api: ApiKey, quorum: Quorum, version: int, cluster: str | None, epoch: int | None = None
) -> Any:
    """A request of ``epoch``, by default one that repeats what the quorum knows."""
    at = quorum.epoch if epoch is None else epoch
    match api:
        case ApiKey.VOTE:
            # A real candidate of epoch 0 cannot be: the epoch of its log has to be lower. A
            # pre-vote names the epoch in which its sender is.
            more = {"pre_vote": True} if version >= 2 and at < 2 else {}
            return requests.vote(cluster, epoch=at, log_end=(max(at - 1, 0), 0), **more)
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return requests.begin_epoch(cluster, epoch=at, leader_id=quorum.leader_id)
        case ApiKey.END_QUORUM_EPOCH:
            return requests.end_epoch(cluster, epoch=at, leader_id=quorum.leader_id)
        case _:
            return requests.fetch(cluster, epoch=at, version=version)


def _ask(
    probe: Probe, api: ApiKey, change: Callable[[Quorum, Any], None] | None, **how: Any
) -> Any:
    """Return the answer to a request that ``change`` has changed."""
    quorum, version = find_quorum(probe), _version(probe, api)
    cluster = how.pop("cluster", quorum.cluster_id)
    request = _request(api, quorum, version, cluster, **how)
    if change is not None:
        change(quorum, request)
    return probe.call(request, version)


# --- the cluster ----------------------------------------------------------------------------------


def other_cluster(api: ApiKey, probe: Probe) -> None:
    """Name a cluster that is not the server's."""
    answer = _ask(probe, api, None, cluster=OTHER_CLUSTER)
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_CLUSTER_ID)


def empty_cluster(api: ApiKey, probe: Probe) -> None:
    """Name the empty cluster id."""
    answer = _ask(probe, api, None, cluster="")
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_CLUSTER_ID)


def null_cluster(api: ApiKey, probe: Probe) -> None:
    """Name no cluster, at an old epoch."""
    answer = _ask(probe, api, None, cluster=None, epoch=0)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    partition = requests.only_partition(probe, answer)
    probe.expect_error(partition.error_code, ErrorCode.FENCED_LEADER_EPOCH)


# --- the partition --------------------------------------------------------------------------------


def no_topics(api: ApiKey, probe: Probe) -> None:
    """Name no topic."""

    def change(quorum: Quorum, request: Any) -> None:
        request.topics = []

    _refused(probe, _ask(probe, api, change))


def other_topic(api: ApiKey, probe: Probe) -> None:
    """Name a topic that is not the metadata topic."""

    def change(quorum: Quorum, request: Any) -> None:
        if api is ApiKey.FETCH:
            request.topics[0].topic_id = OTHER_TOPIC
        else:
            request.topics[0].topic_name = "kwire-conform-none"

    _refused(probe, _ask(probe, api, change))


def other_partition(api: ApiKey, probe: Probe) -> None:
    """Name partition 1, which the metadata topic does not have."""

    def change(quorum: Quorum, request: Any) -> None:
        name = "partition" if api is ApiKey.FETCH else "partition_index"
        setattr(request.topics[0].partitions[0], name, 1)

    _refused(probe, _ask(probe, api, change))


def partition_twice(api: ApiKey, probe: Probe) -> None:
    """Name the metadata partition twice."""

    def change(quorum: Quorum, request: Any) -> None:
        request.topics[0].partitions *= 2

    _refused(probe, _ask(probe, api, change))


def _refused(probe: Probe, answer: Any) -> None:
    probe.expect_error(answer.error_code, ErrorCode.INVALID_REQUEST)


# --- the epoch and the leader ---------------------------------------------------------------------


def old_epoch(api: ApiKey, probe: Probe) -> None:
    """Name the epoch before the present one."""
    quorum, version = find_quorum(probe), _version(probe, api)
    request = _request(api, quorum, version, quorum.cluster_id, quorum.epoch - 1)
    partition = requests.only_partition(probe, probe.call(request, version))
    probe.expect_error(partition.error_code, ErrorCode.FENCED_LEADER_EPOCH)


def names_leader(api: ApiKey, probe: Probe) -> None:
    """Name an old epoch, and read the leader in the refusal."""
    quorum, version = find_quorum(probe), _version(probe, api)
    request = _request(api, quorum, version, quorum.cluster_id, 0)
    partition = requests.only_partition(probe, probe.call(request, version))
    told = leader_in(partition)
    if told != (quorum.leader_id, quorum.epoch) and find_quorum(probe) == quorum:
        probe.fail(
            f"the answer names leader {told[0]} and epoch {told[1]}; node {quorum.leader_id} leads "
            f"epoch {quorum.epoch}"
        )


def names_endpoint(api: ApiKey, probe: Probe) -> None:
    """Name an old epoch, and read the leader's endpoint in the refusal."""
    quorum = find_quorum(probe)
    first = _ENDPOINTS_FROM[api]
    version = probe.need(api, *range(first, first + 20))
    answer = probe.call(_request(api, quorum, version, quorum.cluster_id, 0), version)
    leader, _ = leader_in(requests.only_partition(probe, answer))
    found = [one for one in answer.node_endpoints if one.node_id == leader]
    probe.expect(len(found) == 1, f"the answer names leader {leader}, and no endpoint of it")
    probe.expect(
        bool(found[0].host) and 0 < found[0].port < 65536,
        f"the endpoint of leader {leader} is {found[0].host!r}:{found[0].port}",
    )


_EACH: Final[tuple[tuple[str, Any, str, str, str], ...]] = (
    ("other-cluster", other_cluster, "KIP-595", "Cluster Bootstrapping",
     "with the id of another cluster is refused with INCONSISTENT_CLUSTER_ID"),
    ("empty-cluster", empty_cluster, "KafkaRaftClient", "hasValidClusterId",
     "with an empty cluster id is refused with INCONSISTENT_CLUSTER_ID: only null means none"),
    ("null-cluster", null_cluster, "KIP-595", "Cluster Bootstrapping",
     "without a cluster id is not refused for its cluster"),
    ("no-topics", no_topics, "KafkaRaftClient", "hasValidTopicPartition",
     "without a partition is refused with INVALID_REQUEST"),
    ("other-topic", other_topic, "KafkaRaftClient", "hasValidTopicPartition",
     "for another topic than the metadata topic is refused with INVALID_REQUEST"),
    ("other-partition", other_partition, "KafkaRaftClient", "hasValidTopicPartition",
     "for partition 1 of the metadata topic is refused with INVALID_REQUEST"),
    ("partition-twice", partition_twice, "KafkaRaftClient", "hasValidTopicPartition",
     "that names the metadata partition twice is refused with INVALID_REQUEST"),
    ("old-epoch", old_epoch, "KIP-595", "Common Error Codes",
     "of an epoch before the present one is refused with FENCED_LEADER_EPOCH"),
    ("names-leader", names_leader, "KIP-595", "Leader Election and Data Replication",
     "that is refused names the present leader and epoch in its answer"),
)  # fmt: skip


def _add_all() -> None:
    for api in _ENDPOINTS_FROM:
        for name, check, source, section, says in _EACH:
            _add(api, name, check, source, section, says, _SINCE)
        says = "that is refused names the leader's endpoint in its answer"
        _add(api, "names-endpoint", names_endpoint, "KIP-853", "", says, _ENDPOINTS_SINCE)


def _add(
    api: ApiKey, name: str, check: Any, source: str, section: str, says: str, since: str
) -> None:
    a = "An" if api is ApiKey.END_QUORUM_EPOCH else "A"
    FAMILY.add(
        Rule(
            id=f"raft.{api.title}.{name}",
            says=f"{a} {api.title} request {says}.",
            check=functools.partial(check, api),
            source=source,
            section=section,
            since=since,
            roles=CONTROLLER,
            apis=(api, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
        )
    )


_add_all()
