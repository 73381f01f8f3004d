"""Look-ups in a view: timestamps, epochs and ends are those of the metadata log, at the offsets of
the view.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.config import Config
from gateway.ports.services import OffsetAt, OffsetOutOfRange, State
from gateway.ports.view_topics import view_topic
from gateway.server.logging.logs import Reports
from gateway.server.views.view_partition import ViewPartition, view_topics_of
from gateway.sources import open_log
from kwire.cluster import view_offsets as offsets
from kwire.messages.feature_level_record import FeatureLevelRecord
from tests.gateway.server.harness import run
from tests.gateway.server.views.view_reader import ViewReader, reading
from tests.gateway.sources.metadata_files import batch, topic, write_segment, write_snapshot
from tests.gateway.views.view_reading import opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    write_segment(
        path,
        20,
        batch(20, topic(3), topic(4), timestamp=2000, epoch=2),
        batch(22, topic(5), timestamp=3000, epoch=4),
    )
    version = FeatureLevelRecord(name="metadata.version", feature_level=25)
    write_snapshot(path, 20, 1, version, topic(1))
    return path


@pytest.fixture
def partition(directory: Path) -> Iterator[ViewPartition]:
    yield ViewReader(opened(directory)).partition("topics")


def test_timestamps_are_found_at_the_records_of_the_log(partition: ViewPartition) -> None:
    assert partition.offset_for_timestamp(2001) == OffsetAt(offsets.at(22), 3000, 4)
    assert partition.offset_for_timestamp(3001) is None
    assert partition.max_timestamp() == OffsetAt(offsets.at(22), 3000, 4)


def test_timestamp_of_the_snapshot_is_at_the_start(partition: ViewPartition) -> None:
    found = partition.offset_for_timestamp(0)
    assert found is not None and found.offset == partition.log_start_offset


def test_epochs_are_those_of_the_log(partition: ViewPartition) -> None:
    assert partition.leader_epoch == 4
    assert partition.end_offset_for_epoch(2) == (2, offsets.at(22))
    assert partition.end_offset_for_epoch(4) == (4, offsets.at(23))
    assert partition.epoch_at(offsets.at(21) + 5) == 2
    assert partition.epoch_at(partition.log_start_offset) == 1
    outside = (partition.log_start_offset - 1, partition.high_watermark)
    assert [partition.epoch_at(offset) for offset in outside] == [-1, -1]


def test_epoch_that_the_log_does_not_know_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    write_segment(path, 0)
    empty = ViewReader(opened(path)).partition("topics")
    assert empty.end_offset_for_epoch(3) == (-1, -1)
    assert (empty.log_start_offset, empty.high_watermark, empty.max_timestamp()) == (0, 0, None)


def test_position_within_the_snapshot_of_another_log_is_out_of_range(directory: Path) -> None:
    """A reader that moved half way would keep half of the snapshot, and read on behind it."""

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            for end in (21, 22):
                with pytest.raises(OffsetOutOfRange, match="the log does not begin with"):
                    await reader.read("topics", offsets.of_snapshot(end) + 1)
            assert len(await reader.read("topics", offsets.of_snapshot(20) + 2)) == 4
            # As many changes as a record can make end there.
            assert len(await reader.read("topics", offsets.of_snapshot(21))) == 2
            assert len(await reader.read("topics", offsets.of_complete(21) + 1)) == 2

    run(main)


def test_view_of_a_log_that_loads_is_loading(directory: Path) -> None:
    log = open_log(directory)
    partition = ViewReader(log).partition("topics")
    assert partition.state is State.LOADING
    with pytest.raises(OffsetOutOfRange):
        partition.read(0, 100)


def test_facts_are_those_of_the_log(directory: Path) -> None:
    log = opened(directory)
    partition = ViewReader(log).partition("topics")
    assert (partition.cluster_id, partition.log_dir) == (log.cluster_id, log.log_dir)
    called: list[int] = []
    partition.on_advance(lambda: called.append(1))
    write_segment(
        directory,
        20,
        batch(20, topic(3), topic(4), timestamp=2000, epoch=2),
        batch(22, topic(5), timestamp=3000, epoch=4),
        batch(23, topic(6), epoch=4),
    )
    log.refresh()
    assert called == [1]


def test_views_can_be_disabled(directory: Path) -> None:
    log = opened(directory)
    config = Config(source="sample", metadata_views_enable=False)
    assert view_topics_of(config, log, Reports()) is None
    topics = view_topics_of(Config(source="sample"), log, Reports())
    assert topics is not None and topics.available
    assert topics.partition(view_topic("acls")).high_watermark == offsets.at(23)


def test_failure_is_reported_and_reading_goes_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.server.views import view_maker

    monkeypatch.setattr(view_maker, "_FAILED_DELAY_S", 0.001)
    step, failures = view_maker.ViewMaker._step, [ValueError("a bug")]

    def failing(*arguments: object) -> object:
        if failures:
            raise failures.pop()
        return step(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(view_maker.ViewMaker, "_step", failing)

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            assert len(await reader.read("topics")) == 5
            assert reader.reports.counts["view not made"] == 1

    run(main)
