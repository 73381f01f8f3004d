"""A gateway that observes a Kafka quorum writes snapshots, deletes the log below them while
clients read, and restarts from one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.log.metadata.local_log import PARTITION_DIRECTORY
from kwire.cluster import Image
from kwire.metadata_log.file_names import parse_segment_name, parse_snapshot_name
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.interop.quorum import need_kafka, observing, offsets_of, wait_for_end
from tests.interop.test_own_snapshots import dump, image_of
from tests.kwire.cluster.kafka_state import state_of
from tests.waiting import until
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.metadata_workload import node_properties, write_some

_SETTINGS = (
    "--metadata-log-max-record-bytes-between-snapshots",
    "1000",
    "--metadata-log-segment-bytes",
    "4000",
    "--metadata-max-retention-bytes",
    "8000",
)


def snapshots(directory: Path) -> list[SnapshotId]:
    return sorted(one for path in directory.iterdir() if (one := parse_snapshot_name(path.name)))


def start_of(directory: Path) -> int:
    """Base offset of the oldest segment."""
    return min(
        base for path in directory.iterdir() if (base := parse_segment_name(path.name)) is not None
    )


def test_snapshots_are_written_and_the_log_below_them_is_deleted(tmp_path: Path) -> None:
    need_kafka()
    copy = tmp_path / "data" / PARTITION_DIRECTORY
    with kafka(controllers=1, node_properties=node_properties) as cluster:
        truth = cluster.wait_for_leader().metadata_log_dir
        seen: dict[SnapshotId, Path] = {}
        with gateway(*observing(cluster, tmp_path / "data", *_SETTINGS)) as server:
            write_some(cluster)

            def look() -> tuple[int, int]:
                for one in snapshots(copy):
                    if one not in seen:  # it may be cleaned soon
                        seen[one] = Path(shutil.copy(copy / one.file_name, tmp_path))
                return len(seen), start_of(copy)

            until(look, "snapshots", lambda found: found[0] >= 3 and found[1] > 0)
            start, _ = offsets_of(server.bootstrap)
            assert start > 0, "the log starts at the records of its oldest snapshot"
        for one, path in sorted(seen.items()):
            before = image_of(truth, one.end_offset)
            assert before.next_offset == one.end_offset and before.epoch == one.epoch
            assert state_of(image_of_snapshot(path, tmp_path)) == state_of(before), one
        newest = max(seen)
        _, batches = dump(seen[newest])
        assert len(batches) >= 3 and all("isvalid: true" in line for line in batches)
        with gateway(*observing(cluster, tmp_path / "data", *_SETTINGS)) as server:
            wait_for_end(server.bootstrap, newest.end_offset + 2)
            assert offsets_of(server.bootstrap)[0] >= start


def image_of_snapshot(path: Path, scratch: Path) -> Image:
    """The image of a snapshot without the log behind it."""
    alone = scratch / f"alone-{path.name}"
    alone.mkdir()
    shutil.copy(path, alone)
    snapshot = parse_snapshot_name(path.name)
    assert snapshot is not None
    return image_of(alone, snapshot.end_offset)
