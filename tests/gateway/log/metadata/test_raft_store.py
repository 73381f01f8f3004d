"""The store of a voter: durability of each change, the content after a restart, and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.errors import (
    BelowHighWatermark,
    ElectionGoesBack,
    LogFailed,
    LogLocked,
    SnapshotNotNewer,
)
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.metadata.stored_facts import Election
from gateway.log.partition.log_settings import LogSettings
from gateway.log.reading.follower import DirectoryFollower
from kwire.errors import DecodeError
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID
from tests.gateway.log.crash_disk import RecordingDisk
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voting import (
    OTHER_DIRECTORY,
    control_batch,
    download,
    new_store,
    open_store,
    voters,
)
from tests.gateway.log.workload import CLUSTER_ID, DIRECTORY_ID


def test_a_fresh_directory_is_of_epoch_0_and_knows_its_voters(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    stored = store.stored()
    assert (store.cluster_id, store.directory_id) == (CLUSTER_ID, DIRECTORY_ID)
    assert stored.election == Election(0, -1, -1, ZERO_UUID)
    assert (stored.start_offset, stored.start_epoch, stored.end_offset, stored.epochs) == (
        0,
        0,
        0,
        (),
    )
    assert (stored.snapshots, stored.high_watermark) == ((), 0)
    assert stored.voters == ((-1, voters(1)),)
    assert stored.kraft_versions == ((-1, 1),)
    store.close()


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    store = new_store(tmp_path, LogSettings())
    store.persist(3, 2, 1, DIRECTORY_ID, kraft_version=1)
    changed = control_batch(
        0,
        3,
        ("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1)),
        ("KRAFT_VOTERS", voters(1, 2)),
    )
    assert store.append(0, changed) == 2
    assert store.append(2, batch(2, 3, 3).data) == 5
    assert (store.end_offset, store.flushed_offset) == (5, 0)
    assert store.flush() == 5
    store.set_high_watermark(4)
    store.close()
    again = open_store(tmp_path)
    assert again.problems == []
    stored = again.stored()
    assert stored.election == Election(3, 2, 1, DIRECTORY_ID)
    assert (stored.end_offset, stored.epochs, stored.high_watermark) == (5, ((3, 0),), 4)
    assert stored.voters == ((-1, voters(1)), (1, voters(1, 2)))
    assert stored.kraft_versions == ((-1, 1), (0, 1))
    again.close()


def test_noted_state_survives_a_kill_of_the_process(tmp_path: Path) -> None:
    """Nothing is written at the end: another process finds the directory as kill -9 leaves it."""
    store = new_store(tmp_path)
    store.persist(1, 1, 1, DIRECTORY_ID, kraft_version=1)
    store.append(0, batch(0, 4, 1).data)
    store.flush()
    store.set_high_watermark(3)
    store.append(4, batch(4, 1, 1).data)
    again = _reopened_as_it_is(tmp_path, store)
    assert (again.high_watermark, again.end_offset, again.flushed_offset) == (3, 5, 5)
    again.close()


# --- quorum-state
# -------------------------------------------------------------------------------------------------


def test_quorum_state_of_a_dynamic_quorum(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(7, -1, 3, OTHER_DIRECTORY, kraft_version=1)
    assert (store.directory / "quorum-state").read_bytes() == (
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":3,'
        b'"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw","data_version":1}'
    )
    store.close()


def test_quorum_state_of_a_static_quorum(tmp_path: Path) -> None:
    store = new_store(tmp_path, static_voters=(1, 2))
    store.persist(7, 2, kraft_version=0)
    assert (store.directory / "quorum-state").read_bytes() == (
        b'{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    store.close()


def test_a_state_on_disk_is_not_written_again(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    store = new_store(tmp_path, disk=disk)
    store.persist(1, 1, 1, DIRECTORY_ID, kraft_version=1)
    before = len(disk.ops)
    store.persist(1, 1, 1, DIRECTORY_ID, kraft_version=1)
    assert len(disk.ops) == before
    store.close()


@pytest.mark.parametrize(
    "state", [(4, -1, -1), (5, 3, 1), (5, 2, 3)], ids=["epoch", "leader", "vote"]
)
def test_an_election_never_goes_back(state: tuple[int, int, int], tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(5, 2, 1, DIRECTORY_ID, kraft_version=1)
    before = (store.directory / "quorum-state").read_bytes()
    with pytest.raises(ElectionGoesBack, match="quorum-state, which has epoch 5, leader 2, vote 1"):
        store.persist(*state, DIRECTORY_ID, kraft_version=1)
    assert (store.directory / "quorum-state").read_bytes() == before
    store.persist(5, 2, -1, kraft_version=1)
    store.persist(6, -1, 3, kraft_version=1)
    store.close()


# --- the log
# -------------------------------------------------------------------------------------------------


def test_one_sync_covers_all_appends(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    store = new_store(tmp_path, LogSettings(), disk=disk)
    store.persist(1, 1, 1, DIRECTORY_ID, kraft_version=1)
    store.append(0, batch(0, 1, 1).data)
    before = len(disk.ops)
    for offset in range(1, 4):
        store.append(offset, batch(offset, 1, 1).data)
    assert store.flushed_offset == 0
    assert store.flush() == store.flushed_offset == 4
    assert store.flush() == 4
    done = [(op.kind, op.path.name) for op in disk.ops[before:]]
    assert done == [
        *[("write", "00000000000000000000.log")] * 3,
        ("sync", "00000000000000000000.log"),
        ("write", "recovery-point"),
    ]
    store.close()


def test_bytes_that_do_not_follow_on_are_refused_and_nothing_changed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.append(0, batch(0, 2, 1).data)
    with pytest.raises(ValueError, match=r"a batch for offset 3 cannot be appended: .* ends at 2"):
        store.append(3, batch(3, 1, 1).data)
    damaged = bytearray(batch(2, 1, 1).data)
    damaged[-1] ^= 1
    with pytest.raises(DecodeError, match="wrong CRC"):
        store.append(2, bytes(damaged))
    assert store.append(2, batch(2, 1, 1).data) == 3
    store.close()


def test_uncommitted_records_can_be_truncated_and_are_not_missed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(1, 1, 1, DIRECTORY_ID, kraft_version=1)
    for offset in range(30):
        store.append(offset, batch(offset, 1, 1).data)
    store.flush()
    store.set_high_watermark(5)
    with pytest.raises(
        BelowHighWatermark, match="truncate to offset 4: what lies below the high watermark 5"
    ):
        store.truncate_to(4)
    store.truncate_to(99)
    assert store.end_offset == 30
    store.truncate_to(6)
    again = _reopened_as_it_is(tmp_path, store)
    assert (again.end_offset, again.high_watermark) == (6, 5)
    assert again.append(6, batch(6, 1, 2).data) == 7
    again.close()


def _reopened_as_it_is(data_dir: Path, store: RaftStore) -> RaftStore:
    """As after kill -9; the old store lets go of nothing that matters."""
    copy = data_dir / "copied"
    shutil.copytree(data_dir, copy, ignore=shutil.ignore_patterns("copied", ".lock"))
    store.close()
    return open_store(copy)


def test_the_high_watermark_stays_within_what_is_on_disk_and_never_falls(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.append(0, batch(0, 3, 1).data)
    with pytest.raises(ValueError, match="the high watermark 2 lies beyond what is on disk, 0"):
        store.set_high_watermark(2)
    store.flush()
    store.set_high_watermark(3)
    store.set_high_watermark(1)
    assert store.high_watermark == 3
    store.close()


def test_readers_of_the_directory_see_what_is_appended(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    follower = DirectoryFollower(str(store.directory), snapshot_prefix=True)
    store.append(0, batch(0, 3, 1).data)
    while follower.step():
        pass
    assert follower.view is not None and follower.view.end_offset == 3
    store.close()


def test_one_process_at_a_time_and_nothing_after_the_end(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(LogLocked):
        open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(LogFailed, match="it was closed"):
        store.append(0, batch(0, 1, 1).data)
    with pytest.raises(LogFailed):
        store.flush()


# --- snapshots
# -------------------------------------------------------------------------------------------------


def test_a_leaders_snapshot_takes_the_logs_place(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(4, 2, kraft_version=1)
    for offset in range(20):
        store.append(offset, batch(offset, 1, 1).data)
    store.flush()
    store.set_high_watermark(3)
    snapshot = SnapshotId(
        12, 3
    )  # shorter than the log, of which everything behind 3 was never committed
    head = control_batch(0, 3, *_head())
    download(
        store, snapshot, head + control_batch(3, 3, ("SNAPSHOT_FOOTER", SnapshotFooterRecord()))
    )
    assert store.truncate_to_snapshot(snapshot) == (voters(1, 3), 1)
    assert (store.start_offset, store.end_offset, store.high_watermark) == (12, 12, 12)
    store.append(12, batch(12, 1, 4).data)
    store.flush()
    store.close()
    again = open_store(tmp_path)
    stored = again.stored()
    assert (stored.start_offset, stored.start_epoch, stored.end_offset, stored.epochs) == (
        12,
        3,
        13,
        ((4, 12),),
    )
    assert (stored.snapshots, stored.voters) == ((snapshot,), ((-1, voters(1)), (11, voters(1, 3))))
    again.close()


def _head() -> list[tuple[str, Any]]:
    return [
        ("SNAPSHOT_HEADER", SnapshotHeaderRecord()),
        ("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1)),
        ("KRAFT_VOTERS", voters(1, 3)),
    ]


def test_a_snapshot_below_what_is_committed_is_never_taken(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(4, 2, kraft_version=1)
    store.append(0, batch(0, 9, 1).data)
    store.flush()
    store.set_high_watermark(9)
    with pytest.raises(
        BelowHighWatermark, match=r"take 00000000000000000005-0000000003.checkpoint"
    ):
        download(store, SnapshotId(5, 3))
    assert store.snapshots == ()
    store.close()


def test_a_snapshot_that_is_not_beyond_the_log_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.append(0, batch(0, 9, 4).data)
    store.flush()
    download(store, SnapshotId(5, 3))
    with pytest.raises(SnapshotNotNewer):
        store.truncate_to_snapshot(SnapshotId(5, 3))
    assert store.append(9, batch(9, 1, 4).data) == 10
    store.close()


def test_cleaning_keeps_what_is_newest(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for offset in range(60):
        store.append(offset, batch(offset, 1, 2).data)
    store.flush()
    store.set_high_watermark(60)
    store.persist(2, 1, kraft_version=1)
    for end in (20, 50):
        download(store, SnapshotId(end, 2))
    assert "00000000000000000020-0000000002.checkpoint" in store.clean(now_ms=0)
    assert (store.start_offset, store.snapshots) == (50, (SnapshotId(50, 2),))
    store.close()
    again = open_store(tmp_path)
    assert (again.problems, again.stored().start_epoch, again.end_offset) == ([], 2, 60)
    again.close()


def test_a_directory_of_before_directory_ids_gets_one(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.close()
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\n")
    store = open_store(tmp_path)
    made = store.directory_id
    assert made not in (ZERO_UUID, DIRECTORY_ID)
    store.close()
    store = open_store(tmp_path)
    assert store.directory_id == made
    store.close()
    assert json.loads((store.directory / "quorum-state").read_bytes())["leaderEpoch"] == 0
