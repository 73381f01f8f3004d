"""Which directories a voter starts on: nothing forgotten, nothing of others, and every refusal a
sentence that helps.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.errors import LogDamaged, LogError, NotFormatted, QuorumStateLost, WrongNode
from gateway.log.metadata.formatting import format_directory
from gateway.log.metadata.local_log import LocalLog
from gateway.log.metadata.raft_store import RaftStore
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.crash_disk import read_state
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voting import download, formatting, new_store, open_store
from tests.gateway.log.workload import DIRECTORY_ID, SMALL

PARTITION = "__cluster_metadata-0"


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A directory of a voter that voted, led, and has records that are synced and not committed."""
    store = new_store(tmp_path)
    store.persist(3, 1, 1, DIRECTORY_ID, kraft_version=1)
    for offset in range(6):
        store.append(offset, batch(offset, 1, 3).data)
    store.flush()
    store.set_high_watermark(2)
    store.close()
    return tmp_path


def refused(data_dir: Path, kind: type[LogError], what: str, **more: Any) -> None:
    """The start is refused, and nothing in the directory changed."""
    before = read_state(data_dir)
    with pytest.raises(kind, match=what):
        open_store(data_dir, **more)
    assert read_state(data_dir) == before


# --- whose directory it is
# -------------------------------------------------------------------------------------------------


def test_an_unformatted_directory_is_refused(tmp_path: Path) -> None:
    refused(
        tmp_path, NotFormatted, "is not formatted: meta.properties is missing; run 'kwire format'"
    )
    refused(tmp_path / "not there", NotFormatted, "not there is not formatted")


def test_a_directory_whose_meta_properties_are_lost(used: Path) -> None:
    (used / "meta.properties").unlink()
    refused(used, NotFormatted, "or restore the directory if this node has run before")


def test_a_directory_of_others(used: Path) -> None:
    refused(
        used,
        WrongNode,
        r"belongs to node 1 \(meta.properties\), and this is node 2: give node.id or data.dir",
        node_id=2,
    )
    refused(
        used,
        WrongNode,
        r"belongs to cluster QKPByyaYQyWJjkXGE6EEwA .*, not to other",
        cluster_id="other",
    )


def test_damaged_meta_properties(used: Path) -> None:
    (used / "meta.properties").write_bytes(b"version=3\n")
    refused(
        used,
        LogDamaged,
        "meta.properties: version 3 is not 0 or 1.*restore it: it says whose directory this is",
    )


# --- quorum-state
# -------------------------------------------------------------------------------------------------

V1 = (
    b'{"leaderId":-1,"leaderEpoch":3,"votedId":3,'
    b'"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw","data_version":1}'
)
V0 = (
    b'{"clusterId":"","leaderId":2,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)


@pytest.mark.parametrize("data", [V0, V1])
def test_both_versions_of_kafka_are_read_and_written_alike(data: bytes, used: Path) -> None:
    (used / PARTITION / "quorum-state").write_bytes(data)
    store = open_store(used, static_voters=(1, 2))
    election = store.stored().election
    assert (election.epoch, election.leader_id, election.voted_id) == (
        3,
        *((2, -1) if data is V0 else (-1, 3)),
    )
    store.persist(*election, kraft_version=0 if data is V0 else 1)
    store.close()
    assert (used / PARTITION / "quorum-state").read_bytes() == data


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (bytes(len(V1)), "not JSON"),
        (b"\xff\xfe\x00binary", "not JSON"),
        (V1[:-20], "not JSON"),
        (b"[]", "not an object with data_version"),
        (b"null", "not an object"),
        (V1.replace(b',"data_version":1', b""), "not an object with data_version"),
        (V1.replace(b'n":1}', b'n":2}'), "data_version 2 is not 0 or 1"),
        (V1.replace(b'n":1}', b'n":-1}'), "data_version -1 is not 0 or 1"),
        (V1.replace(b'n":1}', b'n":"1"}'), "data_version '1' is not 0 or 1"),
        (V1.replace(b'"leaderEpoch":3,', b""), "leaderEpoch"),
        (V1.replace(b'"votedId":3,', b""), "votedId"),
        (V1.replace(b'"votedDirectoryId":"AAECAwQFBgcICQoLDA0ODw",', b""), "votedDirectoryId"),
        (V0.replace(b'"currentVoters":[{"voterId":1},{"voterId":2}],', b""), "currentVoters"),
        (V1.replace(b'h":3', b'h":-3'), "leaderEpoch -3 is negative"),
        (V1.replace(b'h":3', b'h":2147483648'), "leaderEpoch"),
        (V1.replace(b'votedId":3', b'votedId":-2'), "leaderId -1 or votedId -2 is below -1"),
        (V1.replace(b"AAECAwQFBgcICQoLDA0ODw", b"AAEC"), "votedDirectoryId"),
    ],
)
def test_a_quorum_state_that_cannot_be_read_is_no_fresh_start(
    data: bytes, what: str, used: Path
) -> None:
    (used / PARTITION / "quorum-state").write_bytes(data)
    refused(
        used,
        LogDamaged,
        f"quorum-state.*{what}.*it holds this voter's vote, which must not be forgotten: "
        "restore it",
    )


def test_a_vote_that_is_lost_beside_a_log(used: Path) -> None:
    (used / PARTITION / "quorum-state").unlink()
    refused(
        used,
        QuorumStateLost,
        "quorum-state is missing, and the log beside it is not empty.*let the node join as a new "
        "voter",
    )


def test_a_vote_that_is_lost_beside_a_snapshot(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(2, 3, kraft_version=1)
    download(store, SnapshotId(9, 2))
    store.truncate_to_snapshot(SnapshotId(9, 2))
    store.close()
    (tmp_path / PARTITION / "quorum-state").unlink()
    (tmp_path / "recovery-point").unlink()
    for path in (tmp_path / PARTITION).glob("*.log"):
        path.unlink()
    refused(
        tmp_path, QuorumStateLost, "quorum-state is missing, and the log beside it is not empty"
    )


def test_a_vote_that_is_lost_beside_an_empty_log(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.persist(1, -1, 3, kraft_version=1)
    store.close()
    (tmp_path / PARTITION / "quorum-state").unlink()
    refused(tmp_path, QuorumStateLost, "quorum-state is missing, and this node has voted before")


def test_a_vote_of_an_older_copy(used: Path) -> None:
    (used / PARTITION / "quorum-state").write_bytes(V1.replace(b'h":3', b'h":2'))
    refused(
        used,
        QuorumStateLost,
        "is of epoch 2, and the log has records of epoch 3: it is an older copy",
    )


def test_a_directory_that_was_formatted_and_never_used(tmp_path: Path) -> None:
    format_directory(tmp_path, formatting())
    (tmp_path / PARTITION / "quorum-state.tmp").write_bytes(b"a crash left it")
    store = open_store(tmp_path)
    assert store.stored().election.epoch == 0
    store.close()


# --- the log
# -------------------------------------------------------------------------------------------------


def _flip_last_batch(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def _cut_last_batch(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [_flip_last_batch, _cut_last_batch], ids=["flipped", "cut"])
def test_records_that_were_synced_are_no_torn_end(
    damage: Callable[[Path], None], used: Path
) -> None:
    """An observer cuts them off and fetches them again; a voter has told the leader that it has
    them.
    """
    damage(max((used / PARTITION).glob("*.log")))
    copy = used.with_name(f"{used.name} of an observer")
    shutil.copytree(used, copy, ignore=shutil.ignore_patterns(".lock"))
    LocalLog.open(copy, SMALL).close()
    refused(
        used,
        LogDamaged,
        "this voter has told others that it has them: restore it from a copy of its last state",
    )


def test_records_that_were_never_synced_are_a_torn_end(used: Path) -> None:
    with max((used / PARTITION).glob("*.log")).open("ab") as file:
        file.write(batch(6, 1, 3).data[:-1])
    store = open_store(used)
    assert store.end_offset == 6
    assert "cut off: an unfinished batch" in store.problems[0]
    store.close()


def test_a_node_of_kafka_that_ran_here_since(used: Path) -> None:
    """It has no recovery point, and may leave any tail that is not committed away: the log is
    longer again by then.
    """
    log = LocalLog.open(used, SMALL)
    log.truncate_to(4)
    log.append(batch(4, 5, 7).data)
    log.close()
    (used / PARTITION / "quorum-state").write_bytes(V1.replace(b'h":3', b'h":7'))
    store: RaftStore = open_store(used)
    assert store.end_offset == 9
    store.close()
