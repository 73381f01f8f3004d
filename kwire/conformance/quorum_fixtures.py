"""Finds the state of a controller's quorum for the rules, and fetches its log as a consumer would.

The replica id of these requests is -1: the leader answers them and keeps no observer for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from kwire.conformance.probe import Probe
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import PartitionData as FetchedPartition
from kwire.protocol import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID

CLUSTER_METADATA: Final = CLUSTER_METADATA_TOPIC
_CONTROLLERS: Final = 2


@dataclass(frozen=True)
class Quorum:
    """The quorum as its leader describes it."""

    cluster_id: str
    leader_id: int
    epoch: int
    high_watermark: int
    log_start: int
    voters: Sequence[Any]
    observers: Sequence[Any]


def quorum(probe: Probe, *, again: bool = False) -> Quorum:
    """Return the quorum. Ends the check as not applicable if the server does not lead it.

    ``again``: asks even if it is known.
    """
    if again:
        return _ask(probe)

    def ask() -> Quorum:
        with probe.other_probe() as other:
            return _ask(other)

    return cast(Quorum, probe.session.shared("quorum", ask))


def _ask(probe: Probe) -> Quorum:
    topic = TopicData(topic_name=CLUSTER_METADATA, partitions=[PartitionData(partition_index=0)])
    answer = probe.call(DescribeQuorumRequest(topics=[topic]))
    found = [one for topic in answer.topics for one in topic.partitions]
    if answer.error_code or not found or found[0].error_code:
        probe.not_applicable("the server does not lead the quorum: give the active controller")
    cluster_id = ""
    if ApiKey.DESCRIBE_CLUSTER in probe.session.offered:
        version = probe.newest(ApiKey.DESCRIBE_CLUSTER)
        request = DescribeClusterRequest(endpoint_type=_CONTROLLERS if version >= 1 else 1)
        cluster_id = probe.call(request, version).cluster_id
    [one] = found
    known = Quorum(
        cluster_id, one.leader_id, one.leader_epoch, one.high_watermark, 0,
        one.current_voters, one.observers,
    )  # fmt: skip
    return Quorum(**{**known.__dict__, "log_start": _log_start(probe, known)})


def _log_start(probe: Probe, found: Quorum) -> int:
    answer = raft_fetch(probe, found, 0)
    parts = [one for topic in answer.responses for one in topic.partitions]
    return parts[0].log_start_offset if parts else 0


def raft_fetch(
    probe: Probe, found: Quorum, offset: int, *, cluster_id: str | None = None, **more: Any
) -> Any:
    """Return the answer to a Fetch of the metadata log. ``more``: fields of the partition."""
    version = probe.need(ApiKey.FETCH, *range(12, 18))
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20,
        **{"last_fetched_epoch": 0, "current_leader_epoch": found.epoch, **more},
    )  # fmt: skip
    by_id = version >= 13
    topic = FetchTopic(
        topic="" if by_id else CLUSTER_METADATA,
        topic_id=METADATA_TOPIC_ID if by_id else ZERO_UUID,
        partitions=[partition],
    )
    request = FetchRequest(
        cluster_id=found.cluster_id if cluster_id is None else cluster_id,
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic],
    )  # fmt: skip
    return probe.call(request, version)


def fetch_log(probe: Probe, found: Quorum, offset: int, epoch: int) -> FetchedPartition:
    """Return the partition of a Fetch at ``offset`` behind a record of ``epoch``. Fails the rule
    for an error.
    """
    answer = raft_fetch(probe, found, offset, last_fetched_epoch=epoch)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    [one] = [one for topic in answer.responses for one in topic.partitions]
    probe.expect_error(one.error_code, ErrorCode.NONE, where=f"Fetch at offset {offset}")
    return cast(FetchedPartition, one)
