"""Answers ListOffsets, Fetch and OffsetForLeaderEpoch of the only partition, as a leader does."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.client.answers import made
from kwire.conformance.client.state import State
from kwire.conformance.client.traffic import Seen
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kwire.protocol import ErrorCode

_LATEST: Final = -1
_EARLIEST: Final = -2


def _epoch_error(state: State, seen: Seen, epoch: int) -> int:
    """The code for a request to this node that names this leader epoch (-1: none)."""
    if seen.broker != state.leader:
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if epoch >= 0 and epoch != state.epoch:
        older = epoch < state.epoch
        return int(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
    return 0


def list_offsets(state: State, seen: Seen, error: int) -> Any:
    """Return the first or the last offset; no other time has one."""
    version = seen.version

    def answer(name: str, asked: Any) -> Any:
        epoch = asked.current_leader_epoch if version >= 4 else -1
        code = error or _epoch_error(state, seen, epoch)
        if name != state.topic or asked.partition_index:
            code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        offsets = {_EARLIEST: state.log.start, _LATEST: state.log.end}
        offset = -1 if code else offsets.get(asked.timestamp, -1)
        return made(
            ListOffsetsPartitionResponse, version, partition_index=asked.partition_index,
            error_code=code, timestamp=-1, offset=offset,
            leader_epoch=-1 if offset < 0 else state.epoch,
        )  # fmt: skip

    topics = [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=[answer(topic.name, one) for one in topic.partitions]
        )
        for topic in seen.request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def fetch(state: State, seen: Seen, error: int) -> Any:
    """Return one batch of each partition that is asked for. There are no fetch sessions."""
    version, by_id = seen.version, seen.version >= 13
    topics = []
    for topic in seen.request.topics:
        known = topic.topic_id == state.topic_id if by_id else topic.topic == state.topic
        topics.append(
            made(
                FetchableTopicResponse, version, topic=topic.topic, topic_id=topic.topic_id,
                partitions=[
                    _partition(state, seen, one, error, known) for one in topic.partitions
                ],
            )
        )  # fmt: skip
    return FetchResponse(responses=topics)


def _partition(state: State, seen: Seen, asked: Any, error: int, known: bool) -> Any:
    log, version = state.log, seen.version
    code = error
    if not code and (not known or asked.partition):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else unknown
    code = code or _epoch_error(state, seen, asked.current_leader_epoch if version >= 9 else -1)
    if not code and not log.start <= asked.fetch_offset <= log.end:
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    batch = None if code else log.at(asked.fetch_offset)
    return made(
        PartitionData, version, partition_index=asked.partition, error_code=code,
        high_watermark=-1 if code else log.end, last_stable_offset=-1 if code else log.end,
        log_start_offset=-1 if code else log.start, aborted_transactions=None,
        records=b"" if batch is None else batch.data,
    )  # fmt: skip


def has_nothing(body: Any) -> bool:
    """Whether a Fetch answer has neither records nor errors, so that a broker waits with it."""
    return not body.error_code and not any(
        partition.error_code or partition.records
        for topic in body.responses
        for partition in topic.partitions
    )


def offset_for_leader_epoch(state: State, seen: Seen, error: int) -> Any:
    """Return the end of an epoch (KIP-320)."""

    def answer(asked: Any) -> Any:
        code = error or _epoch_error(state, seen, asked.current_leader_epoch)
        epoch, end = (-1, -1) if code else _end_of(state, asked.leader_epoch)
        return EpochEndOffset(
            error_code=code, partition=asked.partition, leader_epoch=epoch, end_offset=end
        )

    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[answer(one) for one in topic.partitions]
        )
        for topic in seen.request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of(state: State, epoch: int) -> tuple[int, int]:
    below = [known for known, _ in state.epochs if known <= epoch]
    later = [start for known, start in state.epochs if known > epoch]
    return (max(below), min(later, default=state.log.end)) if below else (-1, -1)
