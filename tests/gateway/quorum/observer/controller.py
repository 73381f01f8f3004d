"""How a model voter answers an observer: the checks and shapes of a real 4.3 controller, in its
order.

``KafkaRaftClient.handleFetchRequest`` and ``handleFetchSnapshotRequest`` as measured. A Fetch that
finds nothing must be delayed by the caller if :func:`must_wait`.
"""

from __future__ import annotations

from kwire.message import Message
from kwire.messages import describe_quorum_response, fetch_response, fetch_snapshot_response
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse, LeaderIdAndEpoch, PartitionData
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.quorum.observer.model import CLUSTER_ID, Quorum, Voter

_ABSENT = (1 << 63) - 1
VERSIONS = {
    FetchSnapshotRequest.API_KEY: range(2),
    DescribeClusterRequest.API_KEY: range(3),
    DescribeQuorumRequest.API_KEY: range(3),
}


def answer(quorum: Quorum, voter: Voter, request: Message, version: int) -> Message:
    """The answer as it arrives: encoded at ``version`` and decoded again, so that a version loses
    what it does not have.
    """
    made: Message
    if isinstance(request, FetchRequest):
        made = _fetch(quorum, voter, request, version)
    elif isinstance(request, FetchSnapshotRequest):
        made = _fetch_snapshot(quorum, voter, request, version)
    elif isinstance(request, DescribeQuorumRequest):
        made = _describe_quorum(quorum, voter)
    else:
        made = DescribeClusterResponse(cluster_id=CLUSTER_ID, endpoint_type=2)
    return type(made).decode(made.encode(version), version)


def must_wait(
    voter: Voter, request: FetchRequest, made: Message, high_watermark_before: int | None
) -> bool:
    """Is this Fetch parked? ``high_watermark_before``: the leader's when the Fetch came, None at
    the first look.
    """
    assert isinstance(made, FetchResponse)
    if made.error_code or made.responses[0].partitions[0].error_code:
        return False
    data = made.responses[0].partitions[0]
    if data.records or data.snapshot_id.end_offset >= 0 or data.diverging_epoch.epoch >= 0:
        return False
    if high_watermark_before is not None:
        return voter.high_watermark == high_watermark_before
    tag = request.topics[0].partitions[0].high_watermark
    return tag == _ABSENT or tag >= voter.high_watermark


def _fetch(quorum: Quorum, voter: Voter, request: FetchRequest, version: int) -> FetchResponse:
    if request.cluster_id not in (None, CLUSTER_ID):
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    if (
        len(request.topics) != 1
        or request.topics[0].topic_id != METADATA_TOPIC_ID
        or len(request.topics[0].partitions) != 1
    ):
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = request.topics[0].partitions[0]
    data = PartitionData(
        high_watermark=-1, log_start_offset=-1, records=b"", aborted_transactions=[]
    )
    data.current_leader = LeaderIdAndEpoch(leader_id=voter.leader_id, leader_epoch=voter.epoch)
    epoch, offset, last_epoch = (
        asked.current_leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
    )
    if offset < 0 or last_epoch < 0 or last_epoch > epoch:
        data.error_code = ErrorCode.INVALID_REQUEST
    else:
        data.error_code = _epoch_error(voter, epoch)
    if not data.error_code:
        data.high_watermark, data.log_start_offset = voter.high_watermark, voter.start
        _read(voter, offset, last_epoch, request.max_bytes, data)
    nodes = []
    if voter.leader_id >= 0 and version >= 17:
        at = quorum.voters[voter.leader_id].address
        nodes = [fetch_response.NodeEndpoint(node_id=voter.leader_id, host=at.host, port=at.port)]
    topic = fetch_response.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return FetchResponse(responses=[topic], node_endpoints=nodes)


def _epoch_error(voter: Voter, epoch: int) -> int:
    if epoch < voter.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > voter.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if voter.role == "leader" else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _read(voter: Voter, offset: int, last_epoch: int, max_bytes: int, data: PartitionData) -> None:
    latest = voter.latest_snapshot
    if (offset == 0 and latest is not None) or _is_below(voter, offset, last_epoch):
        assert latest is not None
        data.snapshot_id = fetch_response.SnapshotId(
            end_offset=latest.end_offset, epoch=latest.epoch
        )
        return
    epoch, end = voter.end_of_epoch(last_epoch)
    if (offset, last_epoch) != (0, 0) and (epoch != last_epoch or end < offset):
        data.diverging_epoch = fetch_response.EpochEndOffset(epoch=epoch, end_offset=end)
        return
    found: list[bytes] = []
    for batch in voter.batches:
        if batch.next > offset:
            if found and sum(map(len, found)) + len(batch.data) > max_bytes:
                break
            found.append(batch.data)
    data.records = b"".join(found)


def _is_below(voter: Voter, offset: int, last_epoch: int) -> bool:
    """``ReplicatedLog.validateOffsetAndEpoch``: must it be a snapshot?"""
    oldest = min(voter.snapshots, default=None)
    if oldest is None:
        return False
    at_start = offset == voter.start > 0 and last_epoch != oldest.epoch
    return offset < voter.start or at_start or last_epoch < oldest.epoch


def _fetch_snapshot(
    quorum: Quorum, voter: Voter, request: FetchSnapshotRequest, version: int
) -> FetchSnapshotResponse:
    assert request.topics, "a FetchSnapshot without topics kills a real controller"
    if request.cluster_id not in (None, CLUSTER_ID):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = request.topics[0].partitions[0]
    snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    content = voter.snapshots.get(snapshot_id)
    if (
        _epoch_error(voter, asked.current_leader_epoch)
        or content is None
        or not 0 <= asked.position < len(content)
    ):
        # Real controllers cannot write the partition's error: the whole answer becomes this one.
        return FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    data = fetch_snapshot_response.PartitionSnapshot(
        snapshot_id=fetch_snapshot_response.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
            leader_id=voter.leader_id, leader_epoch=voter.epoch
        ),
        size=len(content),
        position=asked.position,
        unaligned_records=content[asked.position : asked.position + request.max_bytes],
    )
    topic = fetch_snapshot_response.TopicSnapshot(name="__cluster_metadata", partitions=[data])
    return FetchSnapshotResponse(topics=[topic])


def _describe_quorum(quorum: Quorum, voter: Voter) -> DescribeQuorumResponse:
    data = describe_quorum_response.PartitionData(
        leader_id=voter.leader_id, leader_epoch=voter.epoch, high_watermark=0
    )
    if voter.role == "leader":
        data.current_voters = [
            describe_quorum_response.ReplicaState(replica_id=id) for id in quorum.voters
        ]
    else:
        data.error_code, data.leader_id, data.leader_epoch = ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, 0
    return DescribeQuorumResponse(
        topics=[
            describe_quorum_response.TopicData(topic_name="__cluster_metadata", partitions=[data])
        ]
    )
