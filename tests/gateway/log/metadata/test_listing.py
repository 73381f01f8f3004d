"""Where a log starts, for every way a directory can look; and that the start agrees with what Kafka
noted itself.
"""

from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.metadata.listing import (
    Listing,
    LogStart,
    list_directory,
    log_start,
    superseding_snapshot,
)
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.shared import LOG_NAMES, needs_shared

S100, S200 = SnapshotId(100, 1), SnapshotId(200, 2)


def segments(*bases: int) -> tuple[tuple[int, int], ...]:
    return tuple((base, 1) for base in bases)


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (Listing(), LogStart(0)),
        (Listing(segments(0)), LogStart(0)),
        (
            Listing(segments(0, 150), (S100, S200)),
            LogStart(0),
        ),  # nothing was deleted: the history is all there
        (Listing(segments(50, 150), (S100, S200)), LogStart(100, S100)),
        (Listing(segments(100), (S100, S200)), LogStart(100, S100)),
        (
            Listing(segments(150), (S100, S200)),
            LogStart(200, S200),
        ),  # 100 to 149 are gone: S100 leads nowhere
        (Listing(segments(250), (S100, S200)), LogStart(250)),
        (Listing(segments(50)), LogStart(50)),
        (Listing((), (S100, S200)), LogStart(200, S200)),
    ],
)
def test_log_start(listing: Listing, expected: LogStart) -> None:
    assert log_start(listing) == expected


@pytest.mark.parametrize(
    ("epoch", "end", "expected"),
    [(2, 250, None), (2, 200, None), (2, 199, S200), (1, 300, S200), (3, 100, None), (-1, 0, S200)],
)
def test_a_snapshot_beyond_the_log_supersedes_it(
    epoch: int, end: int, expected: SnapshotId | None
) -> None:
    assert superseding_snapshot(Listing(segments(0), (S100, S200)), epoch, end) == expected


def test_the_listing_holds_segments_and_snapshots_only(tmp_path: Path) -> None:
    names = [
        "00000000000000000000-0000000000.checkpoint",
        "00000000000000000100-0000000001.checkpoint",
        "00000000000000000200-0000000002.checkpoint.part",
        "00000000000000000050.log",
        "00000000000000000050.index",
        "00000000000000000000.log.deleted",
        "00000000000000000150.log",
        "quorum-state",
    ]
    for name in names:
        (tmp_path / name).touch()
    listing = list_directory(str(tmp_path))
    assert [base for base, _ in listing.segments] == [50, 150]
    assert listing.snapshots == (S100,)
    assert listing.segments[0][1] == (tmp_path / "00000000000000000050.log").stat().st_ino


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_kafka_notes_the_same_log_start(logs: Any, name: str) -> None:
    """Kafka clips leader-epoch-checkpoint at the log start, so its first line says where that
    was.
    """
    checked = 0
    for path in sorted(logs(name).glob("**/__cluster_metadata-0")):
        start = log_start(list_directory(str(path)))
        epochs = read_leader_epochs(path / "leader-epoch-checkpoint")
        assert epochs[0][1] == start.offset, path
        checked += 1
    assert checked
