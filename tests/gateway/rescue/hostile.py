"""Makes directories that are damaged, truncated, swapped, of another cluster, of a wrong epoch or
hostile, each by a named change of a small whole directory, with what the operator is told of it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from gateway.log.files import (
    high_watermark_file,
    leader_epoch_checkpoint,
    meta_properties,
    partition_metadata,
    quorum_state,
)
from gateway.log.metadata.snapshot_file import MemorySink, SnapshotFile
from gateway.rescue.read_copy import read_copy
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.records import BatchHeader, Record, encode_batch, encode_control_record

SAMPLE: Final = Path(__file__).resolve().parents[3] / "gateway" / "sample"
#: Batches of the log, of which each segment has so many; a snapshot ends behind some of them.
_BATCHES, _IN_SEGMENT, _IN_SNAPSHOT = 24, 8, 4
_TIB: Final = 1 << 40
#: The bytes of a batch that its CRC covers begin here; the epoch lies before them.
_COVERED, _EPOCH_AT, _MAGIC_AT = 21, 12, 16
_SMALL_FILES: Final = (
    quorum_state.FILE_NAME,
    partition_metadata.FILE_NAME,
    leader_epoch_checkpoint.FILE_NAME,
)

Change = Callable[[Path, Random], Path | None]


class Hostile(NamedTuple):
    """A change of a data directory, which returns the place to read in its stead; ``told``: what
    the operator is told.
    """

    change: Change
    told: str


HOSTILE: Final[dict[str, Hostile]] = {}


def hostile(told: str) -> Callable[[Change], Change]:
    """Register a class of directories; ``told`` is a pattern that is in what is printed."""

    def register(change: Change) -> Change:
        HOSTILE[change.__name__] = Hostile(change, told)
        return change

    return register


def whole_directory(into: Path) -> Path:
    """Make a data directory with three segments and a snapshot, of which nothing is damaged."""
    shutil.copytree(
        SAMPLE / CLUSTER_METADATA_PARTITION, inside := into / CLUSTER_METADATA_PARTITION
    )
    shutil.copy(SAMPLE / meta_properties.FILE_NAME, into)
    voters = read_copy(into).newest_voters
    assert voters is not None, "the sample is of a dynamic quorum"
    log = inside / segment_name(0)
    data, headers = log.read_bytes(), [header for header, _ in read_log_file(log)][:_BATCHES]
    for path in inside.iterdir():
        if path.name.startswith("0" * 10) and path.suffix != ".checkpoint":
            path.unlink()
    for at in range(0, _BATCHES, _IN_SEGMENT):
        part = headers[at : at + _IN_SEGMENT]
        name = segment_name(part[0].base_offset)
        (inside / name).write_bytes(data[part[0].position : part[-1].end])
    id = SnapshotId(headers[_IN_SNAPSHOT].base_offset, headers[_IN_SNAPSHOT].partition_leader_epoch)
    file = SnapshotFile(
        sink := MemorySink(),
        id,
        last_contained_log_timestamp=-1,
        kraft_version=1,
        voters=voters.record(),
    )
    file.finish()
    (inside / id.file_name).write_bytes(sink.data)
    (inside / leader_epoch_checkpoint.FILE_NAME).write_text(f"0\n1\n{id.epoch} 0\n")
    return into


# --- parts of a directory
# ---------------------------------------------------------------------------


def _partition(node: Path) -> Path:
    return node / CLUSTER_METADATA_PARTITION


def _segments(node: Path) -> list[Path]:
    return sorted(_partition(node).glob("*.log"))


def _snapshot(node: Path) -> Path:
    return sorted(_partition(node).glob("*.checkpoint"))[-1]


def _headers(path: Path) -> list[BatchHeader]:
    return [header for header, _ in read_log_file(path)]


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _append(node: Path, batch: Callable[[int, int], bytes]) -> None:
    """Append the batch that is made for the log's end offset and epoch."""
    path = _segments(node)[-1]
    last = _headers(path)[-1]
    with path.open("ab") as file:
        file.write(batch(last.next_offset, last.partition_leader_epoch))


def _control(node: Path, record: Callable[[int], Record]) -> None:
    def batch(offset: int, epoch: int) -> bytes:
        return encode_batch([record(offset)], partition_leader_epoch=epoch, is_control=True)

    _append(node, batch)


def _small_file(node: Path, random: Random) -> Path:
    return _partition(node) / random.choice(_SMALL_FILES)


# --- segments
# ---------------------------------------------------------------------------


@hostile("wrong CRC")
def flipped_byte(node: Path, random: Random) -> None:
    path = random.choice(_segments(node))
    header = random.choice(_headers(path))
    at = random.randrange(header.position + _COVERED, header.end)
    _overwrite(path, at, bytes([path.read_bytes()[at] ^ 1 << random.randrange(8)]))


@hostile("magic")
def old_format(node: Path, random: Random) -> None:
    path = random.choice(_segments(node))
    _overwrite(path, random.choice(_headers(path)).position + _MAGIC_AT, b"\1")


@hostile("inside a batch")
def torn_end(node: Path, random: Random) -> None:
    path = _segments(node)[-1]
    os.truncate(path, random.randrange(1, _headers(path)[-1].end))


@hostile("inside a batch")
def torn_middle(node: Path, random: Random) -> None:
    path = _segments(node)[1]
    os.truncate(path, random.randrange(1, path.stat().st_size))


@hostile("magic")
def noise_inside(node: Path, random: Random) -> None:
    path = random.choice(_segments(node))
    data, at = path.read_bytes(), random.choice(_headers(path)).position
    path.write_bytes(data[:at] + random.randbytes(random.randrange(70, 200)) + data[at:])


@hostile("magic")
def zeros_behind(node: Path, random: Random) -> None:
    path = _segments(node)[-1]
    os.truncate(path, path.stat().st_size + random.randrange(61, 5000))


@hostile("stands where offset")
def swapped_batches(node: Path, random: Random) -> None:
    path = random.choice(_segments(node))
    data, headers = path.read_bytes(), _headers(path)
    at = random.randrange(len(headers) - 1)
    one, two = headers[at : at + 2]
    swapped = data[two.position : two.end] + data[one.position : one.end]
    path.write_bytes(data[: one.position] + swapped + data[two.end :])


@hostile("stands where offset")
def swapped_segments(node: Path, random: Random) -> None:
    one, two = random.sample(_segments(node), 2)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


@hostile("are missing before it")
def missing_segment(node: Path, random: Random) -> None:
    _segments(node)[1].unlink()


@hostile("no whole snapshot has what was before")
def missing_start(node: Path, random: Random) -> None:
    _segments(node)[0].unlink()
    for path in _partition(node).glob("*.checkpoint"):
        path.unlink()


@hostile("begins at offset|are missing before it")
def misnamed_segment(node: Path, random: Random) -> None:
    path = random.choice(_segments(node)[1:])
    path.rename(path.with_name(segment_name(int(path.stem) + random.choice((-1, 1)))))


@hostile("follows epoch")
def epoch_runs_back(node: Path, random: Random) -> None:
    path = _segments(node)[-1]
    header = random.choice(_headers(path))
    epoch = random.choice((-5, -1, 0))
    _overwrite(path, header.position + _EPOCH_AT, epoch.to_bytes(4, "big", signed=True))


@hostile("no epoch above it")
def last_epoch_in_the_log(node: Path, random: Random) -> None:
    path = _segments(node)[-1]
    epoch = (1 << 31) - 1 - random.randrange(900)
    _overwrite(path, _headers(path)[-1].position + _EPOCH_AT, epoch.to_bytes(4, "big"))


@hostile("are missing before it")
def emptied_segments(node: Path, random: Random) -> None:
    for path in _segments(node):
        os.truncate(path, 0)


# --- control records
# ---------------------------------------------------------------------------


@hostile("voters at offset")
def voter_twice(node: Path, random: Random) -> None:
    voters = read_copy(node).newest_voters
    assert voters is not None
    record = voters.record()
    record.voters = [*record.voters, *record.voters]
    _control(node, lambda at: encode_control_record("KRAFT_VOTERS", record, offset=at))


@hostile("control record at offset")
def voters_of_noise(node: Path, random: Random) -> None:
    noise = random.randbytes(random.randrange(1, 9))
    known = encode_control_record("KRAFT_VOTERS", VotersRecord(voters=[]))
    _control(node, lambda at: Record(offset=at, key=known.key, value=b"\0\0" + b"\xff" * 5 + noise))


@hostile("cannot be built")
def record_of_noise(node: Path, random: Random) -> None:
    noise = b"\1\xff\xff\xff" + random.randbytes(random.randrange(4, 60))

    def batch(offset: int, epoch: int) -> bytes:
        record = Record(offset=offset, value=noise)
        return encode_batch([record], partition_leader_epoch=epoch)

    _append(node, batch)


# --- small files
# ---------------------------------------------------------------------------


@hostile(r"DAMAGED: \S*(quorum-state|partition.metadata|leader-epoch-checkpoint)")
def small_file_of_noise(node: Path, random: Random) -> None:
    _small_file(node, random).write_bytes(random.randbytes(random.randrange(1, 300)))


@hostile(r"DAMAGED: \S*quorum-state")
def quorum_state_without_end(node: Path, random: Random) -> None:
    path = _partition(node) / quorum_state.FILE_NAME
    path.write_text(random.choice(("[", '{"a":')) * 100_000)


@hostile(r"no epoch above it|DAMAGED: \S*quorum-state")
def last_epoch_in_quorum_state(node: Path, random: Random) -> None:
    path = _partition(node) / quorum_state.FILE_NAME
    epoch = (1 << 31) - 1 + random.randrange(-900, 900)
    path.write_text(re.sub('"leaderEpoch":[0-9]+', f'"leaderEpoch":{epoch}', path.read_text()))


@hostile("older copy of the file")
def older_quorum_state(node: Path, random: Random) -> None:
    path = _partition(node) / quorum_state.FILE_NAME
    path.write_text(re.sub('"leaderEpoch":[0-9]+', '"leaderEpoch":0', path.read_text()))


@hostile(r"DAMAGED: \S*meta.properties")
def meta_properties_of_noise(node: Path, random: Random) -> None:
    noise = random.choice((b"", b"node.id=\\u00", b"version=7\n", random.randbytes(200)))
    (node / meta_properties.FILE_NAME).write_bytes(noise)


@hostile("different clusters")
def another_cluster(node: Path, random: Random) -> None:
    path = node / meta_properties.FILE_NAME
    path.write_text(
        re.sub("cluster.id=.*", f"cluster.id={random.randrange(9**9)}", path.read_text())
    )


@hostile("other")
def another_disk(node: Path, random: Random) -> None:
    path = node / meta_properties.FILE_NAME
    path.write_text(path.read_text().replace("directory.id=", "directory.id=AAAA")[:-5] + "\n")


@hostile("different topics")
def another_topic(node: Path, random: Random) -> None:
    path = _partition(node) / partition_metadata.FILE_NAME
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")


@hostile("different topics")
def another_partition(node: Path, random: Random) -> Path:
    """A partition of a topic of clients, given by its own directory."""
    path = node / f"orders-{random.randrange(9)}"
    path.mkdir()
    values = [Record(offset=at, value=random.randbytes(20)) for at in range(5)]
    (path / segment_name(0)).write_bytes(encode_batch(values, partition_leader_epoch=9))
    (path / partition_metadata.FILE_NAME).write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n"
    )
    return path


@hostile("gateway")
def high_watermark_of_noise(node: Path, random: Random) -> None:
    path = node / high_watermark_file.FILE_NAME
    path.write_bytes(random.randbytes(random.choice((0, 3, 5000))))


# --- snapshots
# ---------------------------------------------------------------------------


@hostile("incomplete|SNAPSHOT_|is empty")
def cut_snapshot(node: Path, random: Random) -> None:
    path = _snapshot(node)
    os.truncate(path, random.randrange(path.stat().st_size))


@hostile("SNAPSHOT_HEADER|stands where offset")
def snapshot_of_a_segment(node: Path, random: Random) -> None:
    shutil.copy(random.choice(_segments(node)), _snapshot(node))


@hostile("replaces the log, which ends at offset")
def snapshot_with_a_later_id(node: Path, random: Random) -> None:
    end, epoch = random.randrange(10**9, 10**12), random.randrange(3, 10**6)
    _snapshot(node).rename(_partition(node) / SnapshotId(end, epoch).file_name)


@hostile("no epoch above it")
def snapshot_of_no_epoch(node: Path, random: Random) -> None:
    name = f"{random.randrange(10**12):020d}-{random.randrange(2**31, 10**10):010d}.checkpoint"
    _snapshot(node).rename(_partition(node) / name)


@hostile("neither a directory nor a snapshot")
def some_other_file(node: Path, random: Random) -> Path:
    return random.choice([*_segments(node), _partition(node) / quorum_state.FILE_NAME])


# --- what is no file, or no ordinary one
# ---------------------------------------------------------------------------


def _any_file(node: Path, random: Random) -> Path:
    path = random.choice([*_segments(node), _snapshot(node), _small_file(node, random)])
    path.unlink()
    return path


@hostile("a regular file is needed")
def pipe(node: Path, random: Random) -> None:
    os.mkfifo(_any_file(node, random))


@hostile("a regular file is needed")
def device(node: Path, random: Random) -> None:
    _any_file(node, random).symlink_to(random.choice(("/dev/zero", "/dev/full")))


@hostile("[Ii]s a directory")
def directory_in_place(node: Path, random: Random) -> None:
    _any_file(node, random).mkdir()


@hostile("symbolic links")
def link_in_a_circle(node: Path, random: Random) -> None:
    path = _any_file(node, random)
    path.symlink_to(path.name)


@hostile("gone while it was read")
def link_to_nowhere(node: Path, random: Random) -> None:
    path = random.choice(_segments(node))
    path.unlink()
    path.symlink_to("nowhere")


@hostile("magic|more than")
def huge_and_sparse(node: Path, random: Random) -> None:
    partition = _partition(node)
    names = (quorum_state.FILE_NAME, leader_epoch_checkpoint.FILE_NAME)
    small = [node / meta_properties.FILE_NAME, *(partition / one for one in names)]
    os.truncate(random.choice([_segments(node)[-1], *small]), _TIB)


@hostile("has no log")
def nothing_inside(node: Path, random: Random) -> Path:
    path = node / "empty"
    path.mkdir()
    return path


@hostile("CRC")
def name_for_a_terminal(node: Path, random: Random) -> Path:
    """A directory whose name moves the cursor of a terminal, and with a flipped byte."""
    flipped_byte(node, random)
    return node.rename(node.with_name("\x1b[2Jnode\r\n"))
