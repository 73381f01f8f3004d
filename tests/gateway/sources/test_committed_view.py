"""Tests the part of a log below a high watermark: whole batches, as in a log that ends there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gateway.ports.services import State
from gateway.sources import log_reader, open_log
from gateway.sources.committed_view import up_to_high_watermark
from gateway.sources.log_partition import LogPartition
from tests.gateway.sources.reading import batches_from, caught_up, records_of
from tests.shared import needs_shared


class Clipped(LogPartition):
    """A chain as a partition."""

    @property
    def state(self) -> State:
        return State.READY

    @property
    def problems(self) -> tuple[()]:
        return ()


def clipped(directory: Path, high_watermark: int) -> Clipped:
    source = caught_up(open_log(directory))
    partition = Clipped(cluster_id="", log_dir="")
    partition.serve(up_to_high_watermark(source.served, high_watermark), notify=False)
    return partition


@needs_shared
@pytest.mark.parametrize("name", ["p-one-segments", "p-quorum", "p-one-basic"])
def test_every_high_watermark_of_a_real_log(logs: Any, name: str) -> None:
    directory = next(logs(name).glob("**/__cluster_metadata-0"))
    source = caught_up(open_log(directory))
    start, batches = source.log_start_offset, batches_from(source, source.log_start_offset)
    rand = random.Random(name)
    ends = sorted(
        {
            0,
            start,
            *rand.sample(range(start, source.high_watermark + 1), 150),
            source.high_watermark + 5,
        }
    )
    for high_watermark in ends:
        partition = clipped(directory, high_watermark)
        wanted = [one for one in batches if one[1] <= high_watermark]
        assert batches_from(partition, partition.log_start_offset) == wanted
        assert partition.high_watermark == (wanted[-1][1] if wanted else start)
        records = records_of(wanted)
        assert partition.served.epoch == (records[-1][2] if records else 0)
        largest = max((timestamp for _, timestamp, _ in records), default=None)
        found = log_reader.max_timestamp(partition.served)
        assert (found.timestamp if found else None) == largest
        assert partition.bytes_available(start, 1 << 40) == sum(len(data) for _, _, data in wanted)


@needs_shared
def test_a_chain_that_ends_below_is_left_as_it_is(logs: Any) -> None:
    source = caught_up(open_log(next(logs("p-one-basic").glob("**/__cluster_metadata-0"))))
    assert up_to_high_watermark(source.served, source.high_watermark) is source.served
