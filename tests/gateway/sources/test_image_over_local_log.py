"""The image and our snapshots over a log that is appended to, truncated, cleaned and replaced, at
random, as a quorum would.

The batches are Kafka's; between them come some that are never committed. kwire's image equals
Kafka's at each offset at which Kafka's is known.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.snapshot_generator import SnapshotGenerator, SnapshotSettings
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.sources.metadata_files import batch, topic
from tests.gateway.sources.test_snapshot_generator import snapshots_of
from tests.kwire.cluster.kafka_state import state_of, truth
from tests.shared import needs_shared

SETTINGS = LogSettings(segment_bytes=20_000, retention_bytes=60_000, fsync=False)


class Follower:
    """A local log that follows one of Kafka's logs, with all that stands beside it."""

    def __init__(self, source: Path, data_dir: Path, rng: random.Random) -> None:
        self.rng = rng
        self.data_dir = data_dir
        self.source = source
        #: (base offset, next offset, bytes) of Kafka's batches.
        self.batches: list[tuple[int, int, bytes]] = []
        for path in sorted(source.glob("*.log")):
            data = path.read_bytes()
            for header, _ in read_log_file(path):
                self.batches.append(
                    (header.base_offset, header.next_offset, data[header.position : header.end])
                )
        self.done: Counter[str] = Counter()
        self.committed = 0
        self.open()

    def open(self) -> None:
        """Start, or start again."""
        self.log = LocalLog.open(self.data_dir, SETTINGS)
        self.keeper = MetadataLoader(self.log.directory)
        self.snapshots = SnapshotGenerator(
            self.log.directory, SnapshotSettings(), self.log.new_snapshot, now=0.0
        )

    def append(self, up_to: int) -> None:
        """Some more batches of Kafka's, none beyond ``up_to``; before them perhaps some that a new
        leader takes back.
        """
        if self.rng.random() < 0.2:
            for _ in range(self.rng.randrange(1, 40)):
                end = self.log.end_offset
                self.log.append(
                    batch(end, topic(900 + self.rng.randrange(50)), epoch=self.log.last_epoch)
                )
            self.follow()
            self.log.truncate_to(self.committed)
            self.done["truncated"] += 1
        waiting = [
            data for base, end, data in self.batches if base >= self.log.end_offset and end <= up_to
        ]
        self.log.append(b"".join(waiting[: self.rng.randrange(1, 60)]))

    def commit(self) -> None:
        """The high watermark moves to the end of some batch."""
        ends = [end for _, end, _ in self.batches if self.committed <= end <= self.log.end_offset]
        if ends:
            self.committed = self.rng.choice(ends[-10:])
            self.log.set_high_watermark(self.committed)

    def follow(self) -> None:
        while self.keeper.decode_step(self.committed):
            self.keeper.apply_step()
        self.keeper.apply_step()

    def snapshot(self) -> None:
        """Write one and clean."""
        if self.snapshots.write(self.committed, 0, 0.0):
            self.done["snapshot"] += 1
        self.done["cleaned"] += bool(self.log.clean(now_ms=0))

    def install(self, snapshot: SnapshotId) -> None:
        """The leader has deleted what comes next."""
        writer = self.log.new_snapshot(snapshot)
        writer.write(0, (self.source / snapshot.file_name).read_bytes())
        writer.freeze()
        self.log.truncate_to_snapshot(snapshot)
        self.committed = snapshot.end_offset
        self.log.set_high_watermark(self.committed)
        self.done["installed"] += 1

    def restart(self) -> None:
        self.log.close()
        self.open()
        self.done["restarted"] += 1


@needs_shared
@pytest.mark.parametrize("seed", range(6))
def test_the_image_equals_kafkas_wherever_that_is_known(
    seed: int, logs: Any, tmp_path: Path
) -> None:
    root: Path = logs("p-quorum")
    rng = random.Random(seed)
    states = dict(truth(path) for path in (root / "truth" / "2").glob("state-*.jsonl"))
    follower = Follower(root / "nodes" / "2" / "__cluster_metadata-0", tmp_path, rng)
    installable = {one.end_offset: one for one in snapshots_of(follower.source)}
    for end in sorted(states):
        if end in installable and rng.random() < 0.25:
            follower.install(installable[end])
        while follower.committed < end:
            follower.append(end)
            follower.commit()
            rng.choice(
                (
                    follower.follow,
                    follower.follow,
                    follower.follow,
                    follower.snapshot,
                    follower.restart,
                )
            )()
        follower.follow()
        assert (follower.keeper.next_offset, follower.keeper.problem) == (end, None)
        assert state_of(follower.keeper.image) == states[end], (seed, end)
        assert not follower.keeper.skipped
    follower.log.close()
    assert all(
        follower.done[what]
        for what in ("truncated", "snapshot", "cleaned", "installed", "restarted")
    ), follower.done
