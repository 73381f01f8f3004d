"""Segments that kwire compacts are those that Kafka's own Cleaner makes of the same log, byte for
byte; compressed ones record for record.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.base.wall_clock import wall_ms
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.replicas import Appended
from kwire.records import decode_batches
from kwire.records.record import Compression
from tests.gateway.sources.compactions import MEMORY, SMALL, compact, keyed, planned
from tests.gateway.sources.data_partitions import led, settle
from tests.gateway.sources.transactions import end
from tests.interop.java_source import run_source

_SOURCE = Path(__file__).with_name("CleanLog.java")
_RETENTION_MS = 1000
_WRITTEN = replace(
    SMALL,
    segment_bytes=2000,
    cleanup=SMALL.cleanup._replace(delete_retention_ms=_RETENTION_MS),
)
#: Segments are merged.
_CLEANED = replace(_WRITTEN, segment_bytes=5000)


class Load:
    """Random batches of several producers, with transactions and deletions."""

    def __init__(self, seed: int, codecs: tuple[int, ...]) -> None:
        self._rand = random.Random(seed)
        self._codecs = codecs
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()
        # Kafka forgets producers whose newest batch is a month old.
        self.clock = wall_ms()

    def step(self, one: Any) -> None:
        producer = self._rand.choice([-1, -1, 1, 2, 3, 4, 5])
        if producer in self._open and self._rand.random() < 0.4:
            assert isinstance(end(one, producer, commit=self._rand.random() < 0.5), Appended)
            self._open.discard(producer)
            return
        self.clock += self._rand.randrange(-5, 20)
        pairs = [
            (
                b"k%d" % self._rand.randrange(12),
                None if self._rand.random() < 0.25 else self._rand.randbytes(20),
            )
            for _ in range(self._rand.randrange(1, 5))
        ]
        header: dict[str, Any] = {}
        if producer > 0:
            sequence = self._sequences.get(producer, 0)
            self._sequences[producer] = sequence + len(pairs)
            header = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": producer > 2,
            }
        codec = Compression(self._rand.choice(self._codecs))
        batch = keyed(*pairs, timestamp=self.clock, compression=codec, **header)
        asked = one.begin_verification(batch) if producer > 2 else None
        outcomes: list[Any] = []
        one.append(batch, outcomes.append, asked)
        settle(one)
        assert isinstance(outcomes[0], Appended), outcomes
        if producer > 2:
            self._open.add(producer)

    def settle(self, one: Any) -> None:
        """End what is open: nothing is compacted behind an open transaction."""
        for producer in sorted(self._open):
            end(one, producer, commit=True)
        self._open.clear()


def _contents(directory: Path) -> dict[str, bytes]:
    """The files of the segments but the active one."""
    active = max(directory.glob("*.log")).stem
    suffixes = {".log", ".index", ".timeindex", ".txnindex"}
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.suffix in suffixes
        and path.stem != active
        # Kafka makes a transaction index for every segment.
        and not (path.suffix == ".txnindex" and path.stat().st_size == 0)
    }


def _records(content: bytes) -> list[Any]:
    return [
        (batch.header._replace(crc=0, length=0, position=0), batch.records)
        for batch in decode_batches(content)
    ]


@pytest.mark.parametrize("codecs", [(0,), (0, 1, 2, 3, 4)], ids=["plain", "compressed"])
def test_compacted_segments_are_those_of_kafka(codecs: tuple[int, ...], tmp_path: Path) -> None:
    settings: list[LogSettings] = [_WRITTEN]
    directories: list[tuple[Path, Path]] = []
    arguments: list[str] = []
    for seed in range(3):
        load = Load(seed, codecs)
        one = led(tmp_path / str(seed) / "t-0")
        one.stored.settings = lambda: settings[0]
        first_dirty = 0
        # Again after what deletions wait for: tombstones and markers go.
        start_ms = load.clock
        for number, after_ms in enumerate((10_000, 10_500, 11_000, 13_000)):
            now_ms = start_ms + after_ms
            settings[0] = _WRITTEN
            for _ in range(60):
                load.step(one)
            load.settle(one)
            settings[0] = _CLEANED
            copy = tmp_path / f"kafka-{seed}-{number}" / "t-0"
            one.close()
            shutil.copytree(one.directory, copy)
            one = led(one.directory, epoch=number + 2)
            one.stored.settings = lambda: settings[0]
            made = planned(one, now_ms)
            assert made is not None and made.cleanable.first_dirty == first_dirty
            first_dirty = made.cleanable.end
            assert compact(one, now_ms, MEMORY) == 1
            ours = tmp_path / f"ours-{seed}-{number}"
            shutil.copytree(one.directory, ours)
            directories.append((ours, copy))
            arguments += [
                str(copy),
                str(made.cleanable.first_dirty),
                str(now_ms),
                str(_CLEANED.segment_bytes),
                str(_RETENTION_MS),
            ]
        one.close()
    ends = run_source(_SOURCE, *arguments).split()
    assert len(ends) == len(directories)
    for ours, copy in directories:
        mine, kafkas = _contents(ours), _contents(copy)
        assert list(mine) == list(kafkas), ours
        for name, content in mine.items():
            if codecs == (0,):
                assert content == kafkas[name], (ours, name)
            elif name.endswith(".log"):
                assert _records(content) == _records(kafkas[name]), (ours, name)
