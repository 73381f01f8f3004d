"""Takes the disks of a schedule at moments of its course, as a loss of power leaves them, and
writes them as data directories that ``gateway.rescue`` reads.

Observers are gateways, which store a high watermark, and brokers, which do not. Snapshots have the
voters and no state, because the records of a schedule are no metadata.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from gateway.log.files import high_watermark_file, meta_properties, quorum_state
from gateway.log.metadata.snapshot_file import MemorySink, SnapshotFile
from gateway.quorum.voter_set import VoterSet
from kwire.messages.quorum_state_data import QuorumStateData, Voter
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, segment_name
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_PARTITION
from tests.sim.cluster import CLUSTER_ID, OBSERVER_IDS
from tests.sim.disk import Disk
from tests.sim.scenarios import scenario_of
from tests.sim.world import World

_META_VERSION: Final = 1
_FORMATTED_AT: Final = datetime.fromtimestamp(0, UTC)
#: The moments of a schedule, and the time in which they lie, s.
_MOMENTS: Final = 2
_FIRST_S, _LAST_S = 1.0, 9.0


class Moment(NamedTuple):
    """The disks of all members at one moment, by node id, what was committed by then, and the
    first voters, which a static quorum keeps.
    """

    disks: dict[int, Disk]
    #: The end of each committed batch, with the name of the log up to there.
    committed: tuple[tuple[int, int], ...]
    static: VoterSet

    def missing_from(self, id: int, end: int) -> int | None:
        """The first committed offset that is missing from the log of a node below ``end``; None if
        all are there.
        """
        log, (last, name) = self.disks[id].log, self.committed[-1]
        if last <= end and log.prefix_at(last) == name:
            return None
        return max(
            (at for at, name in self.committed if at <= end and log.prefix_at(at) == name),
            default=0,
        )


def moments(seed: int) -> list[Moment]:
    """Run the schedule of a seed, and return the disks at some random moments after the first
    commit.
    """
    random, found = Random(seed ^ 0xD15C), list[Moment]()
    times = sorted(random.uniform(_FIRST_S, _LAST_S) for _ in range(_MOMENTS))
    scenario = scenario_of(seed)

    def until_last(world: World) -> Iterator[float]:
        for wait in scenario.script(world):
            if world.now > times[-1]:
                return
            yield wait
        yield max(0.0, times[-1] - world.now)

    world = World(seed, scenario._replace(script=until_last, heals=False))

    def take() -> None:
        if world.checker.committed.batches:
            found.append(_moment(world, random))

    for time in times:
        world.at(time, take)
    world.run()
    return found


def _moment(world: World, random: Random) -> Moment:
    committed = world.checker.committed
    return Moment(
        {node.id: _without_power(node.disk, random) for node in world.members},
        tuple(zip(committed.ends, committed.prefixes, strict=True)),
        world.first_voters,
    )


def _without_power(disk: Disk, random: Random) -> Disk:
    """Return a copy of a disk as a loss of power leaves it."""
    left = copy.copy(disk)
    left.log, left.snapshots = disk.log.copy(), dict(disk.snapshots)
    left.elections = list(disk.elections)
    numbers = [random.random() for _ in range(3)]
    left.crash(numbers.__getitem__)
    return left


# --- directories
# ---------------------------------------------------------------------------


def write_directory(moment: Moment, id: int, into: Path) -> None:
    """Write the disk of a node as a data directory."""
    disk = moment.disks[id]
    partition = into / CLUSTER_METADATA_PARTITION
    partition.mkdir(parents=True)
    for name, data in _files(moment, disk):
        (partition / name).write_bytes(data)
    properties = meta_properties.MetaProperties(_META_VERSION, CLUSTER_ID, id, disk.directory_id)
    (into / meta_properties.FILE_NAME).write_bytes(
        meta_properties.format_meta_properties(properties, _FORMATTED_AT)
    )
    if id >= OBSERVER_IDS and id % 2:
        slot = high_watermark_file.format_slot(disk.high_watermark)
        block = slot.ljust(high_watermark_file.BLOCK_BYTES, b"\0")
        (into / high_watermark_file.FILE_NAME).write_bytes(2 * block)


def _files(moment: Moment, disk: Disk) -> Iterator[tuple[str, bytes]]:
    data = b"".join(batch.data for batch in disk.log.batches)
    yield segment_name(disk.log.start_offset), data
    if disk.formatted is not None:
        yield BOOTSTRAP_SNAPSHOT.file_name, _snapshot(BOOTSTRAP_SNAPSHOT, disk.formatted, 1)
    for one in disk.snapshots.values():
        yield one.id.file_name, _snapshot(one.id, one.voters, one.kraft_version)
    if disk.election is not None:
        yield quorum_state.FILE_NAME, _election(moment, disk)


def _snapshot(id: SnapshotId, voters: VoterSet | None, kraft_version: int) -> bytes:
    sink = MemorySink()
    file = SnapshotFile(
        sink,
        id,
        last_contained_log_timestamp=-1,
        kraft_version=kraft_version,
        voters=voters.record() if voters is not None and kraft_version else None,
    )
    file.finish()
    return bytes(sink.data)


def _election(moment: Moment, disk: Disk) -> bytes:
    held = disk.election
    assert held is not None, "asked of a disk that has one"
    state = QuorumStateData(
        leader_id=held.leader_id, leader_epoch=held.epoch, voted_id=held.voted_id
    )
    if disk.voters_at(disk.log.end_offset)[1]:
        state.voted_directory_id = held.voted_directory_id
        return quorum_state.format_quorum_state(state, 1)
    state.current_voters = [Voter(voter_id=one.id) for one in moment.static]
    return quorum_state.format_quorum_state(state, 0)
