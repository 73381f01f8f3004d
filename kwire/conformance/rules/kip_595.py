"""Rules of a controller's quorum as any node can see it (KIP-595, KIP-836, KIP-996).

Requests name no voter of the cluster, or an epoch that is over, so that they change no election.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from kwire.conformance.probe import Probe
from kwire.conformance.quorum_fixtures import (
    CLUSTER_METADATA,
    Quorum,
    fetch_log,
    quorum,
    raft_fetch,
)
from kwire.conformance.requests import NO_NAME, NO_NODE
from kwire.conformance.rule import CONTROLLER, Family
from kwire.errors import DecodeError
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.begin_quorum_epoch_request import PartitionData as BeginPartition
from kwire.messages.begin_quorum_epoch_request import TopicData as BeginTopic
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.describe_quorum_request import PartitionData as DescribePartition
from kwire.messages.describe_quorum_request import TopicData as DescribeTopic
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.end_quorum_epoch_request import PartitionData as EndPartition
from kwire.messages.end_quorum_epoch_request import TopicData as EndTopic
from kwire.messages.vote_request import PartitionData as VotePartition
from kwire.messages.vote_request import TopicData as VoteTopic
from kwire.messages.vote_request import VoteRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import decode_batches, decode_control_record, iter_batches

_FUTURE_OFFSET: Final = 1 << 50
_BEGIN: Final = (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM)
_END: Final = (ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM)

FAMILY: Final = Family(
    "kip-595", "KIP-595: the Raft protocol of the metadata quorum", roles=CONTROLLER,
    apis=(ApiKey.VOTE, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
)  # fmt: skip


def _vote(probe: Probe, found: Quorum, **more: Any) -> Any:
    """Return (top level error, partition or None) of a Vote of a replica that does not exist."""
    cluster_id = more.pop("cluster_id", found.cluster_id)
    topic = more.pop("topic", CLUSTER_METADATA)
    values: dict[str, Any] = {
        "replica_epoch": found.epoch,
        "replica_id": NO_NODE,
        "last_offset_epoch": 0,
        "last_offset": 0,
        **more,
    }
    partition = VotePartition(partition_index=0, **values)
    topics = [VoteTopic(topic_name=topic, partitions=[partition])]
    version = probe.newest(ApiKey.VOTE)
    request = VoteRequest(cluster_id=cluster_id, voter_id=found.leader_id, topics=topics)
    if version < 1:
        request = VoteRequest(cluster_id=cluster_id, topics=topics)
    answer = probe.call(request, version)
    parts = [one for topic in answer.topics for one in topic.partitions]
    return answer.error_code, parts[0] if parts else None


@FAMILY.rule(
    "vote-other-cluster", source="KIP-595", section="Vote: INVALID_CLUSTER_ID", since="2.7"
)
def vote_other_cluster(probe: Probe) -> None:
    """A Vote with the id of another cluster has error INCONSISTENT_CLUSTER_ID."""
    code, _ = _vote(probe, quorum(probe), cluster_id=NO_NAME)
    probe.expect_error(code, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule("vote-old-epoch", source="KIP-595", section="Vote: FENCED_LEADER_EPOCH", since="2.7")
def vote_old_epoch(probe: Probe) -> None:
    """A Vote of an epoch that is over is not granted: FENCED_LEADER_EPOCH, with the current epoch
    and leader.
    """
    found = quorum(probe)
    if found.epoch < 2:
        # Epoch 0 has no candidate: a vote for it would be invalid by itself.
        probe.not_applicable(f"the epoch is {found.epoch}, no election was before it")
    code, one = _vote(probe, found, replica_epoch=found.epoch - 1)
    probe.expect_error(code, ErrorCode.NONE)
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    probe.expect(not one.vote_granted, "a vote of an old epoch is granted")
    probe.expect(
        (one.leader_epoch, one.leader_id) == (found.epoch, found.leader_id),
        f"the leader is {one.leader_id} of epoch {one.leader_epoch}, not {found.leader_id} of "
        f"{found.epoch}",
    )


@FAMILY.rule("vote-in-epoch-of-leader", source="KIP-595", section="Vote", since="2.7")
def vote_in_epoch_of_leader(probe: Probe) -> None:
    """A node that knows the leader of an epoch grants no vote in it."""
    found = quorum(probe)
    _, one = _vote(probe, found)
    probe.expect(one is not None and not one.vote_granted, "a vote against the leader is granted")


@FAMILY.rule("vote-other-topic", source="KIP-595", section="Vote: topic", since="2.7")
def vote_other_topic(probe: Probe) -> None:
    """A Vote about another topic than the metadata log is refused."""
    code, one = _vote(probe, quorum(probe), topic=NO_NAME)
    codes = {code} if one is None else {code, one.error_code}
    probe.expect(
        bool(codes & {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST}),
        f"a vote about topic {NO_NAME} has errors {sorted(codes)}",
    )


@FAMILY.rule(
    "vote-negative-offset",
    source="KafkaRaftClient",
    section="handleVoteRequest: INVALID_REQUEST",
    since="2.7",
)
def vote_negative_offset(probe: Probe) -> None:
    """A Vote with a negative last offset has error INVALID_REQUEST."""
    code, one = _vote(probe, quorum(probe), last_offset=-1)
    codes = {code} if one is None else {code, one.error_code}
    probe.expect(ErrorCode.INVALID_REQUEST in codes, f"the errors are {sorted(codes)}")


@FAMILY.rule(
    "vote-epoch-of-last-offset",
    source="KafkaRaftClient",
    section="handleVoteRequest: INVALID_REQUEST",
    since="2.7",
)
def vote_epoch_of_last_offset(probe: Probe) -> None:
    """A Vote whose last epoch is not below the epoch that it asks for has error INVALID_REQUEST."""
    found = quorum(probe)
    code, one = _vote(probe, found, last_offset_epoch=found.epoch + 5)
    codes = {code} if one is None else {code, one.error_code}
    probe.expect(ErrorCode.INVALID_REQUEST in codes, f"the errors are {sorted(codes)}")


@FAMILY.rule("pre-vote-changes-nothing", source="KIP-996", section="PreVote", since="4.0")
def pre_vote_changes_nothing(probe: Probe) -> None:
    """A pre-vote of the current epoch is refused by a node that hears from the leader, and does not
    move the epoch.
    """
    probe.need(ApiKey.VOTE, 2)
    found = quorum(probe)
    code, one = _vote(probe, found, pre_vote=True, last_offset=_FUTURE_OFFSET, last_offset_epoch=0)
    probe.expect_error(code, ErrorCode.NONE)
    probe.expect(not one.vote_granted, "a pre-vote against a leader is granted")
    after = quorum(probe, again=True)
    probe.expect(after.epoch == found.epoch, f"the epoch went from {found.epoch} to {after.epoch}")


def _begin(probe: Probe, found: Quorum, **more: Any) -> Any:
    cluster_id = more.pop("cluster_id", found.cluster_id)
    values: dict[str, Any] = {"leader_id": found.leader_id, "leader_epoch": found.epoch, **more}
    topics = [
        BeginTopic(
            topic_name=CLUSTER_METADATA, partitions=[BeginPartition(partition_index=0, **values)]
        )
    ]
    answer = probe.call(BeginQuorumEpochRequest(cluster_id=cluster_id, topics=topics), 0)
    parts = [one for topic in answer.topics for one in topic.partitions]
    return answer.error_code, parts[0] if parts else None


@FAMILY.rule(
    "begin-other-cluster",
    source="KIP-595",
    section="BeginQuorumEpoch",
    since="2.7",
    apis=_BEGIN,
)
def begin_other_cluster(probe: Probe) -> None:
    """A BeginQuorumEpoch with the id of another cluster has error INCONSISTENT_CLUSTER_ID."""
    code, _ = _begin(probe, quorum(probe), cluster_id=NO_NAME)
    probe.expect_error(code, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule(
    "begin-old-epoch",
    source="KIP-595",
    section="BeginQuorumEpoch: FENCED_LEADER_EPOCH",
    since="2.7",
    apis=_BEGIN,
)
def begin_old_epoch(probe: Probe) -> None:
    """A BeginQuorumEpoch of an epoch that is over has error FENCED_LEADER_EPOCH, with the current
    epoch and leader.
    """
    found = quorum(probe)
    if found.epoch == 0:
        probe.not_applicable("the epoch is 0, there is none before")
    _, one = _begin(probe, found, leader_epoch=found.epoch - 1)
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    probe.expect(
        (one.leader_epoch, one.leader_id) == (found.epoch, found.leader_id),
        f"the leader is {one.leader_id} of epoch {one.leader_epoch}",
    )


def _end(probe: Probe, found: Quorum, **more: Any) -> Any:
    cluster_id = more.pop("cluster_id", found.cluster_id)
    values: dict[str, Any] = {"leader_id": found.leader_id, "leader_epoch": found.epoch, **more}
    topics = [
        EndTopic(
            topic_name=CLUSTER_METADATA, partitions=[EndPartition(partition_index=0, **values)]
        )
    ]
    answer = probe.call(EndQuorumEpochRequest(cluster_id=cluster_id, topics=topics), 0)
    parts = [one for topic in answer.topics for one in topic.partitions]
    return answer.error_code, parts[0] if parts else None


@FAMILY.rule(
    "end-other-cluster",
    source="KIP-595",
    section="EndQuorumEpoch",
    since="2.7",
    apis=_END,
)
def end_other_cluster(probe: Probe) -> None:
    """An EndQuorumEpoch with the id of another cluster has error INCONSISTENT_CLUSTER_ID."""
    code, _ = _end(probe, quorum(probe), cluster_id=NO_NAME)
    probe.expect_error(code, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule(
    "end-old-epoch",
    source="KIP-595",
    section="EndQuorumEpoch: FENCED_LEADER_EPOCH",
    since="2.7",
    apis=_END,
)
def end_old_epoch(probe: Probe) -> None:
    """An EndQuorumEpoch of an epoch that is over has error FENCED_LEADER_EPOCH."""
    found = quorum(probe)
    if found.epoch == 0:
        probe.not_applicable("the epoch is 0, there is none before")
    _, one = _end(probe, found, leader_epoch=found.epoch - 1)
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)


# --- Fetch of the log -----------------------------------------------------------------------


@FAMILY.rule("fetch-other-cluster", source="KIP-595", section="Fetch: ClusterId", since="2.7")
def fetch_other_cluster(probe: Probe) -> None:
    """A Fetch with the id of another cluster has error INCONSISTENT_CLUSTER_ID."""
    answer = raft_fetch(probe, quorum(probe), 0, cluster_id=NO_NAME)
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule("fetch-from-start", source="KIP-595", section="Fetch", since="2.7")
def fetch_from_start(probe: Probe) -> None:
    """A Fetch at the start of the log has batches with right CRCs, in order, with epochs that do
    not fall.
    """
    found = quorum(probe)
    one = fetch_log(probe, found, found.log_start, 0)
    try:
        batches = list(iter_batches(bytes(one.records or b""), check_crc=True))
    except DecodeError as error:
        probe.fail(f"the records do not decode: {error}")
    probe.expect(bool(batches), "there are no batches at the start of the log")
    probe.expect(batches[0].base_offset == found.log_start, f"it is at {batches[0].base_offset}")
    for before, after in itertools.pairwise(batches):
        probe.expect(
            after.base_offset == before.next_offset
            and after.partition_leader_epoch >= before.partition_leader_epoch,
            f"the batch at {before.base_offset} is followed by one at {after.base_offset}, epoch "
            f"{after.partition_leader_epoch} behind {before.partition_leader_epoch}",
        )


@FAMILY.rule("leader-change-first", source="KIP-595", section="LeaderChangeMessage", since="2.7")
def leader_change_first(probe: Probe) -> None:
    """The first batch of each epoch is a control batch with a LEADER_CHANGE record."""
    found = quorum(probe)
    one = fetch_log(probe, found, found.log_start, 0)
    epoch = None if found.log_start > 0 else -1
    try:
        for batch in decode_batches(bytes(one.records or b"")):
            now = batch.header.partition_leader_epoch
            # Formatting writes the first batch of a log with epoch 0, before there is a leader.
            if epoch is not None and now > max(epoch, 0):
                name = batch.header.is_control and decode_control_record(batch.records[0]).name
                probe.expect(
                    name == "LEADER_CHANGE", f"epoch {now} does not begin with LEADER_CHANGE"
                )
            epoch = now
    except DecodeError as error:
        probe.fail(f"the records do not decode: {error}")


@FAMILY.rule("fetch-beyond-end", source="KIP-595", section="Fetch: DivergingEpoch", since="2.7")
def fetch_beyond_end(probe: Probe) -> None:
    """A Fetch beyond the end of the epoch that it names is answered with the diverging epoch and
    its end, without error and records.
    """
    found = quorum(probe)
    one = fetch_log(probe, found, _FUTURE_OFFSET, found.epoch)
    probe.expect(not one.records, "an answer with a diverging epoch has records")
    probe.expect(
        one.diverging_epoch.epoch == found.epoch and one.diverging_epoch.end_offset > 0,
        f"the answer diverges at {one.diverging_epoch.end_offset} of {one.diverging_epoch.epoch}",
    )


@FAMILY.rule(
    "fetch-unknown-epoch",
    source="KafkaRaftClient",
    section="validateFetch: INVALID_REQUEST",
    since="2.7",
)
def fetch_unknown_epoch(probe: Probe) -> None:
    """A Fetch whose last fetched epoch is above the current one has error INVALID_REQUEST."""
    found = quorum(probe)
    answer = raft_fetch(probe, found, 5, last_fetched_epoch=found.epoch + 1000)
    codes = {one.error_code for topic in answer.responses for one in topic.partitions}
    codes.add(answer.error_code)
    probe.expect(ErrorCode.INVALID_REQUEST in codes, f"the errors are {sorted(codes)}")


@FAMILY.rule("fetch-old-epoch", source="KIP-595", section="Fetch: FENCED_LEADER_EPOCH", since="2.7")
def fetch_old_epoch(probe: Probe) -> None:
    """A Fetch with a current leader epoch that is over has error FENCED_LEADER_EPOCH, and names the
    leader.
    """
    found = quorum(probe)
    if found.epoch == 0:
        probe.not_applicable("the epoch is 0, there is none before")
    answer = raft_fetch(probe, found, 0, current_leader_epoch=found.epoch - 1)
    [one] = [one for topic in answer.responses for one in topic.partitions]
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    probe.expect(
        one.current_leader.leader_epoch == found.epoch,
        f"the answer names epoch {one.current_leader.leader_epoch}, not {found.epoch}",
    )


@FAMILY.rule(
    "fetch-future-epoch", source="KIP-595", section="Fetch: UNKNOWN_LEADER_EPOCH", since="2.7"
)
def fetch_future_epoch(probe: Probe) -> None:
    """A Fetch with a current leader epoch that has not come has error UNKNOWN_LEADER_EPOCH."""
    found = quorum(probe)
    answer = raft_fetch(probe, found, 0, current_leader_epoch=found.epoch + 1000)
    [one] = [one for topic in answer.responses for one in topic.partitions]
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@FAMILY.rule(
    "high-watermark-does-not-fall", source="KIP-595", section="Fetch: HighWatermark", since="2.7"
)
def high_watermark_does_not_fall(probe: Probe) -> None:
    """The high watermark of the leader does not go back."""
    found = quorum(probe)
    marks = [fetch_log(probe, found, found.log_start, 0).high_watermark for _ in range(3)]
    probe.expect(marks == sorted(marks) and marks[0] > 0, f"high watermarks are {marks}")


# --- DescribeQuorum -------------------------------------------------------------------------


@FAMILY.rule("described", source="KIP-836", section="DescribeQuorum", since="3.3")
def described(probe: Probe) -> None:
    """DescribeQuorum names a leader that is a voter, a current epoch and a high watermark that no
    voter's majority is behind.
    """
    found = quorum(probe)
    ids = [voter.replica_id for voter in found.voters]
    probe.expect(found.leader_id in ids, f"leader {found.leader_id} is none of voters {ids}")
    probe.expect(len(set(ids)) == len(ids), f"the voters are {ids}")
    ends = sorted((voter.log_end_offset for voter in found.voters), reverse=True)
    majority = ends[len(ends) // 2]
    probe.expect(
        found.high_watermark <= max(majority, 0) or len(ends) > 1,
        f"the high watermark is {found.high_watermark}, a majority has {majority}",
    )


@FAMILY.rule("describes-no-other-topic", source="KIP-595", section="DescribeQuorum", since="2.7")
def describes_no_other_topic(probe: Probe) -> None:
    """DescribeQuorum of another topic has error UNKNOWN_TOPIC_OR_PARTITION."""
    topic = DescribeTopic(topic_name=NO_NAME, partitions=[DescribePartition(partition_index=0)])
    answer = probe.call(DescribeQuorumRequest(topics=[topic]))
    codes = {one.error_code for topic in answer.topics for one in topic.partitions}
    codes.add(answer.error_code)
    probe.expect(
        bool(codes & {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST}),
        f"the errors are {sorted(codes)}",
    )
