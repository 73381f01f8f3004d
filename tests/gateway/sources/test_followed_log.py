"""A log that another process writes: it is served up to the high watermark that is told."""

from __future__ import annotations

from pathlib import Path

from gateway.ports.services import State
from gateway.sources.followed_log import FollowedLog, LogState
from tests.gateway.sources.metadata_files import batch, topic, write_segment
from tests.gateway.sources.reading import joined


def opened(directory: Path) -> FollowedLog:
    return FollowedLog(str(directory), snapshot_prefix=True, cluster_id="c", log_dir=str(directory))


def told(log: FollowedLog, high_watermark: int, epoch: int = 1) -> None:
    """Scan and publish, as a worker does for each state of the node."""
    facts = LogState(high_watermark, epoch, State.READY)
    log.scan()
    log.publish(facts)


def test_nothing_is_served_before_the_first_state(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, topic(1)))
    log = opened(tmp_path)
    assert (log.state, log.high_watermark) == (State.LOADING, 0)


def test_records_above_the_high_watermark_are_not_served(tmp_path: Path) -> None:
    batches = [batch(0, topic(1)), batch(1, topic(2)), batch(2, topic(3))]
    write_segment(tmp_path, 0, *batches)
    log = opened(tmp_path)
    told(log, 2)
    assert (log.state, log.high_watermark, log.committed) == (State.READY, 2, 2)
    assert joined(log.read(0, 10_000)) == b"".join(batches[:2])
    told(log, 3)
    assert joined(log.read(0, 10_000)) == b"".join(batches)


def test_records_that_an_election_replaced_are_never_served(tmp_path: Path) -> None:
    committed, lost = batch(0, topic(1)), batch(1, topic(2))
    path = write_segment(tmp_path, 0, committed, lost)
    log = opened(tmp_path)
    told(log, 1)
    kept = batch(1, topic(3), epoch=2)  # as long as the lost one: only its bytes differ
    assert len(kept) == len(lost)
    path.write_bytes(committed + kept)
    told(log, 2, epoch=2)
    assert joined(log.read(1, 10_000)) == kept
    assert log.leader_epoch == 2


def test_callbacks_hear_of_an_advance_and_of_another_epoch(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, batch(0, topic(1)))
    log, heard = opened(tmp_path), []
    log.on_advance(lambda: heard.append((log.high_watermark, log.leader_epoch)))
    told(log, 1)
    told(log, 1)
    told(log, 1, epoch=2)
    path.write_bytes(path.read_bytes() + batch(1, topic(2), epoch=2))
    told(log, 2, epoch=2)
    assert heard == [(1, 1), (1, 2), (2, 2)]


def test_epoch_without_records_ends_at_the_end_of_the_log(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2)))
    log = opened(tmp_path)
    told(log, 2, epoch=5)
    assert log.end_offset_for_epoch(5) == (1, 2)
    assert log.end_offset_for_epoch(1) == (1, 2)


def test_files_that_cannot_be_read_are_a_problem(tmp_path: Path) -> None:
    log = opened(tmp_path / "gone")
    told(log, 2)
    assert log.state is State.BROKEN
    assert "gone" in str(log.problems[0])
    assert log.high_watermark == 0
