"""Directories that real Kafka left are taken over as they are, and what we write for the same
batches is what Kafka wrote.
"""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.leader_epoch_checkpoint import format_leader_epochs, parse_leader_epochs
from gateway.log.files.meta_properties import format_meta_properties, parse_meta_properties
from gateway.log.files.partition_metadata import format_topic_id, parse_topic_id
from gateway.log.files.quorum_state import format_quorum_state, parse_quorum_state
from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.log.reading.follower import DirectoryFollower
from gateway.log.segments.batch_check import Tail, check_batches
from gateway.log.segments.segment_scan import scan_segment
from tests.gateway.log.kafka_files import batch
from tests.shared import needs_shared
from tests.speed import measured, rounds

pytestmark = needs_shared

_QUORUM = (*(f"nodes/{node}" for node in (1, 2, 3, 4, 101, 102, 103)), "side/nodes/3")
#: Log -> its nodes; ``side/`` are the directories of nodes that were killed.
DIRECTORIES = {
    "p-abort": ("nodes/1", "side/nodes/1"),
    "p-large": ("nodes/1",),
    "p-old": ("nodes/1",),
    "p-one-basic": ("nodes/1",),
    "p-one-segments": ("nodes/7",),
    "p-quorum": _QUORUM,
    "p-quorum-short": _QUORUM,
    "p-upgrade": ("nodes/1",),
}
EVERY = [f"{log}/{node}" for log, nodes in DIRECTORIES.items() for node in nodes]
_PARTITION = "__cluster_metadata-0"
#: Size of a preallocated index after a kill of Kafka (``segment.index.bytes``).
_PREALLOCATED = 10 * 1024 * 1024


@pytest.fixture(params=EVERY)
def node(request: Any, logs: Any) -> Path:
    """A node's directory, to be looked at only."""
    name, _, node = request.param.partition("/")
    return Path(logs(name) / node)


@pytest.fixture
def copy(node: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(node, tmp_path / "copy"))


def test_a_copy_of_kafkas_directory_is_opened_and_goes_on(copy: Path) -> None:
    kafka = DirectoryFollower(str(copy / _PARTITION), snapshot_prefix=False)
    while kafka.step():
        pass
    assert kafka.view is not None
    log = LocalLog.open(copy, LogSettings())
    assert log.problems == []
    assert (log.start_offset, log.end_offset) == (kafka.view.start_offset, kafka.view.end_offset)
    assert log.last_epoch == kafka.view.epoch
    for epoch in range(-1, log.last_epoch + 2):
        assert log.end_offset_for_epoch(epoch) == kafka.view.end_offset_for_epoch(epoch)
    assert log.meta_properties is not None
    assert log.quorum_state is not None
    assert log.high_watermark == log.start_offset, "Kafka does not write it down"
    one = batch(log.end_offset, 3, log.last_epoch + 1)
    log.append(one.data)
    log.set_high_watermark(log.end_offset)
    log.close()
    again = LocalLog.open(copy, LogSettings())
    assert (again.end_offset, again.high_watermark, again.last_epoch) == (
        one.next_offset,
        one.next_offset,
        one.epoch,
    )
    again.close()


def test_the_checkpoint_is_what_kafka_wrote_and_segments_stay_untouched(
    copy: Path, node: Path
) -> None:
    LocalLog.open(copy, LogSettings()).close()
    for path in (node / _PARTITION).iterdir():
        if path.suffix in (".log", ".checkpoint") or path.name in (
            "leader-epoch-checkpoint",
            "quorum-state",
        ):
            assert (copy / _PARTITION / path.name).read_bytes() == path.read_bytes(), path.name


def test_without_checkpoint_and_indexes_the_same_comes_out(copy: Path) -> None:
    partition = copy / _PARTITION
    log = LocalLog.open(copy, LogSettings())
    epochs = [log.end_offset_for_epoch(epoch) for epoch in range(10)]
    log.close()
    kept = {path.name: path.read_bytes() for path in partition.iterdir()}
    across_a_restart = {
        path.name for path in partition.glob("*index") if not is_as_kafka_makes_it(path)
    }
    for path in partition.iterdir():
        if path.suffix in (".index", ".timeindex") or path.name in (
            "leader-epoch-checkpoint",
            "partition.metadata",
        ):
            path.unlink()
    log = LocalLog.open(copy, LogSettings())
    assert [log.end_offset_for_epoch(epoch) for epoch in range(10)] == epochs
    log.close()
    found = {path.name: path.read_bytes() for path in partition.iterdir()}
    assert found.keys() == kept.keys()
    assert {name for name in kept if kept[name] != found[name]} == across_a_restart


def is_as_kafka_makes_it(path: Path) -> bool:
    """Whether an index is what we make of its segment. Kafka counts the interval anew when it is
    restarted within a segment.
    """
    scan = scan_segment(path.parent, int(path.stem), 4096, 0)
    before = scan.index.time_bytes()
    scan.index.add_latest_time()
    return path.read_bytes() in (scan.index.offset_bytes(), before, scan.index.time_bytes())


def test_the_indexes_of_closed_segments_are_byte_for_byte_kafkas(logs: Any) -> None:
    """All but the one in five whose segment Kafka had open when it was restarted."""
    same = other = 0
    for name in ("p-quorum", "p-quorum-short", "p-one-segments"):
        for partition in sorted((logs(name) / "nodes").glob(f"*/{_PARTITION}")):
            for path in sorted(partition.glob("*index")):
                if 0 < path.stat().st_size < _PREALLOCATED - 4:
                    is_same = is_as_kafka_makes_it(path)
                    same, other = same + is_same, other + (not is_same)
    assert same > 80
    assert other < same / 3


def test_small_files_are_byte_for_byte_kafkas(node: Path) -> None:
    partition = node / _PARTITION
    data = (partition / "leader-epoch-checkpoint").read_bytes()
    assert format_leader_epochs(parse_leader_epochs(data)) == data
    data = (partition / "partition.metadata").read_bytes()
    assert format_topic_id(parse_topic_id(data)) == data
    data = (partition / "quorum-state").read_bytes()
    version, state = parse_quorum_state(data)
    assert format_quorum_state(state, version) == data
    data = (node / "meta.properties").read_bytes()
    written_at = datetime.strptime(
        data.split(b"\n")[1].decode(), "#%a %b %d %H:%M:%S UTC %Y"
    ).replace(tzinfo=UTC)
    assert format_meta_properties(parse_meta_properties(data), written_at) == data


def test_many_records_are_appended_and_opened(logs: Any, tmp_path: Path) -> None:
    data = (logs("p-large") / "nodes" / "1" / _PARTITION / "00000000000000000000.log").read_bytes()
    append_all(tmp_path, data)
    log = LocalLog.open(tmp_path, LogSettings())
    assert log.end_offset == 136119
    assert (log.directory / "00000000000000000000.log").read_bytes() == data
    log.close()


@pytest.mark.speed
def test_speed_of_appending_and_opening_many_records(logs: Any, tmp_path: Path) -> None:
    data = (logs("p-large") / "nodes" / "1" / _PARTITION / "00000000000000000000.log").read_bytes()
    for number in rounds():
        directory = tmp_path / str(number)
        directory.mkdir()
        with measured("136,119 records appended", 0.04, time.process_time):
            append_all(directory, data)
        with measured("136,119 records opened", 0.012, time.process_time):
            LocalLog.open(directory, LogSettings()).close()


def append_all(directory: Path, data: bytes) -> None:
    """Write the batches of ``data`` to a new log, ten at a time."""
    log = LocalLog.open(directory, LogSettings())
    ends = [one.position + one.size for one in check_batches(data, Tail(0, 0)).batches]
    start = 0
    for end in [*ends[9::10], len(data)]:
        if end > start:
            log.append(memoryview(data)[start:end])
        start = end
    log.flush()
    log.close()
