"""The log source over Kafka's own logs: bytes, offsets, timestamps, epochs, and loading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.log.reading import follower
from gateway.ports.services import OffsetOutOfRange, State
from gateway.sources import log_directory, open_log
from tests.gateway.log.kafka_files import KafkaLog
from tests.gateway.sources.log_directory_reads import (
    check_lookups,
    moved,
)
from tests.gateway.sources.reading import batches_from, caught_up, joined
from tests.shared import LOG_NAMES, needs_shared


@pytest.fixture(autouse=True, scope="module")
def notices_at_once() -> Iterator[None]:
    """Report notices at once, for all tests but the one on their delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "_NOTICE_AFTER_S", 0.0)
        yield


# --- logs of real Kafka
# -------------------------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_real_log_is_served_byte_for_byte(logs: Any, name: str) -> None:
    checked = 0
    for directory in sorted(logs(name).glob("**/__cluster_metadata-0")):
        source = caught_up(open_log(directory))
        assert (source.state, source.problems) == (State.READY, ())
        served = batches_from(source, source.log_start_offset, 100_000)
        files = sorted(directory.glob("*.log"))
        raw = b"".join(file.read_bytes() for file in files)
        log = moved(raw, 0)
        start = 0
        if int(files[0].stem) > 0:
            snapshot = min(directory.glob("*.checkpoint"))
            start = int(snapshot.name[:20])
            count = moved(snapshot.read_bytes(), 0)[-1][1]
            prefix = moved(snapshot.read_bytes(), start - count)
            assert served[: len(prefix)] == prefix
            assert source.log_start_offset == start - count
            served = served[len(prefix) :]
        assert served == [one for one in log if one[1] > start]
        assert source.high_watermark == log[-1][1]
        checked += 1
    assert checked


@needs_shared
def test_reads_at_every_offset_and_size(logs: Any) -> None:
    source = caught_up(open_log(logs("p-one-segments") / "nodes" / "7"))
    batches = batches_from(source, source.log_start_offset)
    for at, (base, following, _) in enumerate(batches):
        rest = [len(data) for _, _, data in batches[at:]]
        for offset in {max(base, source.log_start_offset), following - 1}:
            for max_bytes in (0, 1, rest[0] - 1, rest[0], rest[0] + 1, 5000, 1 << 20):
                size = taken = 0
                while taken < len(rest) and (taken == 0 or size + rest[taken] <= max_bytes):
                    size, taken = size + rest[taken], taken + 1
                assert joined(source.read(offset, max_bytes)) == b"".join(
                    one[2] for one in batches[at : at + taken]
                )
            assert source.bytes_available(offset, 1 << 30) == sum(rest)
            assert source.bytes_available(offset, 100) == min(100, sum(rest))


@needs_shared
@pytest.mark.parametrize("name", ["p-one-segments", "p-one-basic", "p-quorum-short"])
def test_timestamps_and_epochs_as_by_looking_at_every_record(logs: Any, name: str) -> None:
    for directory in sorted(logs(name).glob("nodes/*/__cluster_metadata-0")):
        source = caught_up(open_log(directory))
        check_lookups(source)


def test_lookups_in_an_empty_log(tmp_path: Path) -> None:
    KafkaLog(tmp_path / "__cluster_metadata-0")
    source = caught_up(open_log(tmp_path))
    assert (source.log_start_offset, source.high_watermark, source.leader_epoch) == (0, 0, 0)
    assert source.state is State.READY
    check_lookups(source)


# --- loading
# -------------------------------------------------------------------------------------------------


def test_nothing_is_served_before_the_end_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    for _ in range(30):
        log.append(size=50_000)
    monkeypatch.setattr(follower.DirectoryFollower.step, "__defaults__", (100_000,))
    source = open_log(tmp_path)
    steps = 0
    while source.state is State.LOADING:
        with pytest.raises(OffsetOutOfRange):
            source.read(0, 100)
        assert source.high_watermark == 0 and source.refresh_delay_s == 0
        source.refresh()
        steps += 1
    assert steps > 5
    assert source.high_watermark == 30 and source.refresh_delay_s > 0


def test_growth_is_served_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    source = caught_up(open_log(tmp_path))
    for _ in range(30):
        log.append(size=50_000)
    monkeypatch.setattr(follower.DirectoryFollower.step, "__defaults__", (100_000,))
    ends = []
    while source.high_watermark < 30:
        source.refresh()
        ends.append(source.high_watermark)
    assert ends == sorted(ends) and len(set(ends)) > 5
