"""View topics over a log that begins at a later snapshot from one moment to the next, before a read
and while batches are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.ports.services import OffsetOutOfRange
from gateway.server.views import view_maker
from gateway.sources import LogDirectory
from kwire.cluster import view_offsets as offsets
from kwire.messages.no_op_record import NoOpRecord
from tests.gateway.server.harness import run
from tests.gateway.server.views.test_view_maker import grown, names, removed, snapshot_of
from tests.gateway.server.views.view_reader import reading
from tests.gateway.sources.metadata_files import batch, topic, write_segment
from tests.gateway.views.view_reading import opened
from tests.waiting import until_async


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "__cluster_metadata-0"
    path.mkdir()
    return path


def test_log_start_that_jumps_puts_readers_below_it_out_of_range(directory: Path) -> None:
    """A snapshot with its header and footer takes some offsets below its end."""
    idle = [batch(at, NoOpRecord()) for at in range(20, 30)]
    write_segment(directory, 0, *(batch(at, topic(at)) for at in range(20)), *idle)
    log = opened(directory)

    async def main() -> None:
        async with reading(log) as reader:
            before = await reader.read("topics")
            assert len(before) == 20
            snapshot_of(directory, 30, *range(20))
            (directory / "00000000000000000000.log").unlink()
            write_segment(directory, 30, batch(30, topic(30)), batch(31, removed(3)))
            grown(log)
            with pytest.raises(OffsetOutOfRange):
                await reader.fetch("topics", before[5].offset)
            after = await reader.read("topics")
            assert names(after) == [*sorted(names(before)), "=", "+t30", "-t3"]
            assert await reader.read("topics", offsets.at(30)) == after[21:]

    run(main)


def idle_log(directory: Path, end: int) -> LogDirectory:
    """20 topics, and nothing new from there to ``end``."""
    idle = [batch(at, NoOpRecord()) for at in range(20, end)]
    write_segment(directory, 0, *(batch(at, topic(at)) for at in range(20)), *idle)
    return opened(directory)


def jump(log: LogDirectory, directory: Path) -> None:
    """Have the log begin at a snapshot that ends at 30, with a topic behind it."""
    snapshot_of(directory, 30, *range(20))
    (directory / "00000000000000000000.log").unlink()
    write_segment(directory, 30, batch(30, topic(30)))
    grown(log)


def test_state_of_a_snapshot_is_read_where_the_log_was_followed_to_below_its_end(
    directory: Path,
) -> None:
    """The records of the snapshot have the offsets of those that were read before."""
    log = idle_log(directory, 25)

    async def main() -> None:
        async with reading(log) as reader:
            before = names(await reader.read("topics"))
            jump(log, directory)
            assert log.log_start_offset < 25 < log.snapshot_end
            assert names(await reader.read("topics")) == [*sorted(before), "=", "+t30"]

    run(main)


def test_log_that_jumps_while_batches_are_made_begins_with_its_snapshot(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, step, jumps = idle_log(directory, 30), view_maker.ViewMaker._step, [1]

    async def main() -> None:
        async with reading(log) as reader:

            def look() -> None:
                jump(log, directory)
                reader.partition("topics").read(reader.maker.start, 1000)

            def jumping(*arguments: Any) -> Any:
                made = step(*arguments)
                if jumps:
                    trio.from_thread.run_sync(look)
                    jumps.pop()
                return made

            monkeypatch.setattr(view_maker.ViewMaker, "_step", jumping)
            reader.partition("topics").read(0, 1000)
            await until_async(lambda: not jumps)
            names_now = names(await reader.read("topics"))
            assert names_now == [*sorted(f"+t{number}" for number in range(20)), "=", "+t30"]
            await until_async(lambda: not reader.maker.demands)

    run(main)
