"""Formatting: a crash at any operation leaves the directory formatted as a whole or not at all, and
a directory with a log is refused.
"""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pytest

from gateway.base.address import Address
from gateway.log.files.errors import AlreadyFormatted, DiskFailed, LogDamaged, LogLocked, WrongNode
from gateway.log.metadata.formatting import (
    BOOTSTRAP_FILE,
    Formatting,
    check_formatted,
    ensure_formatted,
    format_directory,
    random_uuid,
    read_bootstrap,
)
from gateway.log.metadata.releases import features_of
from gateway.log.metadata.snapshot_writer import snapshot_fault
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import decode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.log.crash_disk import (
    CrashDisk,
    QuietDisk,
    RecordingDisk,
    read_state,
    write_state,
)
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voting import NODE_ID, download, formatting, new_store, open_store, voters
from tests.gateway.log.workload import CLUSTER_ID, DIRECTORY_ID

ENDPOINTS = {"CONTROLLER": Address("127.0.0.1", 9093)}


def test_a_formatted_directory_has_node_voters_and_features(tmp_path: Path) -> None:
    features = features_of(26, {"group.version": 0})
    format_directory(
        tmp_path / "a" / "b", Formatting(CLUSTER_ID, 1, DIRECTORY_ID, features, voters(1, 2))
    )
    store = open_store(tmp_path / "a" / "b")
    assert store.stored().voters == ((-1, voters(1, 2)),)
    assert (store.cluster_id, store.directory_id) == (CLUSTER_ID, DIRECTORY_ID)
    store.close()
    values = read_bootstrap(tmp_path / "a" / "b")
    assert values is not None
    messages = [decode_metadata_record(value)[2] for value in values]
    assert messages == [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in features
    ]
    checkpoints = list((tmp_path / "a" / "b").glob("**/*.checkpoint"))
    assert checkpoints and [snapshot_fault(path) for path in checkpoints] == [None] * len(
        checkpoints
    )


def test_a_static_quorum_has_no_first_voters(tmp_path: Path) -> None:
    format_directory(tmp_path, Formatting(CLUSTER_ID, 1, DIRECTORY_ID))
    store = open_store(tmp_path, static_voters=(1, 2, 3))
    assert (store.stored().voters, store.stored().kraft_versions) == ((), ())
    assert (
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
        in (store.directory / "quorum-state").read_bytes()
    )
    store.close()


def test_a_fresh_node_formats_itself_once(tmp_path: Path) -> None:
    made = ensure_formatted(tmp_path, node_id=7, cluster_id=None, endpoints=ENDPOINTS)
    assert made == ensure_formatted(tmp_path, node_id=8, cluster_id="whatever", endpoints={})
    assert (
        made.node_id == 7 and made.cluster_id is not None and len(Uuid.parse(made.cluster_id)) == 16
    )
    store = open_store(tmp_path, node_id=7, cluster_id=made.cluster_id)
    ((_, record),) = store.stored().voters
    (alone,) = record.voters
    assert (alone.voter_id, alone.voter_directory_id) == (7, made.directory_id)
    assert [(one.name, one.host, one.port) for one in alone.endpoints] == [
        ("CONTROLLER", "127.0.0.1", 9093)
    ]
    store.close()
    assert (
        ensure_formatted(
            tmp_path / "b", node_id=7, cluster_id=CLUSTER_ID, endpoints=ENDPOINTS
        ).cluster_id
        == CLUSTER_ID
    )


def test_random_ids_can_stand_on_a_command_line() -> None:
    made = {str(random_uuid()) for _ in range(500)}
    assert len(made) == 500
    assert not [one for one in made if one.startswith("-")]


# --- what is there already
# -------------------------------------------------------------------------------------------------


def test_a_formatted_directory_is_left_unchanged(tmp_path: Path) -> None:
    format_directory(tmp_path, formatting())
    before = read_state(tmp_path)
    with pytest.raises(
        AlreadyFormatted, match="is formatted already: --ignore-formatted leaves it as it is"
    ):
        format_directory(tmp_path, formatting())
    assert check_formatted(tmp_path, CLUSTER_ID, NODE_ID) is not None
    with pytest.raises(WrongNode, match=r"formatted for node 1 of cluster .*, not for node 2 of"):
        check_formatted(tmp_path, CLUSTER_ID, 2)
    assert read_state(tmp_path) == before
    assert check_formatted(tmp_path / "other", CLUSTER_ID, NODE_ID) is None


@pytest.mark.parametrize("kept", ["recovery-point", "quorum-state", "*.log", "*-*.checkpoint"])
def test_directory_with_a_log_and_no_meta_properties_is_refused(kept: str, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(1, kraft_version=1)
    store.append(0, batch(0, 1, 1).data)
    store.flush()
    store.set_high_watermark(1)
    download(store, SnapshotId(1, 1))
    store.close()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").unlink()
    for path in [path for path in tmp_path.rglob("*") if path.is_file() and not path.match(kept)]:
        path.unlink()
    before = read_state(tmp_path)
    with pytest.raises(AlreadyFormatted, match=r"has no meta.properties, but a log"):
        ensure_formatted(tmp_path, node_id=1, cluster_id=None, endpoints=ENDPOINTS)
    assert read_state(tmp_path) == before


def test_a_directory_in_use(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(LogLocked):
        format_directory(tmp_path, formatting())
    store.close()


def test_bootstrap_records_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_bootstrap(tmp_path) is None
    (tmp_path / BOOTSTRAP_FILE).write_bytes(bytes(100))
    with pytest.raises(
        LogDamaged, match=r"bootstrap.checkpoint.*restore it, or remove it for the newest features"
    ):
        read_bootstrap(tmp_path)


# --- what interrupts it
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_crash_at_any_instant(dynamic: bool, root: Path) -> None:
    """After it the directory is formatted, or can be: anew, and otherwise than before."""
    first = formatting(voters(1, 2)) if dynamic else Formatting(CLUSTER_ID, NODE_ID, DIRECTORY_ID)
    (root / f"whole {dynamic}").mkdir()
    disk = RecordingDisk(root / f"whole {dynamic}")
    format_directory(disk.root / "data", first, disk=disk)
    rand, crash, tried = random.Random(2), CrashDisk(), 0
    for op in disk.ops:
        crash.apply(op)
        for state in itertools.chain(crash.killed(op), *(crash.lost_power(rand) for _ in range(6))):
            tried += 1
            write_state(root / "state", state)
            formatted = _is_formatted(root / "state" / "data")
            if not formatted:
                assert op is not disk.ops[-1]
                format_directory(root / "state" / "data", formatting(), disk=QuietDisk())
            store = open_store(root / "state" / "data", disk=QuietDisk())
            known = first.voters if formatted else formatting().voters
            assert [record for _, record in store.stored().voters] == ([known] if known else [])
            assert read_bootstrap(root / "state" / "data") is not None
            assert not list((root / "state" / "data").glob("*.tmp"))
            store.close()
            shutil.rmtree(root / "state")
    assert tried > 400


def _is_formatted(data_dir: Path) -> bool:
    return check_formatted(data_dir, CLUSTER_ID, NODE_ID) is not None


def test_directory_can_be_formatted_again_after_a_failure_of_any_disk_operation(root: Path) -> None:
    whole = FaultyDisk()
    format_directory(root / "whole", formatting(), disk=whole)
    for number in range(whole.count):
        with pytest.raises(DiskFailed):
            format_directory(root / "faulty", formatting(), disk=FaultyDisk(number))
        if not _is_formatted(root / "faulty"):
            format_directory(root / "faulty", formatting())
        open_store(root / "faulty").close()
        shutil.rmtree(root / "faulty")
