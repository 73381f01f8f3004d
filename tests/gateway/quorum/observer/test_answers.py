"""Answers are read as what they may be: real ones give what they say, all others are told apart
without harm.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.quorum import response_checks
from gateway.quorum.partition import Position
from gateway.quorum.response_checks import InvalidResponse
from kwire.header import decode_response_header
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse, TopicSnapshot
from kwire.messages.fetch_snapshot_response import PartitionSnapshot as Chunk
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.quorum.batches import data_batch
from tests.shared import SHARED, needs_shared

A, B = data_batch(4, 2, 3, 1), data_batch(6, 1, 4, 2)
END = Position(4, 2)


def partition(records: bytes) -> PartitionData:
    return PartitionData(records=records)


def test_whole_batches_that_follow_the_log_end() -> None:
    assert response_checks.given_batches(partition(A.data + B.data), END, 4) == (
        A.data + B.data,
        Position(7, 4),
    )
    assert response_checks.given_batches(partition(b""), END, 4) is None


@pytest.mark.parametrize("cut", [1, 30, 61, len(B.data) - 1])
def test_a_cut_batch_at_the_end_is_left_out(cut: int) -> None:
    got = response_checks.given_batches(partition(A.data + B.data[:cut]), END, 4)
    assert got is not None and bytes(got.data) == A.data and got.end == Position(6, 3)


@pytest.mark.parametrize(
    ("records", "end", "epoch"),
    [
        (A.data, Position(3, 2), 4),  # a gap
        (A.data, Position(5, 2), 4),  # an overlap
        (A.data, Position(4, 4), 4),  # an epoch that falls
        (A.data, END, 2),  # later than the leader's
        (A.data + A.data, END, 4),  # twice
        (B.data + A.data, Position(6, 3), 4),  # backwards
        (A.data[:40], END, 4),  # not one whole batch
        (b"\0" * 100, END, 4),
        (b"\xff" * 100, END, 4),
    ],
)
def test_batches_that_cannot_follow_are_nonsense(records: bytes, end: Position, epoch: int) -> None:
    with pytest.raises(InvalidResponse):
        response_checks.given_batches(partition(records), end, epoch)


def test_batch_whose_offsets_exceed_int64_is_invalid() -> None:
    largest = 2**63 - 1
    fits = data_batch(largest - 2, 2, 3, 1)
    got = response_checks.given_batches(partition(fits.data), Position(largest - 2, 2), 4)
    assert got is not None and got.end == Position(largest, 3)
    exceeds = data_batch(largest - 1, 2, 3, 1)
    with pytest.raises(InvalidResponse, match="offset"):
        response_checks.given_batches(partition(exceeds.data), Position(largest - 1, 2), 4)


def test_only_the_metadata_partition_alone_is_an_answer() -> None:
    one = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[PartitionData()])
    assert response_checks.fetched_partition(FetchResponse(responses=[one])) == PartitionData()
    other = FetchableTopicResponse(topic_id=Uuid(bytes(range(16))), partitions=[PartitionData()])
    two = FetchableTopicResponse(
        topic_id=METADATA_TOPIC_ID, partitions=[PartitionData(), PartitionData(partition_index=1)]
    )
    none = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID)
    second = FetchableTopicResponse(
        topic_id=METADATA_TOPIC_ID, partitions=[PartitionData(partition_index=1)]
    )
    for topics in ([], [one, one], [other], [two], [none], [second]):
        with pytest.raises(InvalidResponse):
            response_checks.fetched_partition(FetchResponse(responses=topics))


def test_only_the_metadata_snapshot_alone_is_an_answer() -> None:
    one = TopicSnapshot(name="__cluster_metadata", partitions=[Chunk()])
    assert response_checks.snapshot_partition(FetchSnapshotResponse(topics=[one])) == Chunk()
    for topics in (
        [],
        [one, one],
        [TopicSnapshot(name="x", partitions=[Chunk()])],
        [TopicSnapshot(name="__cluster_metadata")],
    ):
        with pytest.raises(InvalidResponse):
            response_checks.snapshot_partition(FetchSnapshotResponse(topics=topics))


def _real(api_key: int) -> Iterator[tuple[int, bytes]]:
    """(version, frame) of what real controllers answered to real brokers and controllers."""
    with lzma.open(SHARED / "wire" / "public.frames.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            frame: dict[str, Any] = json.loads(line)
            raft = str(frame.get("client_id", "")).startswith("raft-client")
            if frame.get("api_key") == api_key and frame["direction"] == "resp" and raft:
                yield frame["version"], bytes.fromhex(frame["hex"])


@needs_shared
def test_responses_of_real_controllers_are_valid() -> None:
    """Every error-free answer is read, and its batches would be taken by a log that ends where they
    begin.
    """
    seen: Counter[str] = Counter()
    for version, frame in _real(FetchResponse.API_KEY):
        _, at = decode_response_header(FetchResponse.API_KEY, version, frame)
        response, _ = FetchResponse.decode_from(frame, version, at)
        if response.error_code:
            seen["top"] += 1
            continue
        data = response_checks.fetched_partition(response)
        assert data.current_leader.leader_epoch >= 0
        epoch = data.current_leader.leader_epoch
        if data.error_code:
            seen["error"] += 1
        elif (snapshot := response_checks.given_snapshot(data, epoch)) is not None:
            assert isinstance(snapshot, SnapshotId)
            seen["snapshot"] += 1
        elif response_checks.given_divergence(data) is not None:
            seen["diverging"] += 1
        elif data.records:
            first = int.from_bytes(bytes(data.records[:8]))
            assert response_checks.given_batches(data, Position(first, 0), epoch)
            seen["records"] += 1
        else:
            seen["empty"] += 1
    assert all(seen[kind] for kind in ("error", "snapshot", "diverging", "records", "empty")), seen
