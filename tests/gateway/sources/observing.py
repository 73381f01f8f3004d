"""An observer's log under a test's hands: what the driver does with it, in short words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gateway.log.files.errors import LogError
from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.log.metadata.observer_store import ObserverStore
from gateway.quorum import effects as fx
from gateway.quorum.effects import BeginSnapshot, SnapshotChunk
from gateway.quorum.events import NotInstalled
from gateway.sources.quorum_log import QuorumLog
from gateway.sources.quorum_log_policies import BatchesRefused
from gateway.sources.snapshot_locks import SnapshotBusy
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import batch, snapshot_bytes

CLUSTER = "7QN8irUjSqO4QGNDS7ESyw"
SMALL = LogSettings(segment_bytes=700, index_interval_bytes=150, retention_bytes=1, retention_ms=-1)
_TOKEN = 1  # the log does not look at tokens


class Append(NamedTuple):
    """Batches for the log's end of the moment at which they are appended, whatever they say
    themselves.
    """

    data: bytes


def persisted(epoch: int, leader_id: int) -> fx.Persist:
    return fx.Persist(_TOKEN, fx.ElectionState(epoch, leader_id), 1)


def truncate(offset: int) -> fx.Truncate:
    return fx.Truncate(_TOKEN, offset)


def install_snapshot(id: SnapshotId) -> fx.InstallSnapshot:
    return fx.InstallSnapshot(_TOKEN, id)


def learn(cluster_id: str) -> fx.LearnClusterId:
    return fx.LearnClusterId(_TOKEN, cluster_id)


def observer_store(source: QuorumLog) -> ObserverStore:
    assert isinstance(source.store, ObserverStore)
    return source.store


def reopened(
    root: Path, *, prefix: bool = True, settings: LogSettings = SMALL, cluster_id: str | None = None
) -> QuorumLog:
    store = ObserverStore.open(root, settings, node_id=7, cluster_id=cluster_id)
    try:
        return QuorumLog(store, snapshot_prefix=prefix)
    except LogError:
        store.close()
        raise


def on(root: Path, disk: FaultyDisk) -> QuorumLog:
    """A log on a disk that fails."""
    opened = QuorumLog(
        ObserverStore(LocalLog.open(root, SMALL, disk=disk), node_id=7), snapshot_prefix=True
    )
    opened.caught_up = True
    return opened


def perform(source: QuorumLog, effects: Sequence[Any]) -> str | None:
    """One after the other; why the log refused what came, if it did. Nothing behind a refused
    effect is done.
    """
    for effect in effects:
        if isinstance(effect, Append):
            effect = fx.Append(_TOKEN, source.store.end_offset, effect.data)
        try:
            outcome = source.perform([effect])
        except (BatchesRefused, SnapshotBusy) as error:
            return str(error)
        if outcome and isinstance(outcome[0], NotInstalled):
            return outcome[0].reason
    return None


def do(source: QuorumLog, *effects: Any) -> str | None:
    """Perform the effects of one response as the driver does; return the error as text."""
    try:
        if not effects:
            source.perform([])
        return perform(source, effects)
    finally:
        source.publish()


def appended(source: QuorumLog, count: int = 2, epoch: int = 1, **kind: Any) -> Append:
    return Append(batch(source.store.end_offset, count, epoch, **kind).data)


def fill(source: QuorumLog, batches: int = 3, epoch: int = 1) -> int:
    """So many batches, all committed; returns the high watermark."""
    for _ in range(batches):
        assert do(source, appended(source, epoch=epoch)) is None
    assert do(source, fx.Advance(source.store.end_offset)) is None
    return source.high_watermark


def install(
    source: QuorumLog, end_offset: int, epoch: int, counts: tuple[int, ...] = (3,)
) -> str | None:
    data, id = snapshot_bytes(epoch, counts), SnapshotId(end_offset, epoch)
    middle = len(data) // 2
    return do(
        source,
        BeginSnapshot(id),
        SnapshotChunk(0, data[:middle], len(data)),
        SnapshotChunk(middle, data[middle:], len(data)),
        install_snapshot(id),
    )


def edge(source: QuorumLog) -> tuple[int, int]:
    return source.log_start_offset, source.high_watermark


def appended_at(offset: int, count: int, epoch: int = 1) -> Append:
    return Append(batch(offset, count, epoch).data)


def damage(path: Path, position: int) -> None:
    """One bit, as a failing disk may change it."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))
