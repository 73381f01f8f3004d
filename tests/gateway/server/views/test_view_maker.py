"""View topics over log directories: what readers get, when the log grows, begins anew or is
truncated, and when they move between servers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.ports.services import OffsetOutOfRange, State
from gateway.ports.view_topics import CHANGES, VIEWS
from gateway.server.scheduling.counts import ViewCounts
from gateway.server.views import view_maker
from gateway.views import cursor
from kwire.cluster import Image
from kwire.cluster import view_offsets as offsets
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.records import Record
from kwire.uuid import Uuid
from tests.gateway.server.harness import run
from tests.gateway.server.views.view_reader import ViewReader, reading
from tests.gateway.sources.metadata_files import batch, topic, write_segment, write_snapshot
from tests.gateway.views.view_reading import (
    Table,
    is_marker,
    opened,
    state,
    take,
    view_records,
)
from tests.shared import needs_shared
from tests.waiting import until_async


def names(records: Sequence[Record]) -> list[str]:
    """``+t1`` for a topic, ``-t1`` for its tombstone, ``=`` where a snapshot is complete."""
    return [
        "=" if is_marker(one) else "-+"[one.value is not None] + json.loads(one.key or b"")["name"]
        for one in records
    ]


def removed(number: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=Uuid(number.to_bytes(16, "big")))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    return path


def grown(log: Any) -> None:
    """Scan what was appended."""
    log.refresh()
    while log.refresh_delay_s == 0:
        log.refresh()


def test_reader_gets_records_and_then_the_end(directory: Path) -> None:
    write_segment(directory, 0, batch(0, topic(1)), batch(1, NoOpRecord(), topic(2), removed(1)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            records, position = await reader.fetch("topics", 0)
            assert [one.offset for one in records] == [offsets.at(at) for at in (0, 2, 3)]
            assert names(records) == ["+t1", "+t2", "-t1"]
            assert await reader.fetch("topics", position) == ([], offsets.at(4)), "a control batch"
            assert await reader.fetch("acls", 0) == ([], offsets.at(4))
            assert [one.has_caught_up for one in reader.maker.cursors] == [True]
            partition = reader.partition("topics")
            assert partition.read(offsets.at(4), 100).size == 0
            assert partition.bytes_available(position, 100) == 0, "nothing to wake a Fetch for"
            assert partition.bytes_available(0, 1 << 20) > 0
            for offset in (-1, offsets.at(4) + 1):
                with pytest.raises(OffsetOutOfRange):
                    partition.read(offset, 100)

    run(main)


def test_nothing_is_made_before_a_client_reads(directory: Path) -> None:
    write_segment(directory, 0, batch(0, topic(1)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            await trio.testing.wait_all_tasks_blocked()
            assert reader.partition("topics").high_watermark == offsets.at(1)
            assert reader.made == 0
            await reader.fetch("topics", 0)
            assert reader.made == 1

    run(main)


def test_reads_count_as_hits_and_misses(directory: Path) -> None:
    write_segment(directory, 0, batch(0, topic(1)), batch(1, topic(2)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            counts = reader.maker.counts
            assert counts == ViewCounts()
            partition = reader.partition("topics")
            for _ in range(3):  # a Fetch that waits is tried several times
                assert partition.bytes_available(0, 1) == partition.read(0, 1000).size == 0
            await reader.read("topics")
            assert (counts.hits, counts.misses, counts.entries) == (0, 1, 1)
            assert counts.size > 100
            await reader.read("topics")
            await reader.read("topics")
            assert (counts.hits, counts.misses) == (2, 1)
            await reader.read("acls")
            assert (counts.hits, counts.misses) == (2, 1), "it has no record"

    run(main)


def test_positions_of_readers_that_left_are_forgotten(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_maker, "_MISSED_MAX", 5)
    write_segment(directory, 0, *(batch(at, topic(at)) for at in range(20)))

    async def main() -> None:
        reader = ViewReader(opened(directory))  # nothing is made
        for at in range(20):
            reader.partition("topics").read(offsets.at(at), 1000)
        assert reader.maker.counts.misses == 20
        assert len(reader.maker._missed) <= 5

    run(main)


def test_reader_follows_what_is_appended(directory: Path) -> None:
    write_segment(directory, 0, batch(0, topic(1)))
    log = opened(directory)

    async def main() -> None:
        async with reading(log) as reader:
            _, position = await reader.fetch("topics", 0)
            for number in range(2, 6):
                write_segment(directory, 0, *(batch(at, topic(at + 1)) for at in range(number)))
                grown(log)
                assert names(await reader.read("topics", position)) == [f"+t{number}"]
                position = reader.partition("topics").high_watermark
            assert names(await reader.read("topics")) == [f"+t{n}" for n in range(1, 6)]

    run(main)


def test_transaction_appears_at_the_record_that_ends_it(directory: Path) -> None:
    first = [batch(0, topic(1)), batch(1, BeginTransactionRecord(), topic(2), removed(1))]
    write_segment(directory, 0, *first)
    log = opened(directory)

    async def main() -> None:
        async with reading(log) as reader:
            assert names(await reader.read("topics")) == ["+t1"]
            write_segment(directory, 0, *first, batch(4, EndTransactionRecord()))
            grown(log)
            records = await reader.read("topics", offsets.at(4))
            assert [one.offset for one in records] == [offsets.at(4), offsets.at(4) + 1]
            assert names(records) == ["+t2", "-t1"]
            (created, _) = await reader.read(CHANGES, offsets.at(4))
            source = json.loads(created.value or b"")["source"]
            assert (source["offset"], source["transaction_end"]) == (2, 4)

    run(main)


def snapshot_of(directory: Path, end_offset: int, *numbers: int) -> None:
    version = FeatureLevelRecord(name="metadata.version", feature_level=25)
    write_snapshot(directory, end_offset, 1, version, *map(topic, numbers))


def test_state_of_a_snapshot_is_in_the_second_half_below_its_end(directory: Path) -> None:
    snapshot_of(directory, 20, 2, 1)
    write_segment(directory, 20, batch(20, topic(3)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            start = reader.partition("topics").log_start_offset
            assert start == offsets.at(19) + offsets.CHANGES_MAX
            records = await reader.read("topics")
            assert [one.offset - start for one in records[:2]] == [1, 2], "0 is the feature"
            assert names(records) == ["+t1", "+t2", "=", "+t3"]
            assert [one.offset for one in records[2:]] == [offsets.at(20) - 1, offsets.at(20)]
            assert {one.timestamp for one in records[:3]} == {900}
            assert [one.offset for one in await reader.read("acls")] == [offsets.at(20) - 1]
            values = [json.loads(one.value or b"") for one in await reader.read(CHANGES)]
            assert [one["op"] for one in values] == ["r", "r", "r", "r", "c"]
            assert [one["kind"] for one in values[2:]] == ["topic", "snapshot", "topic"]
            assert values[0]["source"]["offset"] == 19
            assert values[0]["source"]["record_type"] is None

    run(main)


def test_truncated_and_rewritten_log_shows_the_records_as_they_are_now(directory: Path) -> None:
    first = [batch(0, topic(1)), batch(1, topic(2))]
    write_segment(directory, 0, *first, batch(2, topic(3)), batch(3, topic(4)))
    log = opened(directory)

    async def main() -> None:
        async with reading(log) as reader:
            assert names(await reader.read("topics")) == ["+t1", "+t2", "+t3", "+t4"]
            write_segment(
                directory, 0, *first, batch(2, topic(5), epoch=2), batch(3, topic(6), epoch=2)
            )
            grown(log)
            assert names(await reader.read("topics")) == ["+t1", "+t2", "+t5", "+t6"]

    run(main)


def test_log_that_leads_to_no_state_has_no_views(directory: Path) -> None:
    write_segment(directory, 20, batch(20, topic(3)))
    assert not ViewReader(opened(directory)).topics.available


def test_small_cache_gives_the_same_records(directory: Path) -> None:
    write_segment(directory, 0, *(batch(at, topic(at), removed(at)) for at in range(0, 9000, 2)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            expected = await reader.read("topics")
        async with reading(opened(directory), cache_bytes=1) as reader:
            assert await reader.read("topics") == expected
            for at in (8000, 100, 5000):
                found = await reader.read("topics", offsets.at(at))
                assert found == [one for one in expected if one.offset >= offsets.at(at)]

    run(main)


def test_readers_far_apart_all_get_their_records(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are more than there are cursors, and no batch is kept for another reader."""
    monkeypatch.setattr(cursor, "PIECE_CHANGES", 50)
    write_segment(directory, 0, *(batch(at, topic(at)) for at in range(2000)))

    async def main() -> None:
        async with reading(opened(directory), cache_bytes=1) as reader:
            found: dict[int, list[str]] = {}

            async def read(first: int) -> None:
                records = await reader.read("topics", offsets.at(first), offsets.at(first + 100))
                found[first] = names(records)

            async with trio.open_nursery() as nursery:
                for first in range(0, 2000, 200):
                    nursery.start_soon(read, first)
            for first in range(0, 2000, 200):
                assert found[first] == [f"+t{at}" for at in range(first, first + 100)]

    run(main)


def test_memory_is_released_without_readers(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_maker, "IDLE_S", 0.01)
    write_segment(directory, 0, batch(0, topic(1)))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            await reader.read("topics")
            await until_async(lambda: not reader.maker.cursors)
            assert names(await reader.read("topics")) == ["+t1"], "and made again"

    run(main)


def test_record_with_too_many_changes_ends_the_views(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "CHANGES_MAX", 2)
    several = [BeginTransactionRecord(), topic(2), topic(3), topic(4), EndTransactionRecord()]
    write_segment(directory, 0, batch(0, topic(1)), batch(1, *several))

    async def main() -> None:
        async with reading(opened(directory)) as reader:
            partition = reader.partition("topics")
            partition.bytes_available(0, 1)
            await until_async(lambda: partition.state is State.BROKEN)

    run(main)


@needs_shared
def test_consumer_that_moves_between_servers_sees_each_record_once(logs: Any) -> None:
    """One server has the log from offset 0, another one from a snapshot on."""
    nodes = logs("p-quorum") / "nodes"
    one, other = (opened(nodes / node / "__cluster_metadata-0") for node in ("1", "4"))
    assert one.snapshot_end == 0 < other.snapshot_end
    chance = random.Random(17)

    async def main() -> None:
        async with reading(one) as first, reading(other) as second:
            end = min(one.high_watermark, other.high_watermark)
            for view in VIEWS:
                expected = await first.read(view, end=offsets.at(end))
                found: list[Record] = []
                # A position that the server from the snapshot has, too.
                position = offsets.at(other.snapshot_end)
                while position < offsets.at(end):
                    reader = chance.choice((first, second))
                    records, position = await reader.fetch(view, position, chance.choice((1, 5000)))
                    found += records
                found = [record for record in found if record.offset < offsets.at(end)]
                assert found == [
                    record for record in expected if record.offset >= offsets.at(other.snapshot_end)
                ]

    run(main)


@needs_shared
@pytest.mark.parametrize("name", ["p-one-basic", "p-quorum-short"])
def test_reading_through_the_cache_gives_the_records_of_the_fold(logs: Any, name: str) -> None:
    directory = sorted((logs(name) / "nodes").glob("*/__cluster_metadata-0"))[-1]

    async def main() -> None:
        log = opened(directory)
        async with reading(log) as reader:
            tables: dict[str, Table] = {}
            for view in VIEWS:
                records = await reader.read(view)
                assert [(one.offset, one.key) for one in records] == [
                    (one.offset, one.key) for one in view_records(opened(directory), view)
                ]
                if view != CHANGES:
                    for record in records:
                        take(tables.setdefault(view, {}), record)
            image = reader.maker.cursors[-1].image
            assert isinstance(image, Image)
            assert {view: tables.get(view, {}) for view in state(image)} == state(image)

    run(main)
