"""Rules of ListOffsets and OffsetForLeaderEpoch (KIP-79, KIP-101, KIP-207, KIP-320, KIP-734)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fixtures import EARLIEST, LATEST, Partition, list_offset, readable
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID

_APIS: Final = (ApiKey.LIST_OFFSETS,)
_EPOCHS: Final = (ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS)
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_FUTURE_MS: Final = 32_503_680_000_000  # the year 3000
#: An epoch that no partition reaches.
_FUTURE_EPOCH: Final = 2_000_000_000
FAMILY: Final = Family(
    "list-offsets",
    "ListOffsets and OffsetForLeaderEpoch",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
    since="0.10.1",
)


def _offset(probe: Probe, where: Partition, timestamp: int, **more: Any) -> Any:
    one = list_offset(probe, where.topic, where.index, timestamp, **more)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    return one


@FAMILY.rule("earliest", source="KIP-79", section="ListOffsetRequest v1")
def earliest(probe: Probe) -> None:
    """Timestamp -2 gives the first offset of the partition, without a timestamp."""
    where = readable(probe)
    one = _offset(probe, where, EARLIEST)
    probe.expect(0 <= one.offset <= where.end, f"the first offset is {one.offset}")
    probe.expect(not where.is_own or one.offset == 0, f"a new topic begins at {one.offset}")
    probe.expect(one.timestamp == -1, f"timestamp -2 is answered with {one.timestamp}")


@FAMILY.rule("latest", source="KIP-79", section="ListOffsetRequest v1")
def latest(probe: Probe) -> None:
    """Timestamp -1 gives the offset behind the last record, without a timestamp."""
    where = readable(probe)
    one = _offset(probe, where, LATEST)
    if where.is_own:
        probe.expect(one.offset == where.end, f"behind {where.end} records the end is {one.offset}")
    probe.expect(one.offset >= where.end, f"the end went back from {where.end} to {one.offset}")
    probe.expect(one.timestamp == -1, f"timestamp -1 is answered with {one.timestamp}")


@FAMILY.rule("every-version-alike", source="ListOffsetsResponse.json", section="Offset")
def every_version_alike(probe: Probe) -> None:
    """The first offset is the same in every version."""
    where = readable(probe)
    versions = [version for version in probe.session.versions(ApiKey.LIST_OFFSETS) if version]
    found = {
        version: _offset(probe, where, EARLIEST, version=version).offset for version in versions
    }
    probe.expect(len(set(found.values())) == 1, f"the first offset by version is {found}")


@FAMILY.rule(
    "committed-is-not-beyond-the-end", source="KIP-98", section="isolation_level", since="0.11"
)
def committed_is_not_beyond_the_end(probe: Probe) -> None:
    """The end for read_committed is not beyond the end for read_uncommitted."""
    where = readable(probe)
    committed = _offset(probe, where, LATEST, isolation_level=1).offset
    end = _offset(probe, where, LATEST).offset
    probe.expect(committed <= end, f"the end is {end}, for read_committed {committed}")


@FAMILY.rule("by-time-from-the-start", source="KIP-79", section="ListOffsetRequest v1")
def by_time_from_the_start(probe: Probe) -> None:
    """Timestamp 0 gives the first record, with its offset and timestamp."""
    where = readable(probe)
    one = _offset(probe, where, 0)
    probe.expect(
        where.start <= one.offset < max(where.end, where.start + 1),
        f"timestamp 0 gives offset {one.offset}",
    )
    probe.expect(one.timestamp >= 0, f"timestamp 0 gives a record of time {one.timestamp}")


@FAMILY.rule("by-time-in-the-future", source="KIP-79", section="ListOffsetRequest v1")
def by_time_in_the_future(probe: Probe) -> None:
    """A timestamp behind that of every record gives offset -1 and timestamp -1."""
    one = _offset(probe, readable(probe), _FUTURE_MS)
    probe.expect(
        (one.offset, one.timestamp) == (-1, -1),
        f"the year 3000 gives offset {one.offset} of time {one.timestamp}",
    )


@FAMILY.rule("by-time-is-monotonic", source="KIP-79", section="ListOffsetRequest v1")
def by_time_is_monotonic(probe: Probe) -> None:
    """The record found for a timestamp has that timestamp or a later one."""
    where = readable(probe)
    first = _offset(probe, where, 0)
    again = _offset(probe, where, first.timestamp)
    probe.expect(
        again.timestamp >= first.timestamp and again.offset <= first.offset,
        f"time {first.timestamp} of offset {first.offset} gives offset {again.offset}",
    )
    later = _offset(probe, where, first.timestamp + 1)
    probe.expect(
        later.offset == -1 or later.timestamp > first.timestamp,
        f"time {first.timestamp + 1} gives a record of time {later.timestamp}",
    )


@FAMILY.rule("max-timestamp", source="KIP-734", section="Public Interfaces", since="3.0")
def max_timestamp(probe: Probe) -> None:
    """Timestamp -3 gives the record with the largest timestamp, which is in the partition."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(7, 12))
    where = readable(probe)
    one = _offset(probe, where, _MAX_TIMESTAMP, version=version)
    end = _offset(probe, where, LATEST).offset
    probe.expect(where.start <= one.offset < end, f"timestamp -3 gives offset {one.offset}")
    first = _offset(probe, where, 0)
    probe.expect(
        one.timestamp >= first.timestamp,
        f"the largest timestamp is {one.timestamp}, of the first record it is {first.timestamp}",
    )


@FAMILY.rule("max-timestamp-is-new", source="KIP-734", section="Compatibility", since="3.0")
def max_timestamp_is_new(probe: Probe) -> None:
    """Timestamp -3 below version 7 is refused with UNSUPPORTED_VERSION."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(1, 7))
    where = readable(probe)
    one = list_offset(probe, where.topic, where.index, _MAX_TIMESTAMP, version=version)
    probe.expect_error(one.error_code, ErrorCode.UNSUPPORTED_VERSION)


@FAMILY.rule("earliest-local", source="KIP-405", section="ListOffsets v8", since="3.4")
def earliest_local(probe: Probe) -> None:
    """Timestamp -4 gives the first offset that is stored locally: no lower than the first."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(8, 12))
    where = readable(probe)
    local = _offset(probe, where, _EARLIEST_LOCAL, version=version).offset
    first = _offset(probe, where, EARLIEST).offset
    probe.expect(local >= first, f"the first local offset is {local}, the first is {first}")


@FAMILY.rule("leader-epoch", source="KIP-207", section="ListOffsets v4", since="2.1")
def leader_epoch(probe: Probe) -> None:
    """From version 4 on the answer for the end has the leader epoch of the partition."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(4, 12))
    where = readable(probe)
    one = _offset(probe, where, LATEST, version=version)
    probe.expect(
        one.leader_epoch >= where.epoch, f"epoch {where.epoch} is answered with {one.leader_epoch}"
    )


@FAMILY.rule(
    "unknown-topic", source="ReplicaManager", section="getPartitionOrError", changes=Changes.NOTHING
)
def unknown_topic(probe: Probe) -> None:
    """A topic that does not exist has error UNKNOWN_TOPIC_OR_PARTITION, and no offset."""
    one = list_offset(probe, NO_NAME, 0, LATEST)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    probe.expect(one.offset == -1, f"an unknown topic has offset {one.offset}")


@FAMILY.rule("unknown-partition", source="ReplicaManager", section="getPartitionOrError")
def unknown_partition(probe: Probe) -> None:
    """A partition that does not exist has error UNKNOWN_TOPIC_OR_PARTITION."""
    one = list_offset(probe, readable(probe).topic, 100_000, LATEST)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule("epoch-of-the-future", source="KIP-320", section="ListOffsets v4", since="2.1")
def epoch_of_the_future(probe: Probe) -> None:
    """A current leader epoch above that of the leader has error UNKNOWN_LEADER_EPOCH."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(4, 12))
    where = readable(probe)
    one = list_offset(probe, where.topic, where.index, LATEST, epoch=_FUTURE_EPOCH, version=version)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@FAMILY.rule("epoch-of-the-past", source="KIP-320", section="ListOffsets v4", since="2.1")
def epoch_of_the_past(probe: Probe) -> None:
    """A current leader epoch below that of the leader has error FENCED_LEADER_EPOCH."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(4, 12))
    where = readable(probe)
    if where.epoch == 0:
        probe.not_applicable("the leader epoch is 0, there is none below")
    one = list_offset(
        probe, where.topic, where.index, LATEST, epoch=where.epoch - 1, version=version
    )
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)


@FAMILY.rule("current-epoch", source="KIP-320", section="ListOffsets v4", since="2.1")
def current_epoch(probe: Probe) -> None:
    """The current leader epoch is accepted."""
    version = probe.need(ApiKey.LIST_OFFSETS, *range(4, 12))
    where = readable(probe)
    _offset(probe, where, LATEST, epoch=where.epoch, version=version)


@FAMILY.rule("partition-twice", source="KafkaApis", section="handleListOffsetRequest")
def partition_twice(probe: Probe) -> None:
    """A partition that is asked for twice has error INVALID_REQUEST."""
    where = readable(probe)
    partition = ListOffsetsPartition(partition_index=where.index, timestamp=LATEST)
    topics = [ListOffsetsTopic(name=where.topic, partitions=[partition, partition])]
    answer = probe.call(ListOffsetsRequest(replica_id=-1, topics=topics))
    for topic in answer.topics:
        for one in topic.partitions:
            probe.expect_error(one.error_code, ErrorCode.INVALID_REQUEST)


# --- OffsetForLeaderEpoch -------------------------------------------------------------------


def _epoch_end(probe: Probe, where: Partition, epoch: int, current: int = -1) -> Any:
    partition = OffsetForLeaderPartition(
        partition=where.index, current_leader_epoch=current, leader_epoch=epoch
    )
    topics = [OffsetForLeaderTopic(topic=where.topic, partitions=[partition])]
    answer = probe.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
    [topic] = answer.topics
    [one] = topic.partitions
    return one


@FAMILY.rule(
    "end-of-current-epoch",
    source="KIP-101",
    section="OffsetForLeaderEpoch",
    since="0.11",
    apis=_EPOCHS,
)
def end_of_current_epoch(probe: Probe) -> None:
    """The end offset of the current leader epoch is the end of the log."""
    where = readable(probe)
    epoch = _offset(probe, where, LATEST).leader_epoch
    one = _epoch_end(probe, where, epoch)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    end = _offset(probe, where, LATEST).offset
    probe.expect(one.leader_epoch == epoch, f"epoch {epoch} is answered with {one.leader_epoch}")
    least = where.end if where.is_own else 0
    probe.expect(
        least <= one.end_offset <= end,
        f"epoch {epoch} ends at {one.end_offset}, the log at {end}",
    )


@FAMILY.rule(
    "end-of-unknown-epoch",
    source="KIP-320",
    section="OffsetForLeaderEpoch",
    since="2.1",
    apis=_EPOCHS,
)
def end_of_unknown_epoch(probe: Probe) -> None:
    """An epoch above that of the leader has end offset -1 and epoch -1, without an error."""
    one = _epoch_end(probe, readable(probe), _FUTURE_EPOCH)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    probe.expect(
        (one.leader_epoch, one.end_offset) == (-1, -1),
        f"an unknown epoch ends at {one.end_offset}, epoch {one.leader_epoch}",
    )


@FAMILY.rule(
    "end-of-epoch-fenced",
    source="KIP-320",
    section="OffsetForLeaderEpoch v2",
    since="2.1",
    apis=_EPOCHS,
)
def end_of_epoch_fenced(probe: Probe) -> None:
    """OffsetForLeaderEpoch with a current epoch above that of the leader has error
    UNKNOWN_LEADER_EPOCH.
    """
    one = _epoch_end(probe, readable(probe), 0, current=_FUTURE_EPOCH)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@FAMILY.rule(
    "end-of-epoch-unknown-partition",
    source="ReplicaManager",
    section="lastOffsetForLeaderEpoch",
    since="0.11",
    apis=_EPOCHS,
    changes=Changes.NOTHING,
)
def end_of_epoch_unknown_partition(probe: Probe) -> None:
    """OffsetForLeaderEpoch of an unknown topic has error UNKNOWN_TOPIC_OR_PARTITION."""
    where = Partition(NO_NAME, ZERO_UUID, 0, 0, 0, 0, False)
    one = _epoch_end(probe, where, 0)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
