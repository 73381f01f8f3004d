"""A copy is read whole, in part, or with its damage explained, and is never changed."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.log.files.high_watermark_file import BLOCK_BYTES, format_slot
from gateway.rescue.copies import Position
from gateway.rescue.read_copy import read_copy
from gateway.rescue.verdict import judge
from kwire.metadata_log.reader import read_log_file
from kwire.uuid import Uuid
from tests.gateway.rescue.copies import hashes
from tests.shared import needs_shared

SAMPLE: Final = Path(__file__).resolve().parents[3] / "gateway" / "sample"
LOG: Final = Path("__cluster_metadata-0") / "00000000000000000000.log"
#: Seeds of changed directories, and how many a test takes.
SEEDS, AT_ONCE = 200, 20


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A data directory of a single node of Kafka."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "node"))


def cut(path: Path, left: int) -> None:
    path.write_bytes(path.read_bytes()[:left])


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_data_directory_is_read_with_owner_voters_and_end(node: Path) -> None:
    copy = read_copy(node)
    assert copy.damage == [] and copy.notes == []
    assert copy.identity.node_id == 1
    assert copy.identity.directory_id == Uuid.parse("8MPuA7pBS-yTmfIxL8wHag")
    assert copy.kraft_version == 1 and copy.newest_voters is not None
    assert copy.newest_voters.has(1, copy.identity.directory_id)
    assert copy.election is not None and copy.election.epoch == 3
    assert copy.start_offset == 0 and copy.end.end_offset > 100 and copy.end.epoch == 3
    assert copy.contents is not None and copy.contents.metadata_version > 0
    assert copy.last_timestamp is not None
    assert read_copy(node / "__cluster_metadata-0").end == copy.end


def test_a_bare_partition_directory_has_no_owner(node: Path, tmp_path: Path) -> None:
    bare = Path(shutil.move(node / "__cluster_metadata-0", tmp_path / "bare"))
    copy = read_copy(bare)
    assert copy.is_whole and copy.identity.node_id is None and not copy.is_empty
    assert judge([copy]).loss is not None


def test_a_batch_cut_off_at_the_end_is_a_note_and_no_damage(node: Path) -> None:
    whole = read_copy(node)
    cut(node / LOG, (node / LOG).stat().st_size - 5)
    torn = read_copy(node)
    assert torn.is_whole and "ends inside a batch" in torn.notes[0]
    assert 0 < torn.end.end_offset < whole.end.end_offset


def test_a_flipped_byte_is_damage_with_file_and_position(node: Path) -> None:
    headers = [header for header, _ in read_log_file(node / LOG)]
    middle = headers[len(headers) // 2]
    flip(node / LOG, middle.end - 1)
    copy = read_copy(node)
    [damage] = copy.damage
    assert (damage.file, damage.position) == (str(node / LOG), middle.position)
    assert "CRC" in damage.reason
    # The epochs behind the damage count for the new epoch all the same.
    assert copy.epochs_seen == 3 and "behind the damage whole batches follow" in copy.notes[0]
    assert copy.end.end_offset == middle.base_offset


@pytest.mark.parametrize("byte", [8, 9], ids=["by gigabytes", "by megabytes"])
def test_a_damaged_length_that_reaches_behind_the_end_is_no_batch_being_written(
    node: Path, byte: int
) -> None:
    """Whole batches lie behind it: the voter held records that its copy does not have any more."""
    headers = [header for header, _ in read_log_file(node / LOG)]
    middle = headers[len(headers) // 2]
    data = bytearray((node / LOG).read_bytes())
    data[middle.position + byte] |= 0x7F
    (node / LOG).write_bytes(data)
    copy = read_copy(node)
    [damage] = copy.damage
    assert (damage.position, "length" in damage.reason) == (middle.position, True)
    assert f"up to offset {headers[-1].next_offset - 1}" in copy.notes[0]
    assert copy.end.end_offset == middle.base_offset
    loss = judge([copy]).loss
    assert loss is not None and not loss.is_excluded


def test_an_epoch_that_runs_back_is_damage_of_the_batch_behind_it(node: Path) -> None:
    """The CRC does not cover the epoch of a batch."""
    headers = [header for header, _ in read_log_file(node / LOG)]
    flip(node / LOG, headers[5].position + 14)
    [damage] = read_copy(node).damage
    assert damage.position == headers[6].position and "follows epoch" in damage.reason


def test_a_log_that_was_cut_at_a_batch_is_betrayed_by_its_leader_epochs(node: Path) -> None:
    cut(node / LOG, 0)
    copy = read_copy(node)
    assert copy.is_empty and not copy.is_whole
    assert "its end is missing" in copy.damage[0].reason


def test_an_older_quorum_state_is_noted(node: Path) -> None:
    state = node / "__cluster_metadata-0" / "quorum-state"
    state.write_text(state.read_text().replace('"leaderEpoch":3', '"leaderEpoch":1'))
    assert any("older copy of the file" in one for one in read_copy(node).notes)


def test_a_gateways_copy_is_known_by_its_high_watermark(node: Path) -> None:
    (node / "high-watermark").write_bytes(format_slot(42).ljust(BLOCK_BYTES, b"\0") * 2)
    copy = read_copy(node)
    assert copy.identity.is_gateway and copy.high_watermark == 42
    (node / "recovery-point").write_bytes(b"")
    assert not read_copy(node).identity.is_gateway


@pytest.mark.parametrize("name", ["meta.properties", "__cluster_metadata-0/quorum-state"])
def test_a_small_file_that_cannot_be_read_is_damage_and_the_log_still_counts(
    node: Path, name: str
) -> None:
    (node / name).write_bytes(b"\xff\x00{[")
    copy = read_copy(node)
    assert [one.file for one in copy.damage] == [str(node / name)]
    assert copy.end == read_copy(SAMPLE).end


def test_a_pipe_or_directory_in_place_of_a_segment_is_explained(node: Path) -> None:
    (node / LOG).unlink()
    os.mkfifo(node / LOG)
    assert "a regular file is needed" in read_copy(node).damage[0].reason
    (node / LOG).unlink()
    (node / LOG).mkdir()
    assert "directory" in read_copy(node).damage[0].reason


def test_a_segment_that_goes_while_it_is_read_is_damage_and_no_shorter_log(node: Path) -> None:
    (node / LOG).unlink()
    (node / LOG).symlink_to("nowhere")
    assert "gone while it was read" in read_copy(node).damage[0].reason


def test_an_empty_directory_has_no_log(tmp_path: Path) -> None:
    copy = read_copy(tmp_path)
    assert copy.is_empty and "has no log" in copy.notes[0]


@needs_shared
def test_a_log_that_starts_at_a_snapshot_and_its_snapshot_alone_agree(logs: Any) -> None:
    nodes = logs("p-quorum-short") / "nodes"
    copy = read_copy(nodes / "2")
    assert copy.is_whole and copy.start_offset > 0 and copy.snapshot is not None
    alone = read_copy(nodes / "2" / "__cluster_metadata-0" / copy.snapshot.file_name)
    assert alone.end == Position(copy.snapshot.epoch, copy.snapshot.end_offset)
    assert alone.is_whole and alone.is_snapshot
    assert alone.newest_voters is not None and alone.last_timestamp is not None


@needs_shared
def test_copies_of_one_quorum_agree_and_exclude_a_loss(logs: Any) -> None:
    nodes = logs("p-quorum-short") / "nodes"
    verdict = judge([read_copy(one) for one in sorted(nodes.iterdir())])
    assert verdict.objections == () and verdict.loss is not None and verdict.loss.is_excluded
    assert all(one.comparison.parts_at is None for one in verdict.beside)


@needs_shared
def test_the_tail_of_a_leader_that_was_cut_off_is_seen(logs: Any) -> None:
    root = logs("p-quorum")
    [cut_off] = (root / "side" / "nodes").iterdir()
    verdict = judge([read_copy(root / "nodes" / "2"), read_copy(cut_off)])
    [beside] = verdict.beside
    assert beside.copy.where == str(cut_off) and beside.own_tail is not None
    assert beside.comparison.parts_at == beside.own_tail[0]


@needs_shared
def test_a_static_quorums_copy_names_its_voters_by_quorum_state(logs: Any) -> None:
    copy = read_copy(logs("p-one-segments") / "nodes" / "7")
    assert copy.kraft_version == 0 and copy.newest_voters is None
    assert copy.election is not None and copy.election.voter_ids == (7,)


# --- hostile directories
# ---------------------------------------------------------------------------


def _flip(path: Path, chance: random.Random) -> None:
    if size := path.stat().st_size:
        flip(path, chance.randrange(size))


def _cut(path: Path, chance: random.Random) -> None:
    cut(path, chance.randrange(path.stat().st_size + 1))


def _noise(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    at = chance.randrange(len(data) + 1)
    path.write_bytes(data[:at] + chance.randbytes(chance.randrange(1, 80)) + data[at:])


def _zeros(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + bytes(chance.randrange(1, 5000)))


def _remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def _rename(path: Path, chance: random.Random) -> None:
    names = ("00000000000000000007.log", "99999999999999999999.log", "meta.properties")
    path.rename(path.with_name(chance.choice(names)))


def _swap(path: Path, chance: random.Random) -> None:
    others = sorted(one for one in path.parent.iterdir() if one.is_file() and one != path)
    if others:
        path.write_bytes(chance.choice(others).read_bytes())


def _other_name(path: Path, chance: random.Random) -> None:
    snapshot = f"{chance.randrange(10**12):020d}-{chance.randrange(10**10):010d}.checkpoint"
    shutil.copy(path, path.with_name(snapshot))


CHANGES: Final = (_flip, _cut, _noise, _zeros, _remove, _rename, _swap, _other_name)


@needs_shared
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_damaged_directories_are_explained_and_never_changed(
    logs: Any, tmp_path: Path, first: int
) -> None:
    """Seeded changes of directories of real controllers and brokers, up to three at once."""
    nodes = sorted((logs("p-quorum-short") / "nodes").iterdir())
    whole = read_copy(nodes[0])
    explained = 0
    for seed in range(first, first + AT_ONCE):
        chance = random.Random(seed)
        directory = Path(shutil.copytree(chance.choice(nodes), tmp_path / str(seed)))
        for _ in range(chance.randrange(1, 4)):
            files = sorted(
                one
                for one in directory.rglob("*")
                if one.is_file() and one.suffix not in (".index", ".timeindex")
            )
            chance.choice(CHANGES)(chance.choice(files), chance)
        before = hashes(directory)
        copy = read_copy(directory)
        judge([copy, whole])
        explained += bool(copy.damage or copy.notes)
        assert hashes(directory) == before, seed
        assert all(one.reason and one.file for one in copy.damage), seed
        shutil.rmtree(directory)
    assert explained > AT_ONCE // 4
