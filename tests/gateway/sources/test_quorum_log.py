"""The log of an observer as a partition: effects in, records out. Records that were served once
stay, after any response and any restart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crc32c
import pytest

from gateway.log.files.errors import BelowHighWatermark, LogError
from gateway.log.metadata.stored_facts import Election
from gateway.ports.services import OffsetOutOfRange, State
from gateway.quorum.effects import Advance, LogRange
from gateway.sources import quorum_log
from gateway.sources.log_reader import content
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.quorum_log import QuorumLog
from kwire.metadata_log.open_file import OpenFile
from kwire.uuid import Uuid
from tests.gateway.log.kafka_files import batch
from tests.gateway.sources.observing import (
    CLUSTER,
    Append,
    appended,
    appended_at,
    damage,
    do,
    edge,
    fill,
    learn,
    observer_store,
    perform,
    persisted,
    reopened,
    truncate,
)
from tests.gateway.sources.reading import batches_from, joined


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def source(root: Path) -> Iterator[QuorumLog]:
    """One that has been where the leader was."""
    opened = reopened(root)
    opened.caught_up = True
    yield opened
    opened.close()


# --- what is shown
# -------------------------------------------------------------------------------------------------


def test_records_are_served_once_committed_byte_for_byte(source: QuorumLog) -> None:
    first, second = batch(0, 3, 1), batch(3, 1, 1)
    assert do(source, Append(first.data + second.data)) is None
    assert edge(source) == (0, 0)
    assert do(source, Advance(3)) is None
    assert edge(source) == (0, 3)
    assert batches_from(source, 0) == [(0, 3, first.data)]
    assert do(source, Advance(4)) is None
    assert batches_from(source, 0) == [(0, 3, first.data), (3, 4, second.data)]


def test_the_answer_that_brings_a_record_may_also_commit_it(source: QuorumLog) -> None:
    assert do(source, appended(source), Advance(2)) is None
    assert edge(source) == (0, 2)


def test_a_high_watermark_inside_a_batch_shows_what_ends_before_it(source: QuorumLog) -> None:
    do(source, appended(source, 2), appended_at(2, 3), Advance(4))
    assert edge(source) == (0, 2)
    do(source, Advance(5))
    assert edge(source) == (0, 5)


def test_high_watermark_beyond_the_log_is_refused(source: QuorumLog) -> None:
    """The core never gives one: a leader's high watermark counts as far as the log is durable
    here.
    """
    do(source, appended(source))
    with pytest.raises(ValueError, match="beyond the end of the log"):
        do(source, Advance(1000))
    assert (source.committed, source.high_watermark) == (0, 0)


def test_a_lower_high_watermark_changes_nothing(source: QuorumLog) -> None:
    fill(source)
    do(source, Advance(1))
    assert (source.committed, source.high_watermark) == (6, 6)


def test_waiters_are_notified_of_new_records_and_of_nothing_else(source: QuorumLog) -> None:
    told: list[int] = []
    unsubscribe = source.on_advance(lambda: told.append(source.high_watermark))
    do(source, appended(source))
    assert told == []
    do(source, Advance(2))
    assert told == [2]
    do(source, Advance(2))
    assert told == [2]
    do(source, persisted(1, 3))
    assert told == [2, 2], "a new epoch is something new"
    source.publish()
    assert told == [2, 2]
    unsubscribe()
    do(source, appended(source), Advance(4))
    assert told == [2, 2]


def test_truncation_removes_only_records_that_were_never_served(source: QuorumLog) -> None:
    kept = fill(source, 2)
    do(source, appended(source, 5), appended_at(9, 1))
    lost = source.store.end_offset
    assert do(source, truncate(kept)) is None
    assert (source.store.end_offset, source.high_watermark) == (kept, kept)
    other = [batch(kept, 1, 2), batch(kept + 1, lost - kept - 1, 2)]
    do(source, persisted(2, 2), Append(other[0].data), Append(other[1].data), Advance(lost))
    assert batches_from(source, kept) == [(one.offset, one.next_offset, one.data) for one in other]
    assert source.end_offset_for_epoch(1) == (1, kept)


def test_truncation_below_the_high_watermark_is_refused_and_changes_nothing(
    source: QuorumLog,
) -> None:
    fill(source, 2)
    before = batches_from(source, 0)
    with pytest.raises(BelowHighWatermark, match="committed"):
        do(source, truncate(2))
    source.publish()
    assert batches_from(source, 0) == before


# --- refused
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda end: batch(end + 1, 2, 1).data, f"offset {5}"),
        (lambda end: batch(end - 1, 2, 1).data, "offset"),
        (lambda end: batch(end, 2, 0).data, "epoch"),
    ],
)
def test_batches_that_are_refused_leave_everything_as_it_was(
    source: QuorumLog, data: Any, reason: str
) -> None:
    fill(source, 2)
    do(source, persisted(3, 1))
    before = (
        batches_from(source, 0),
        edge(source),
        source.store.end_offset,
        observer_store(source).last_epoch,
    )
    refused = do(source, Append(data(4)), Advance(6))
    assert refused is not None and reason in refused
    assert (
        batches_from(source, 0),
        edge(source),
        source.store.end_offset,
        observer_store(source).last_epoch,
    ) == before
    assert do(source, Append(batch(4, 1, 2).data), Advance(5)) is None
    assert edge(source) == (0, 5)


def test_effects_before_a_refused_one_are_performed_and_served(source: QuorumLog) -> None:
    assert (
        do(source, appended(source), Advance(2), Append(batch(9, 1, 1).data), Advance(3))
        is not None
    )
    assert edge(source) == (0, 2)


# --- work
# -------------------------------------------------------------------------------------------------


def test_what_is_written_is_neither_read_back_nor_listed_nor_checked_again(
    source: QuorumLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 1)
    batches = [batch(2, 2, 1), batch(4, 1, 1)]
    work: list[str] = []
    monkeypatch.setattr(quorum_log, "_CHECK_INTERVAL_NS", 1 << 62)
    do(source)
    for owner, name in ((OpenFile, "read"), (OpenFile, "status"), (crc32c, "crc32c")):
        monkeypatch.setattr(owner, name, lambda *_, name=name: work.append(name))
    monkeypatch.setattr(os, "scandir", lambda *_: work.append("scandir"))
    assert perform(source, [Append(one.data) for one in batches]) is None
    assert work == []
    monkeypatch.undo()
    assert content(source.read_range(LogRange(2, 5, 1000)).chunks) == b"".join(
        one.data for one in batches
    )
    assert do(source, Advance(5)) is None
    assert edge(source) == (0, 5)


def test_appended_batches_that_begin_a_segment_are_found_there(source: QuorumLog) -> None:
    fill(source, 1)
    while len(list(source.store.directory.glob("*.log"))) == 1:
        assert do(source, appended(source, 4)) is None
    assert do(source, appended(source), Advance(source.store.end_offset + 2)) is None
    assert edge(source) == (0, source.store.end_offset)


# --- restarts
# -------------------------------------------------------------------------------------------------


def test_a_restart_shows_the_same(root: Path, source: QuorumLog) -> None:
    fill(source, 5)
    do(source, persisted(4, 2), appended(source, 3, epoch=4))
    before = batches_from(source, 0), edge(source), source.leader_epoch
    source.close()
    again = reopened(root)
    assert (batches_from(again, 0), edge(again), again.leader_epoch) == before
    assert (again.state, observer_store(again).election.leader_id) == (State.STALE, 2)
    assert again.store.end_offset == 13, "what is not committed yet need not be fetched again"
    again.close()


def test_the_leader_epoch_never_goes_back_not_even_without_its_file(
    root: Path, source: QuorumLog
) -> None:
    fill(source, 2, epoch=3)
    do(source, persisted(5, 1))
    assert source.leader_epoch == 5
    source.close()
    again = reopened(root)
    assert (again.leader_epoch, observer_store(again).election) == (5, Election(5, 1))
    again.close()
    (root / "__cluster_metadata-0" / "quorum-state").unlink()
    lost = reopened(root)
    assert (lost.leader_epoch, observer_store(lost).election) == (3, Election(3))
    lost.close()


def test_an_epoch_that_has_committed_nothing_yet_ends_where_the_log_does(source: QuorumLog) -> None:
    fill(source, 2, epoch=3)
    do(source, persisted(5, 1))
    assert source.end_offset_for_epoch(3) == (3, 4)
    assert source.end_offset_for_epoch(5) == (3, 4)
    assert source.end_offset_for_epoch(6) == (-1, -1)


# --- files that another program changes
# -------------------------------------------------------------------------------------------------


@pytest.fixture
def always_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is followed by a look at the files, and not only one in a second."""
    monkeypatch.setattr(quorum_log, "_CHECK_INTERVAL_NS", 0)


def test_damage_of_the_last_committed_batch_keeps_the_server_from_starting(
    root: Path, source: QuorumLog
) -> None:
    fill(source, 20)
    source.close()
    last = sorted((root / "__cluster_metadata-0").glob("*.log"))[-1]
    in_last_batch = last.stat().st_size - 5
    damage(last, in_last_batch)
    with pytest.raises(LogError, match=r"\.log at byte \d+: .*wrong CRC.*restore it from a copy"):
        reopened(root)
    damage(last, in_last_batch)
    again = reopened(root)
    assert edge(again) == (0, 40)
    again.close()


def test_damage_of_a_record_in_an_older_segment_is_told_by_the_image(
    root: Path, source: QuorumLog
) -> None:
    """The start does not read it; the loader of the image does."""
    fill(source, 20)
    source.close()
    first = sorted((root / "__cluster_metadata-0").glob("*.log"))[0]
    damage(first, 90)
    again = reopened(root)
    loader = MetadataLoader(again.store.directory)
    while loader.decode_step(again.committed):
        loader.apply_step()
    assert loader.problem is not None
    assert str(loader.problem).startswith(f"{first} at byte 0: ")
    assert "CRC" in str(loader.problem)
    again.close()


def test_batch_that_a_reader_does_not_find_breaks_the_log_until_it_is_back(
    source: QuorumLog,
) -> None:
    fill(source, 20)
    source.leader_alive = True
    second = sorted(source.store.directory.glob("*.log"))[1]
    data = second.read_bytes()
    second.write_bytes(b"\0" * len(data))
    offset = int(second.stem)
    assert joined(source.read(0, 1 << 20)) != b"", "what is before it is served"
    assert joined(source.read(offset, 1 << 20)) == b""
    assert (source.state, source.high_watermark) == (State.BROKEN, 40)
    assert str(source.problems[0]) == (
        f"{second} at byte 0: the batch that holds offset {offset} is not there any more"
    )
    do(source, appended(source), Advance(42))
    assert (source.state, source.high_watermark) == (State.BROKEN, 40)
    second.write_bytes(data)
    assert joined(source.read(offset, 1 << 20)) != b""
    do(source)
    assert (source.state, source.problems, source.high_watermark) == (State.READY, (), 42)


@pytest.mark.usefixtures("always_checked")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.unlink(), "was removed or replaced while the server runs"),
        (lambda path: os.replace(path.with_name("other"), path), "was removed or replaced"),
        (lambda path: os.truncate(path, 70), "at byte 70: has 70 bytes, and "),
    ],
)
def test_file_that_is_taken_from_a_running_server_is_named(
    source: QuorumLog, change: Callable[[Path], None], reason: str
) -> None:
    fill(source, 20)
    source.leader_alive = True
    first = sorted(source.store.directory.glob("*.log"))[0]
    (source.store.directory / "other").write_bytes(first.read_bytes())
    before = edge(source)
    do(source)
    assert (source.state, source.problems) == (State.READY, ())
    change(first)
    do(source, appended(source), Advance(42))
    assert (source.state, edge(source)) == (State.BROKEN, before)
    assert str(source.problems[0]).startswith(str(first)) and reason in str(source.problems[0])


@pytest.mark.usefixtures("always_checked")
def test_damage_under_a_running_server_takes_nothing_back(source: QuorumLog) -> None:
    fill(source, 3)
    source.leader_alive = True
    assert (source.state, source.problems) == (State.READY, ())
    damage(source.store.directory / "00000000000000000000.log", len(batch(0, 2).data) * 2 + 18)
    do(source)
    assert (source.state, source.high_watermark) == (State.BROKEN, 6)
    assert [str(problem) for problem in source.problems if "wrong CRC" in str(problem)] == [
        str(source.problems[0])
    ]


@pytest.mark.usefixtures("always_checked")
def test_damage_in_what_is_not_committed_is_nothing_that_clients_see(source: QuorumLog) -> None:
    fill(source, 2)
    source.leader_alive = True
    do(source, appended(source))
    damage(source.store.directory / "00000000000000000000.log", len(batch(0, 2).data) * 2 + 18)
    do(source)
    assert (source.state, source.high_watermark) == (State.READY, 4)


# --- the state
# -------------------------------------------------------------------------------------------------


def test_loading_until_the_end_is_known_then_ready_while_the_leader_answers(
    source: QuorumLog,
) -> None:
    source.caught_up = False
    assert source.state is State.LOADING
    with pytest.raises(OffsetOutOfRange):
        source.read(0, 1000)
    do(source, appended(source), Advance(2))
    assert source.state is State.LOADING, "the leader may have committed more"
    source.leader_alive = source.caught_up = True
    assert source.state.value == "ready"
    assert joined(source.read(0, 1000)) != b""
    source.leader_alive = False
    assert source.state.value == "stale"
    assert joined(source.read(0, 1000)) != b""


def test_an_empty_quorum_can_be_ready_too(source: QuorumLog) -> None:
    source.leader_alive = source.caught_up = True
    assert (source.state, edge(source)) == (State.READY, (0, 0))
    assert joined(source.read(0, 1000)) == b""


# --- whose it is
# -------------------------------------------------------------------------------------------------


def test_cluster_and_directory_ids_are_kept(root: Path, source: QuorumLog) -> None:
    assert source.cluster_id == ""
    assert do(source, learn(CLUSTER)) is None
    assert source.cluster_id == CLUSTER
    directory_id = source.store.directory_id
    source.close()
    again = reopened(root, cluster_id=CLUSTER)
    assert (again.cluster_id, again.store.directory_id) == (CLUSTER, directory_id)
    again.close()
    with pytest.raises(LogError, match=f"holds the log of cluster {CLUSTER}, not of {'x' * 22}"):
        reopened(root, cluster_id="x" * 22)
    reopened(root).close()


def test_a_cluster_id_that_is_given_is_the_logs_own_from_the_start(root: Path) -> None:
    given = reopened(root, cluster_id=CLUSTER)
    assert (given.cluster_id, given.store.cluster_id) == (CLUSTER, CLUSTER)
    assert given.store.directory_id not in (Uuid(bytes(16)), None)
    given.close()


def test_a_directory_in_use_is_refused(root: Path, source: QuorumLog) -> None:
    with pytest.raises(LogError, match="in use by this process"):
        reopened(root)
