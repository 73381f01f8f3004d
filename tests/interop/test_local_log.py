"""Kafka reads logs that kwire wrote: its dump checks segments and indexes, its shell loads
them, and a controller continues them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.errors import LogLocked
from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.metadata_log.file_names import parse_snapshot_name
from kwire.records.header import iter_batches
from tests.interop.clients import need_java
from tests.interop.quorum import make_topics
from tests.interop.test_own_snapshots import shell
from tests.shared import needs_shared
from tools import java, java_tools
from tools.kafka import Cluster, Node, kafka

_DECODER = "--cluster-metadata-decoder"
#: Of the roll of a segment; small, so that there are several.
_SEGMENT_BYTES = 30_000
#: The most bytes of one Fetch response.
_ANSWER_BYTES = 8_000


@pytest.fixture(
    scope="module", params=["p-quorum/nodes/2", "p-upgrade/nodes/1", "p-quorum/nodes/4"]
)
def copied(
    request: pytest.FixtureRequest, logs: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, LocalLog]]:
    """Kafka's log, and a kwire log that was fetched from it in pieces and is still open. The
    last one begins at a snapshot.
    """
    need_java()
    name, _, node = request.param.partition("/")
    source = logs(name) / node / "__cluster_metadata-0"
    log = LocalLog.open(tmp_path_factory.mktemp("data"), LogSettings(segment_bytes=_SEGMENT_BYTES))
    fetch_everything(source, log)
    yield source, log
    log.close()


def fetch_everything(source: Path, log: LocalLog) -> None:
    """Copy Kafka's log in ``source`` to ``log`` up to its end, the oldest snapshot first if it
    starts at one.
    """
    first = int(min(source.glob("*.log")).stem)
    if first > 0:
        install_oldest_snapshot(source, log)
    for path in sorted(source.glob("*.log")):
        data = path.read_bytes()
        starts = [
            header.position for header in iter_batches(data) if header.base_offset >= log.end_offset
        ]
        cuts = [
            *(starts[:1]),
            *(b for a, b in pairwise(starts) if a // _ANSWER_BYTES != b // _ANSWER_BYTES),
            len(data),
        ]
        for start, end in pairwise(cuts):
            log.append(data[start:end])
        log.flush()
    log.set_high_watermark(log.end_offset)


def install_oldest_snapshot(source: Path, log: LocalLog) -> None:
    path = min(path for path in source.glob("*.checkpoint") if int(path.name[:20]) > 0)
    snapshot = parse_snapshot_name(path.name)
    assert snapshot is not None
    writer = log.new_snapshot(snapshot)
    writer.write(0, path.read_bytes())
    writer.freeze()
    log.truncate_to_snapshot(snapshot)


@needs_shared
def test_dump_log_reads_the_same_records_and_batches(copied: tuple[Path, LocalLog]) -> None:
    source, log = copied
    kwires = dumped(log.directory, 0)
    assert kwires == dumped(source, log.start_offset)
    assert len(kwires) > 1000
    assert len(list(log.directory.glob("*.log"))) > 1


def dumped(directory: Path, start_offset: int) -> list[str]:
    """The output of kafka-dump-log for every batch and record from ``start_offset`` on, without
    file positions.
    """
    files = ",".join(str(path) for path in sorted(directory.glob("*.log")))
    lines = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", files, _DECODER], timeout_s=120
    ).splitlines()
    kept = [
        re.sub(r" position: \d+", "", line)
        for line in lines
        if line.startswith(("baseOffset:", "| offset:"))
    ]
    assert not [line for line in kept if "isvalid: false" in line]
    return [line for line in kept if int(line.split(": ")[1].split(" ")[0]) >= start_offset]


@needs_shared
@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only", None])
def test_dump_log_accepts_the_indexes(copied: tuple[Path, LocalLog], option: str | None) -> None:
    _, log = copied
    paths = [
        path
        for suffix in ("index", "timeindex")
        for path in sorted(log.directory.glob(f"*.{suffix}"))
    ]
    files = ",".join(str(path) for path in paths if path.stat().st_size)
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", files, *([option] if option else [])], timeout_s=120
    )
    complaints = ("Mismatch", "mismatch", "Found", "non-monotonically", "out of order", "Exception")
    assert not [line for line in said.splitlines() if any(word in line for word in complaints)]
    if option == "--index-sanity-check":
        assert said.count("passed sanity check") == len(files.split(","))


@needs_shared
def test_metadata_shell_shows_the_same_for_both_logs(logs: Any, tmp_path: Path) -> None:
    need_java()
    source = logs("p-upgrade") / "nodes" / "1" / "__cluster_metadata-0"
    with_log = LocalLog.open(tmp_path, LogSettings())
    fetch_everything(source, with_log)
    with_log.close()
    segment = "00000000000000000000.log"
    assert shell(with_log.directory / segment) == shell(source / segment)


@pytest.fixture
def combined() -> Iterator[tuple[Cluster, Node]]:
    need_java()
    with kafka() as cluster:
        make_topics(cluster, [f"topic-{number}" for number in range(3)])
        yield cluster, cluster.nodes[0]


def test_kafka_controller_and_kwire_continue_each_others_log(
    combined: tuple[Cluster, Node], tmp_path: Path
) -> None:
    """kwire wrote the whole directory, also checkpoint and quorum-state. It reopens it without
    a repair after Kafka has used it.
    """
    cluster, node = combined
    with pytest.raises(LogLocked, match="in use by another process"):
        LocalLog.open(node.metadata_log_dir.parent, LogSettings())
    cluster.stop_node(node)
    kafkas = LocalLog.open(node.metadata_log_dir.parent, LogSettings())
    kept, meta = kafkas.quorum_state, kafkas.meta_properties
    kafkas.close()
    log = LocalLog.open(tmp_path / "kwire", LogSettings(segment_bytes=2000))
    fetch_everything(node.metadata_log_dir, log)
    assert kept is not None and meta is not None and meta.directory_id is not None
    log.write_quorum_state(kept[1], kept[0])
    end = log.end_offset
    log.close()
    bootstrap = list(node.metadata_log_dir.glob("*.checkpoint"))
    for path in node.metadata_log_dir.iterdir():
        if path not in bootstrap:
            path.unlink()
    shutil.copytree(log.directory, node.metadata_log_dir, dirs_exist_ok=True)
    cluster.start_node(node)
    cluster.wait_for_node(node)
    assert cluster.tool(java.TOPICS, ["--list"]).split() == ["topic-0", "topic-1", "topic-2"]
    cluster.tool(java.TOPICS, ["--create", "--topic", "after", "--partitions", "1"])
    cluster.stop_node(node)
    again = LocalLog.open(node.metadata_log_dir.parent, LogSettings())
    assert again.problems == []
    assert again.end_offset > end
    assert again.last_epoch > log.last_epoch
    again.close()
