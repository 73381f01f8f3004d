"""A rescue appends one batch, keeps what was there, and survives a failure at each step."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.address import Address
from gateway.log.files.errors import DiskFailed
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.partition.log_settings import LogSettings
from gateway.quorum.voter_set import VoterNode, VoterSet
from gateway.rescue.plan import is_rescued, new_directory_id, new_meta, plan_rescue
from gateway.rescue.read_copy import read_copy
from gateway.rescue.write import backup_of, finish, is_interrupted, journal_of, write_rescue
from kwire.cluster.difference import difference
from kwire.metadata_log.at import At
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.state import load_state
from kwire.records import decode_control_record
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.rescue.copies import hashes
from tests.shared import needs_shared

SAMPLE: Final = Path(__file__).resolve().parents[3] / "gateway" / "sample"
PARTITION: Final = "__cluster_metadata-0"
LOG: Final = f"{PARTITION}/00000000000000000000.log"
EPOCH: Final = 1003


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "node"))


def voter_of(directory: Path, node_id: int = 1) -> VoterSet:
    """The node as the only voter, at a new address."""
    known = read_copy(directory).identity.directory_id
    assert known is not None
    return VoterSet.of([VoterNode(node_id, known, {"CONTROLLER": Address("new", 9093)}, (0, 1))])


def shorten(node: Path) -> None:
    """Leave the first few batches of the log, so that it is read in no time."""
    headers = [header for header, _ in read_log_file(node / LOG)]
    (node / LOG).write_bytes((node / LOG).read_bytes()[: headers[8].position])
    (node / PARTITION / "leader-epoch-checkpoint").unlink()


def rescue(source: Path, target: Path, voters: VoterSet, **more: Any) -> None:
    plan = plan_rescue(read_copy(source), voters, EPOCH)
    write_rescue(plan, source / PARTITION, target, {"from": str(source)}, **more)


def test_one_batch_is_appended_and_every_byte_before_it_stays(node: Path) -> None:
    before, was, voters = (node / LOG).read_bytes(), read_copy(node), voter_of(node)
    rescue(node, node, voters)
    after, copy = (node / LOG).read_bytes(), read_copy(node)
    assert after.startswith(before)
    *_, (header, [record]) = read_log_file(node / LOG)
    assert header.is_control and header.position == len(before)
    assert (header.base_offset, header.partition_leader_epoch) == (was.end.end_offset, EPOCH)
    assert decode_control_record(record).name == "KRAFT_VOTERS"
    assert copy.is_whole and copy.newest_voters == voters and copy.kraft_version == 1
    assert (node / PARTITION / "quorum-state").read_text() == (
        '{"leaderId":-1,"leaderEpoch":1003,"votedId":-1,'
        '"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert is_rescued(copy, voters) and not is_rescued(was, voters)


def test_the_state_of_the_cluster_does_not_change(node: Path) -> None:
    end = read_copy(node).end.end_offset
    rescue(node, node, voter_of(node))
    states = [load_state([one], at) for one, at in ((SAMPLE, At(offset=end)), (node, At()))]
    assert list(difference(states[0].image, states[1].image)) == []


def test_what_was_there_is_kept_beside_with_a_journal(node: Path) -> None:
    before = hashes(node)
    rescue(node, node, voter_of(node))
    assert hashes(backup_of(node, EPOCH)) == before
    journal = journal_of(node, EPOCH).read_text()
    assert before[LOG] in journal and hashes(node)[LOG] in journal
    assert sorted(one.name for one in node.iterdir()) == [
        ".lock",
        "README.md",
        PARTITION,
        "meta.properties",
    ]


def test_a_voter_of_kwire_opens_the_directory_with_the_new_voters(node: Path) -> None:
    rescue(node, node, voters := voter_of(node))
    store = RaftStore.open(node, LogSettings(), node_id=1)
    try:
        facts = store.stored()
        assert facts.election.epoch == EPOCH and facts.election.leader_id == -1
        assert facts.epochs[-1] == (EPOCH, facts.end_offset - 1)
        assert VoterSet.of_record(facts.voters[-1][1]) == voters
    finally:
        store.close()


def test_equal_inputs_give_equal_bytes_in_every_directory(node: Path, tmp_path: Path) -> None:
    source = read_copy(node)
    directory = new_directory_id("cluster", 7, EPOCH)
    voters = VoterSet.of([VoterNode(7, directory, {"C": Address("new", 9093)}, (0, 1))])
    plan = plan_rescue(source, voters, EPOCH)
    assert plan == plan_rescue(read_copy(node), voters, EPOCH)
    before = hashes(node)
    for name in ("one", "two"):
        meta = new_meta("cluster", 7, directory, source.last_timestamp)
        write_rescue(plan, node / PARTITION, tmp_path / name, {}, meta=meta)
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")
    assert hashes(node) == before
    copy = read_copy(tmp_path / "one")
    assert copy.identity.node_id == 7 and copy.newest_voters == voters


def test_a_second_rescue_with_a_higher_epoch_is_appended_behind_the_first(node: Path) -> None:
    rescue(node, node, voter_of(node))
    copy = read_copy(node)
    plan = plan_rescue(copy, voter_of(node), 2003)
    write_rescue(plan, node / PARTITION, node, {})
    again = read_copy(node)
    assert again.is_whole and again.end == (2003, copy.end.end_offset + 1)


@needs_shared
@pytest.mark.parametrize("name", ["101", "2", "4"])
def test_a_log_that_starts_at_a_snapshot_keeps_it(logs: Any, tmp_path: Path, name: str) -> None:
    source = logs("p-quorum-short") / "nodes" / name
    copy = read_copy(source)
    voters = VoterSet.of([VoterNode(2, Uuid(bytes(range(16))), {"C": Address("new", 1)}, (0, 1))])
    plan = plan_rescue(copy, voters, EPOCH)
    meta = new_meta("cluster", 2, Uuid(bytes(range(16))), copy.last_timestamp)
    write_rescue(plan, source / PARTITION, target := tmp_path / "new", {}, meta=meta)
    rescued = read_copy(target)
    assert rescued.is_whole and rescued.newest_voters == voters
    assert (rescued.start_offset, rescued.snapshots) == (copy.start_offset, copy.snapshots)


@needs_shared
def test_a_snapshot_without_segments_continues_at_its_end(logs: Any, tmp_path: Path) -> None:
    source = Path(shutil.copytree(logs("p-quorum-short") / "nodes" / "2", tmp_path / "two"))
    for one in (source / PARTITION).glob("*.log"):
        one.unlink()
    (source / PARTITION / "leader-epoch-checkpoint").unlink()
    copy = read_copy(source)
    assert copy.is_whole and copy.snapshot is not None and not copy.segments
    rescue(source, source, voters := voter_of(source, 2))
    rescued = read_copy(source)
    assert rescued.is_whole and rescued.newest_voters == voters
    assert rescued.end == (EPOCH, copy.end.end_offset + 1)


@needs_shared
def test_a_static_quorum_gets_a_higher_epoch_and_no_record(logs: Any, tmp_path: Path) -> None:
    source = Path(shutil.copytree(logs("p-one-segments") / "nodes" / "7", tmp_path / "seven"))
    copy = read_copy(source)
    voters = VoterSet.of([VoterNode(7, ZERO_UUID, {"C": Address("new", 9093)}, (0, 1))])
    rescue(source, source, voters)
    rescued = read_copy(source)
    assert rescued.end == copy.end and rescued.is_whole and is_rescued(rescued, voters)
    assert rescued.election is not None
    assert (rescued.election.version, rescued.election.epoch) == (0, EPOCH)
    assert rescued.election.voter_ids == (7,)


# --- failures
# ---------------------------------------------------------------------------


def test_a_failure_at_any_step_leaves_the_old_log_or_a_directory_on_which_no_node_starts(
    node: Path, tmp_path: Path
) -> None:
    shorten(node)
    original = Path(shutil.copytree(node, tmp_path / "original"))
    before, voters = hashes(node), voter_of(node)
    rescue(node, node, voters, disk=(counting := FaultyDisk()))
    whole = hashes(node)
    assert counting.count > 20
    for step in range(counting.count):
        target = Path(shutil.copytree(original, tmp_path / f"at{step}" / "node"))
        with pytest.raises(DiskFailed):
            rescue(target, target, voters, disk=FaultyDisk(step, for_good=True))
        if is_interrupted(target):
            assert not (target / "meta.properties").exists(), step
            finish(target, disk=FaultyDisk())
        elif not is_rescued(read_copy(target), voters):
            now = hashes(target)
            assert {name: now.get(name) for name in before} == before, step
            rescue(target, target, voters, disk=FaultyDisk())
        assert hashes(target) == whole, step
        assert hashes(backup_of(target, EPOCH)) == before, step
