"""Values that are written from kept ones are those of the codec."""

from __future__ import annotations

import random

import pytest

from kwire.cluster import partition_writer
from kwire.cluster.partition_writer import PartitionWriter
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.records import encode_metadata_record
from kwire.uuid import Uuid

LISTS: list[list[int]] = [[], [1], [1, 2], [1]]
DIRECTORIES = [Uuid(bytes([7]) * 16)]


def topic(rng: random.Random) -> Uuid:
    return Uuid(bytes([rng.randrange(4)]) * 16)


@pytest.mark.parametrize("kept", [5, 1_000])
@pytest.mark.parametrize("version", [0, 2])
def test_changes_are_written_as_by_the_encoder(
    version: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_writer, "_KEPT", kept)
    rng, writer = random.Random(3), PartitionWriter()
    lists = [None, *LISTS]
    for number in range(500):
        change = PartitionChangeRecord(
            partition_id=number,
            topic_id=topic(rng),
            leader=rng.choice((-2, -1, 1)),
            isr=rng.choice(lists),
            replicas=rng.choice(lists),
            eligible_leader_replicas=rng.choice(lists) if version == 2 else None,
        )
        assert writer.write_change(change, version) == encode_metadata_record(change, version)


@pytest.mark.parametrize("kept", [5, 1_000])
@pytest.mark.parametrize("version", [0, 2])
def test_partitions_are_written_as_by_the_encoder(
    version: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_writer, "_KEPT", kept)
    rng, writer = random.Random(4), PartitionWriter()
    for number in range(500):
        partition = PartitionRecord(
            partition_id=number,
            topic_id=topic(rng),
            replicas=rng.choice(LISTS),
            isr=rng.choice(LISTS),
            leader=rng.choice((-1, 1)),
            leader_epoch=rng.randrange(3),
            partition_epoch=rng.randrange(3),
            directories=DIRECTORIES if version else [],
            last_known_elr=rng.choice((None, LISTS[1])) if version == 2 else None,
        )
        assert writer.write(partition, version) == encode_metadata_record(partition, version)
