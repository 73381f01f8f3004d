"""Rules of DescribeQuorum (KIP-595, KIP-836, KIP-853), of controllers and of brokers, which ask the
leader.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import describe_quorum, require_follower, require_leader
from kwire.conformance.rule import CONTROLLER, Family
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode
from kwire.uuid import Uuid

_KEY: Final = ApiKey.DESCRIBE_QUORUM
_APIS: Final = (_KEY,)
FAMILY: Final = Family("describe-quorum", "DescribeQuorum", apis=_APIS, since="3.1")
_RAFT: Final = (_KEY, ApiKey.FETCH, ApiKey.VOTE)
_HANDLING: Final = "DescribeQuorum Request Handling"
#: An observer that the checks make known to the leader, which forgets it minutes later.
_OBSERVER: Final = 2147483000
_DIRECTORY: Final = Uuid(b"kwire-conform-ob")
#: Fields of a replica whose values are times, ms since 1970; a year of 2000 is no time of now.
_YEAR_2000_MS: Final = 946_684_800_000


def _described(probe: Probe, version: int | None = None) -> Any:
    """Return the answer of the leader, which may be a moment without one."""

    def asked() -> Any:
        answer = probe.call(describe_quorum(), version)
        probe.expect_error(answer.error_code, ErrorCode.NONE)
        one = requests.only_partition(probe, answer)
        return None if one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER else answer

    if ApiKey.VOTE in probe.session.offered:
        require_leader(probe)  # a controller that does not lead does not pass the request on
    return probe.until(asked, "an answer of the leader")


def _partition(probe: Probe, version: int | None = None) -> Any:
    partition = requests.only_partition(probe, _described(probe, version))
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    return partition


@FAMILY.rule("names-leader", source="KIP-595", section=_HANDLING)
def names_leader(probe: Probe) -> None:
    """The answer names the leader, a voter, and its epoch."""
    found = _partition(probe)
    voters = [voter.replica_id for voter in found.current_voters]
    probe.expect(found.leader_epoch >= 0, f"the leader's epoch is {found.leader_epoch}")
    probe.expect(
        found.leader_id in voters, f"the leader is {found.leader_id}, the voters are {voters}"
    )


@FAMILY.rule("each-replica-once", source="KIP-595", section="DescribeQuorum: Response Schema")
def each_replica_once(probe: Probe) -> None:
    """Every replica is in the answer once: as a voter or as an observer."""
    found = _partition(probe)
    seen = [
        (one.replica_id, getattr(one, "replica_directory_id", None))
        for one in (*found.current_voters, *found.observers)
    ]
    twice = {one[0] for one in seen if seen.count(one) > 1}
    probe.expect(not twice, f"the answer has replicas {sorted(twice)} twice")


@FAMILY.rule("high-watermark", source="KIP-595", section="Key Concepts: High watermark")
def high_watermark(probe: Probe) -> None:
    """The high watermark is not above the leader's log end, does not fall, and a majority of the
    voters has reached it.
    """
    first, second = _partition(probe), _partition(probe)
    ends = {one.replica_id: one.log_end_offset for one in second.current_voters}
    mark = second.high_watermark
    probe.expect(
        first.high_watermark <= mark or first.leader_epoch < second.leader_epoch,
        f"the high watermark fell from {first.high_watermark} to {mark}",
    )
    probe.expect(
        mark <= ends[second.leader_id],
        f"the high watermark is {mark}, the leader's log ends at {ends[second.leader_id]}",
    )
    reached = sum(end >= mark for end in ends.values())
    probe.expect(
        2 * reached > len(ends), f"{reached} of {len(ends)} voters have reached offset {mark}"
    )


@FAMILY.rule("followers-behind-leader", source="KIP-595", section=_HANDLING)
def followers_behind_leader(probe: Probe) -> None:
    """No replica's log ends behind the leader's."""
    found = _partition(probe)
    replicas = (*found.current_voters, *found.observers)
    end = max(
        (one.log_end_offset for one in replicas if one.replica_id == found.leader_id), default=-1
    )
    beyond = [one.replica_id for one in replicas if one.log_end_offset > end]
    probe.expect(not beyond, f"the logs of {beyond} end behind the leader's end {end}")


def _refused(probe: Probe, *named: tuple[str, tuple[int, ...]]) -> None:
    answer = probe.call(describe_quorum(*named))
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    told = {(t.topic_name, p.partition_index): p for t in answer.topics for p in t.partitions}
    for name, indexes in named:
        for index in indexes:
            probe.expect((name, index) in told, f"the answer lacks {name}-{index}")
            error = told[name, index].error_code
            probe.expect_error(error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, where=f"{name}-{index}")


@FAMILY.rule("other-topic", source="KafkaRaftClient", section="handleDescribeQuorumRequest")
def other_topic(probe: Probe) -> None:
    """Another topic than the metadata topic is answered with UNKNOWN_TOPIC_OR_PARTITION in its
    partition.
    """
    _refused(probe, ("kwire-conform-none", (0,)))


@FAMILY.rule("other-partition", source="KafkaRaftClient", section="handleDescribeQuorumRequest")
def other_partition(probe: Probe) -> None:
    """Partition 1 of the metadata topic is answered with UNKNOWN_TOPIC_OR_PARTITION."""
    _refused(probe, (CLUSTER_METADATA_TOPIC, (1,)))


@FAMILY.rule("several-partitions", source="KafkaRaftClient", section="handleDescribeQuorumRequest")
def several_partitions(probe: Probe) -> None:
    """A request for more than the metadata partition is answered with UNKNOWN_TOPIC_OR_PARTITION
    in each partition.
    """
    _refused(probe, (CLUSTER_METADATA_TOPIC, (0, 1)))


@FAMILY.rule("timestamps-of-leader", source="KIP-836", section="Proposed Changes", since="3.3")
def timestamps_of_leader(probe: Probe) -> None:
    """The leader counts as having fetched and caught up now: both its times are the present one,
    and do not fall.
    """
    version = probe.need(_KEY, 1, 2)
    times = []
    for _ in range(2):
        found = _partition(probe, version)
        [leader] = [one for one in found.current_voters if one.replica_id == found.leader_id]
        probe.expect(
            leader.last_fetch_timestamp == leader.last_caught_up_timestamp,
            f"the leader fetched at {leader.last_fetch_timestamp} and had caught up at "
            f"{leader.last_caught_up_timestamp}",
        )
        times.append(leader.last_fetch_timestamp)
    probe.expect(_YEAR_2000_MS < times[0] <= times[1], f"the leader's times are {times}")


@FAMILY.rule("timestamps-in-order", source="KIP-836", section="Public Interfaces", since="3.3")
def timestamps_in_order(probe: Probe) -> None:
    """No replica had caught up after it last fetched."""
    found = _partition(probe, probe.need(_KEY, 1, 2))
    for one in (*found.current_voters, *found.observers):
        probe.expect(
            one.last_caught_up_timestamp <= one.last_fetch_timestamp,
            f"replica {one.replica_id} fetched last at {one.last_fetch_timestamp}, and had caught "
            f"up at {one.last_caught_up_timestamp}",
        )


@FAMILY.rule(
    "versions-agree", source="KIP-595", section="DescribeQuorum: Response Schema", since="3.3"
)
def versions_agree(probe: Probe) -> None:
    """All versions name the same leader, epoch and voters."""
    told = set()
    for version in probe.session.versions(_KEY):
        found = _partition(probe, version)
        voters = tuple(sorted(one.replica_id for one in found.current_voters))
        told.add((found.leader_id, found.leader_epoch, voters))
    probe.expect(len(told) == 1, f"the versions differ in (leader, epoch, voters): {sorted(told)}")


@FAMILY.rule("nodes-of-voters", source="KIP-853", section="DescribeQuorum", since="3.9")
def nodes_of_voters(probe: Probe) -> None:
    """Version 2 names each voter among its nodes, with an endpoint, and no node twice."""
    answer = _described(probe, probe.need(_KEY, 2))
    found = requests.only_partition(probe, answer)
    nodes = [node.node_id for node in answer.nodes]
    probe.expect(len(set(nodes)) == len(nodes), f"the answer has a node twice: {nodes}")
    endpoints = {node.node_id: node.listeners for node in answer.nodes}
    for one in found.current_voters:
        probe.expect(bool(endpoints.get(one.replica_id)), f"voter {one.replica_id} has no endpoint")
        for at in endpoints[one.replica_id]:
            probe.expect(
                bool(at.host) and 0 < at.port < 65536,
                f"voter {one.replica_id} is at {at.host!r}:{at.port}",
            )


@FAMILY.rule("not-leader", source="KIP-595", section=_HANDLING, roles=CONTROLLER, apis=_RAFT)
def not_leader(probe: Probe) -> None:
    """A controller that does not lead answers with NOT_LEADER_OR_FOLLOWER."""
    require_follower(probe)
    partition = requests.only_partition(probe, probe.call(describe_quorum()))
    probe.expect_error(partition.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@FAMILY.rule(
    "epoch-of-fetch",
    source="KIP-595",
    section="Leader Election and Data Replication",
    roles=CONTROLLER,
    apis=_RAFT,
)
def epoch_of_fetch(probe: Probe) -> None:
    """DescribeQuorum names the same leader and epoch as the answer to a Fetch."""
    quorum = require_leader(probe)
    found = _partition(probe)
    told = requests.leader_in(requests.fetched(probe, quorum))
    probe.expect(
        found.leader_epoch != quorum.epoch or told == (found.leader_id, found.leader_epoch),
        f"DescribeQuorum names leader {found.leader_id} of epoch {found.leader_epoch}, Fetch "
        f"leader {told[0]} of epoch {told[1]}",
    )


@FAMILY.rule(
    "observer",
    source="KIP-836",
    section="Public Interfaces",
    since="3.3",
    roles=CONTROLLER,
    apis=_RAFT,
)
def observer(probe: Probe) -> None:
    """A replica that has fetched and is no voter is an observer in the answer, with its fetch
    offset as the end of its log and the time of its Fetch.
    """
    quorum = require_leader(probe)
    _, end = requests.end_of_epoch(probe, quorum, quorum.epoch)
    fields: dict[str, Any] = {"offset": end, "last_epoch": quorum.epoch, "replica_id": _OBSERVER}
    if probe.newest(ApiKey.FETCH) >= 17:
        fields["replica_directory_id"] = _DIRECTORY
    requests.fetched(probe, quorum, **fields)
    found = _partition(probe, probe.need(_KEY, 1, 2))
    mine = [one for one in found.observers if one.replica_id == _OBSERVER]
    probe.expect(len(mine) == 1, f"the replica that fetched is {len(mine)} times an observer")
    probe.expect(
        mine[0].log_end_offset == end,
        f"the replica fetched from {end}; its log ends at {mine[0].log_end_offset}",
    )
    probe.expect(
        mine[0].last_fetch_timestamp > _YEAR_2000_MS,
        f"the replica fetched last at {mine[0].last_fetch_timestamp}",
    )
