"""The requests of an observer at every version, compared with those of Kafka's nodes."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.quorum import requests
from gateway.quorum.partition import Position
from kwire.header import decode_request_header
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.shared import SHARED, needs_shared

DIRECTORY = Uuid(bytes(range(16)))
ABSENT = (1 << 63) - 1


def fetch(version: int, *, high_watermark: int = 5) -> FetchRequest:
    made = requests.fetch(
        version,
        cluster_id="abc",
        replica=(70, DIRECTORY),
        epoch=4,
        log_end=Position(7, 3),
        high_watermark=high_watermark,
        max_wait_ms=500,
        max_bytes=1_048_576,
    )
    return FetchRequest.decode(made.encode(version), version)


@pytest.mark.parametrize("version", requests.FETCH_VERSIONS)
def test_a_fetch_of_every_version_is_a_replicas(version: int) -> None:
    got = fetch(version)
    assert got.cluster_id == "abc" and got.max_wait_ms == 500 and got.max_bytes == 1_048_576
    assert (got.replica_id, got.replica_state.replica_id) == (
        (70, -1) if version < 15 else (-1, 70)
    )
    assert got.replica_state.replica_epoch == -1
    [topic] = got.topics
    [partition] = topic.partitions
    assert topic.topic_id == METADATA_TOPIC_ID and partition.partition == 0
    assert (
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
    ) == (4, 7, 3)
    assert partition.log_start_offset == -1 and partition.partition_max_bytes == 1_048_576
    assert partition.replica_directory_id == (DIRECTORY if version >= 17 else ZERO_UUID)
    assert partition.high_watermark == (5 if version >= 18 else ABSENT)


@pytest.mark.parametrize("version", requests.FETCH_VERSIONS)
def test_an_unknown_high_watermark_is_not_sent(version: int) -> None:
    assert fetch(version, high_watermark=-1).topics[0].partitions[0].high_watermark == ABSENT


@pytest.mark.parametrize("version", requests.FETCH_SNAPSHOT_VERSIONS)
def test_a_fetch_snapshot_has_one_topic(version: int) -> None:
    made = requests.fetch_snapshot(
        version,
        cluster_id="abc",
        replica=(70, DIRECTORY),
        epoch=4,
        id=SnapshotId(20, 3),
        position=9,
        max_bytes=1_048_576,
    )
    got = FetchSnapshotRequest.decode(made.encode(version), version)
    [topic] = got.topics
    [partition] = topic.partitions
    assert (got.cluster_id, got.replica_id, got.max_bytes, topic.name) == (
        "abc",
        70,
        1_048_576,
        "__cluster_metadata",
    )
    assert (partition.partition, partition.current_leader_epoch, partition.position) == (0, 4, 9)
    assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == (20, 3)
    assert partition.replica_directory_id == (DIRECTORY if version >= 1 else ZERO_UUID)


def _real(api_key: int) -> Iterator[tuple[int, bytes]]:
    """(version, frame) of the requests that real brokers and controllers sent to controllers."""
    with lzma.open(SHARED / "wire" / "public.frames.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            frame: dict[str, Any] = json.loads(line)
            raft = str(frame.get("client_id", "")).startswith("raft-client")
            if frame.get("api_key") == api_key and frame["direction"] == "req" and raft:
                yield frame["version"], bytes.fromhex(frame["hex"])


@needs_shared
def test_a_fetch_is_what_real_nodes_send() -> None:
    """All but one field: they ask for 0 bytes of the partition, which leaders ignore."""
    compared = 0
    for version, frame in _real(FetchRequest.API_KEY):
        _, at = decode_request_header(frame)
        real, _ = FetchRequest.decode_from(frame, version, at)
        asked = real.topics[0].partitions[0]
        if asked.high_watermark == -1:
            # until they know a high watermark they say -1, which makes the leader answer at once
            continue
        made = requests.fetch(
            version,
            cluster_id=real.cluster_id,
            replica=(real.replica_state.replica_id, asked.replica_directory_id),
            epoch=asked.current_leader_epoch,
            log_end=Position(asked.fetch_offset, asked.last_fetched_epoch),
            high_watermark=asked.high_watermark,
            max_wait_ms=real.max_wait_ms,
            max_bytes=real.max_bytes,
        )
        assert asked.partition_max_bytes == 0
        made.topics[0].partitions[0].partition_max_bytes = 0
        assert made.encode(version) == real.encode(version)
        compared += 1
    assert compared > 1000


@needs_shared
def test_a_fetch_snapshot_is_what_real_nodes_send() -> None:
    compared = 0
    for version, frame in _real(FetchSnapshotRequest.API_KEY):
        _, at = decode_request_header(frame)
        real, _ = FetchSnapshotRequest.decode_from(frame, version, at)
        asked = real.topics[0].partitions[0]
        made = requests.fetch_snapshot(
            version,
            cluster_id=real.cluster_id,
            replica=(real.replica_id, asked.replica_directory_id),
            epoch=asked.current_leader_epoch,
            id=SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
            position=asked.position,
            max_bytes=real.max_bytes,
        )
        assert made.encode(version) == real.encode(version)
        compared += 1
    assert compared > 0
