"""Random effects on an observer's log: served bytes never change, and the end never decreases."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.log.metadata.local_log import LogSettings
from gateway.ports.services import State
from gateway.quorum.effects import Advance, BeginSnapshot, SnapshotChunk
from gateway.sources.quorum_log import QuorumLog
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import batch, snapshot_bytes
from tests.gateway.sources.observing import (
    Append,
    do,
    install_snapshot,
    persisted,
    reopened,
    truncate,
)
from tests.gateway.sources.reading import batches_from

TINY = LogSettings(
    segment_bytes=400, index_interval_bytes=100, retention_bytes=1, retention_ms=-1, fsync=False
)
CLUSTER = "7QN8irUjSqO4QGNDS7ESyw"
few = st.integers(1, 4)


class Copy(RuleBasedStateMachine):
    """An observer's life, and what clients remember of it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="observed-log-"))
        self.lives = 0
        self.epoch = 1
        self.size = 10  # of a value: tells batches apart that have the same place
        self.shown: dict[int, bytes] = {}  # base offset -> batch, for ever
        self.high_watermark = self.leader_epoch = self.start = 0

    @initialize(prefix=st.booleans())
    def open(self, prefix: bool) -> None:
        self.prefix = prefix
        self.source = self.opened()
        self.do(persisted(1, 1))

    def opened(self) -> QuorumLog:
        source = reopened(
            self.root / str(self.lives), prefix=self.prefix, settings=TINY, cluster_id=CLUSTER
        )
        source.caught_up = source.leader_alive = True
        return source

    def do(self, *effects: object) -> None:
        assert do(self.source, *effects) is None

    def next_batch(self, count: int) -> bytes:
        self.size = 10 + (self.size + 1) % 50
        return batch(self.source.store.end_offset, count, self.epoch, size=self.size).data

    # --- what an observer does
    # ---------------------------------------------------------------------------------------------

    @rule(counts=st.lists(few, min_size=1, max_size=4), commit=st.booleans())
    def append(self, counts: list[int], commit: bool) -> None:
        for count in counts:
            self.do(Append(self.next_batch(count)))
        if commit:
            self.do(Advance(self.source.store.end_offset))

    @rule(told=st.integers(0, 400))
    def advance(self, told: int) -> None:
        """Anything that a leader may say, far beyond what we have and inside batches too."""
        wanted = self.source.committed + told % 12 if told < 300 else told
        self.do(Advance(min(wanted, self.source.store.end_offset)))  # the core gives no more

    @rule(part=st.floats(0, 1), count=few)
    def lose_an_election(self, part: float, count: int) -> None:
        """A new leader, with another log behind what is committed."""
        self.epoch += 1
        self.do(persisted(self.epoch, self.epoch % 3))
        low, high = self.source.committed, self.source.store.end_offset
        offset = max(low, self.batch_start(low + round(part * (high - low))))
        if self.batch_start(offset) == offset:
            self.do(truncate(offset))
            self.do(Append(self.next_batch(count)))

    def batch_start(self, offset: int) -> int:
        """Where the batch that holds ``offset`` begins."""
        starts = [
            path
            for path in sorted(self.source.store.directory.glob("*.log"))
            if int(path.stem) <= offset
        ]
        data = starts[-1].read_bytes() if starts else b""
        found = offset
        while data:
            base, size = int.from_bytes(data[:8], "big"), 12 + int.from_bytes(data[8:12], "big")
            if base <= offset <= base + int.from_bytes(data[23:27], "big"):
                found = base
            data = data[size:]
        return found

    @rule(beyond=st.integers(1, 30), counts=st.lists(few, max_size=3), damaged=st.booleans())
    def load_a_snapshot(self, beyond: int, counts: list[int], damaged: bool) -> None:
        self.epoch += 1
        id = SnapshotId(self.source.store.end_offset + sum(counts) + beyond + 2, self.epoch)
        data = snapshot_bytes(self.epoch, tuple(counts))
        if damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.do(persisted(self.epoch, 1), BeginSnapshot(id), SnapshotChunk(0, data[:40], len(data)))
        refused = do(self.source, SnapshotChunk(40, data[40:], len(data)), install_snapshot(id))
        assert (refused is not None) == damaged

    @rule(gap=st.integers(-3, 3).filter(bool))
    def garbage(self, gap: int) -> None:
        """Batches that do not belong there."""
        end = self.source.store.end_offset
        offset = end + gap if end + gap >= 0 else end + 1
        assert do(self.source, Append(batch(offset, 2, self.epoch).data)) is not None
        assert self.source.store.end_offset == end

    @precondition(
        lambda self: self.source.served.slices and self.source.served.slices[-1].shift == 0
    )
    @rule(back=st.integers(0, 3), clean=st.booleans())
    def snapshot(self, back: int, clean: bool) -> None:
        """One of our own, at the end of a committed batch; what is before it may go."""
        ends = [end for _, end, _ in batches_from(self.source, self.source.store.start_offset)][
            -1 - back :
        ]
        if not ends or ends[0] <= 3:
            return
        id = SnapshotId(ends[0], self.source.epoch_at(ends[0] - 1))
        if not (self.source.store.directory / id.file_name).exists():
            writer = self.source.new_snapshot(id)
            writer.write(0, snapshot_bytes(id.epoch, (1,)))
            writer.freeze()
        if clean:
            self.source.clean(0)
            self.source.publish()

    # --- what happens to it
    # ---------------------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.source.close()
        self.source = self.opened()

    @rule()
    def kill(self) -> None:
        """Restart from the files as they are at this moment."""
        before = self.root / str(self.lives)
        self.lives += 1
        shutil.copytree(before, self.root / str(self.lives))
        self.source.close()
        shutil.rmtree(before)
        self.source = self.opened()

    # --- what must hold
    # ---------------------------------------------------------------------------------------------

    @invariant()
    def what_was_shown_stays(self) -> None:
        source = self.source
        assert source.high_watermark >= self.high_watermark
        assert source.leader_epoch >= max(self.leader_epoch, self.epoch)
        assert source.store.start_offset >= self.start
        assert source.high_watermark <= source.committed <= source.store.end_offset
        assert (source.state, source.problems) == (State.READY, ())
        assert source.cluster_id == CLUSTER
        self.high_watermark, self.leader_epoch, self.start = (
            source.high_watermark,
            source.leader_epoch,
            source.store.start_offset,
        )
        offset = source.log_start_offset
        for base, end, data in batches_from(source, offset):
            if (
                base >= source.store.start_offset
            ):  # below that it is the snapshot's records that are served
                assert self.shown.setdefault(base, data) == data
                assert base == offset or offset <= source.store.start_offset
            offset = end

    def teardown(self) -> None:
        if hasattr(self, "source"):
            self.source.close()
        shutil.rmtree(self.root)


Copy.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_history = Copy.TestCase
