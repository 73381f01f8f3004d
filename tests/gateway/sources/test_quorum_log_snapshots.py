"""Snapshots in an observed log: the leader's take its place, our own let the old part go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.ports.services import OffsetOutOfRange, State
from gateway.quorum.effects import AbandonSnapshot, Advance, BeginSnapshot, SnapshotChunk
from gateway.sources import quorum_log
from gateway.sources.quorum_log import QuorumLog
from gateway.sources.snapshot_locks import SnapshotBusy
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import snapshot_bytes
from tests.gateway.sources.observing import (
    appended,
    do,
    edge,
    fill,
    install,
    install_snapshot,
    persisted,
    reopened,
)
from tests.gateway.sources.reading import batches_from, joined


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def source(root: Path) -> Iterator[QuorumLog]:
    """One that has been where the leader was."""
    opened = reopened(root)
    opened.caught_up = True
    yield opened
    opened.close()


# --- snapshots
# -------------------------------------------------------------------------------------------------


def test_a_snapshot_takes_the_logs_place_and_its_records_are_a_prefix(
    root: Path, source: QuorumLog
) -> None:
    fill(source, 3)
    assert install(source, 100, 4) is None
    assert edge(source) == (95, 100), "header, three records, footer"
    assert source.committed == source.store.start_offset == source.store.end_offset == 100
    assert b"".join(data for _, _, data in batches_from(source, 100)) == b""
    do(source, persisted(4, 1), appended(source, 2, epoch=4), Advance(102))
    assert edge(source) == (95, 102)
    source.close()
    for prefix, start in ((True, 95), (False, 100)):
        again = reopened(root, prefix=prefix)
        assert (edge(again), again.state) == ((start, 102), State.STALE)
        again.close()


def test_a_read_that_began_before_a_snapshot_came_ends_as_it_began(source: QuorumLog) -> None:
    fill(source, 3)
    read, before = source.read(0, 1000), joined(source.read(0, 1000))
    assert install(source, 100, 4) is None
    assert joined(read) == before
    with pytest.raises(OffsetOutOfRange):
        source.read(0, 1000)


def test_a_damaged_snapshot_is_refused_and_leaves_everything(source: QuorumLog) -> None:
    fill(source, 3)
    before = batches_from(source, 0)
    data = snapshot_bytes(4, (3,))[:-1] + b"\xff"
    id = SnapshotId(100, 4)
    refused = do(
        source,
        BeginSnapshot(id),
        SnapshotChunk(0, data, len(data)),
        install_snapshot(id),
        Advance(100),
    )
    assert refused is not None and "CRC" in refused
    assert (batches_from(source, 0), source.high_watermark) == (before, 6)
    assert [
        path.name for path in source.store.directory.glob("*checkpoint*") if path.name[0] == "0"
    ] == []
    assert install(source, 100, 4) is None


def test_a_snapshot_that_is_not_beyond_the_log_is_refused(source: QuorumLog) -> None:
    fill(source, 3)
    refused = install(source, 4, 1)
    assert refused is not None and "not behind" in refused
    assert edge(source) == (0, 6)


@pytest.mark.parametrize("size", [1 << 50, (1 << 63) - 1])
def test_snapshot_that_the_disk_cannot_hold_is_refused_before_a_byte_of_it(
    source: QuorumLog, size: int
) -> None:
    fill(source, 3)
    before, id = batches_from(source, 0), SnapshotId(100, 4)
    refused = do(source, BeginSnapshot(id), SnapshotChunk(0, b"x" * 10, size))
    assert refused is not None
    assert f"{size} of its {size} bytes are still to come" in refused and "are free in" in refused
    assert not list(source.store.directory.glob("*.part"))
    # The core has more effects under way; they are dropped.
    assert do(source, SnapshotChunk(10, b"x" * 10, size)) is None
    assert do(source, install_snapshot(id)) == "the disk could not hold it"
    assert batches_from(source, 0) == before
    assert install(source, 100, 4) is None


def test_free_space_is_watched_while_a_snapshot_comes(
    source: QuorumLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, id = snapshot_bytes(4, (3,)), SnapshotId(100, 4)
    free = [len(data), len(data) - 20]
    monkeypatch.setattr(quorum_log, "free_bytes", lambda directory: free.pop(0))
    chunks = [
        SnapshotChunk(0, data[:10], len(data)),
        SnapshotChunk(10, data[10:20], len(data)),
    ]
    refused = do(source, BeginSnapshot(id), *chunks)
    assert refused is not None and f"{len(data) - 20} are free in" in refused
    assert not list(source.store.directory.glob("*.part"))


def test_an_abandoned_snapshot_leaves_nothing(source: QuorumLog) -> None:
    id = SnapshotId(100, 4)
    do(source, BeginSnapshot(id), SnapshotChunk(0, b"x" * 10, 20))
    assert list(source.store.directory.glob("*.part"))
    do(source, AbandonSnapshot(id))
    do(source, AbandonSnapshot(id))
    assert not list(source.store.directory.glob("*.part"))
    do(source, BeginSnapshot(id), BeginSnapshot(SnapshotId(200, 4)))
    assert [path.name for path in source.store.directory.glob("*.part")] == [
        f"{SnapshotId(200, 4).file_name}.part"
    ]


def test_one_snapshot_has_one_writer(source: QuorumLog) -> None:
    """This node's snapshot and the leader's of the same id would be one file: the second writer
    tries again.
    """
    own = source.new_snapshot(SnapshotId(100, 4))
    assert "is being written already" in str(do(source, BeginSnapshot(SnapshotId(100, 4))))
    assert do(source, BeginSnapshot(SnapshotId(200, 4))) is None
    with pytest.raises(SnapshotBusy):
        source.new_snapshot(SnapshotId(200, 4))
    own.abandon()
    assert do(source, BeginSnapshot(SnapshotId(100, 4))) is None
    own.abandon()
    assert list(source.store.directory.glob("*.part")), (
        "an abandoned writer lets its successor's file alone"
    )
    assert source.new_snapshot(SnapshotId(200, 4)).size == 0


def test_cleaning_moves_the_start_and_nothing_else(source: QuorumLog) -> None:
    fill(source, 20)
    told: list[int] = []
    source.on_advance(lambda: told.append(source.log_start_offset))
    for end in (10, 30):
        own, data = source.new_snapshot(SnapshotId(end, 1)), snapshot_bytes(1, (3,))
        own.write(0, data)
        own.freeze()
    after = batches_from(source, 30)
    deleted = source.clean(0)
    assert "00000000000000000000.log" in deleted and SnapshotId(10, 1).file_name in deleted
    assert edge(source) == (0, 40), "not before it is published"
    source.publish()
    assert edge(source) == (25, 40)
    assert told == [25]
    assert batches_from(source, 30) == after
    assert source.clean(0) == []
