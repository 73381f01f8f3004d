"""The log of a compacted topic: the newest record of each key stays, at its offset; readers,
restarts and crashes meet gaps.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log.cleaner.offset_map import ENTRY_BYTES
from gateway.log.partition.cleanup_settings import CleanupSettings
from kwire.records import decode_batches
from tests.gateway.log.crash_disk import CrashDisk, NewStates, RecordingDisk, write_state
from tests.gateway.sources.compactions import COMPACT, SMALL, compact, keyed, planned, steps
from tests.gateway.sources.data_partitions import appended, led, settle
from tests.gateway.sources.reading import joined

Shown = list[tuple[int, bytes | None, bytes | None]]


def shown(one: Any, offset: int | None = None) -> Shown:
    """Offset, key and value of every record that readers get from ``offset`` on."""
    first = at = one.log_start_offset if offset is None else offset
    found: Shown = []
    while at < one.high_watermark:
        batches = list(decode_batches(joined(one.read(at, 300))))
        assert batches[0].header.next_offset > at, "the first batch is the one that is asked for"
        found += [
            (record.offset, record.key, record.value)
            for batch in batches
            for record in batch.records
            if record.offset >= first
        ]
        at = batches[-1].header.next_offset
    return found


def filled(directory: Path, pairs: Any, settings: Any = SMALL, **more: Any) -> Any:
    one = led(directory, settings, **more)
    for key, value in pairs:
        appended(one, keyed((key, value)))
    return one


PAIRS = [(b"k%d" % (number % 4), b"v%d" % number) for number in range(40)]


def test_newest_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    one = filled(tmp_path / "t-0", PAIRS)
    before = shown(one)
    base = max(int(path.stem) for path in (tmp_path / "t-0").glob("*.log"))
    assert compact(one) == 1 and planned(one, 10**6) is None
    newest = {key: offset for offset, key, _ in before if offset < base}
    expected = [row for row in before if row[0] >= base or newest[row[1]] == row[0]]
    assert shown(one) == expected
    for offset in range(41):
        assert shown(one, offset) == [row for row in expected if row[0] >= offset]
        assert bool(one.bytes_available(offset, 10)) == (offset < 40)
    assert one.high_watermark == 40 and one.log_start_offset == 0
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\nt 0 {base}\n"
    one.close()
    again = led(tmp_path / "t-0", SMALL, epoch=2)
    assert shown(again) == expected and again.stored.repairs == [] and planned(again, 10**6) is None
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    again.close()


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_memory_for_few_keys_takes_more_rounds_to_the_same_end(
    tmp_path: Path, entries: int
) -> None:
    one, other = (filled(tmp_path / name / "t-0", PAIRS) for name in "ab")
    compact(one)
    assert compact(other, memory=entries * ENTRY_BYTES) > 1
    assert shown(one) == shown(other)
    one.close()
    other.close()


def test_deletion_stays_for_its_time_and_then_goes(tmp_path: Path) -> None:
    keeps = replace(SMALL, cleanup=COMPACT._replace(delete_retention_ms=500))
    one = filled(tmp_path / "t-0", [(b"a", b"1"), (b"a", None), (b"b", b"2" * 200)], keeps)
    appended(one, keyed((b"c", b"3" * 200)))
    assert compact(one, now_ms=1000)
    assert [row[0] for row in shown(one)] == [1, 2, 3]
    # Cleaned again with what comes later; the time began with the first cleaning.
    for now_ms, left in ((1499, [1, 2, 3, 4]), (1500, [2, 3, 4, 5])):
        appended(one, keyed((b"d%d" % now_ms, b"4" * 200)))
        compact(one, now_ms=now_ms)
        assert [row[0] for row in shown(one)] == left
    one.close()


def test_records_that_are_young_wait_and_old_ones_do_not(tmp_path: Path) -> None:
    waits = replace(SMALL, cleanup=COMPACT._replace(min_lag_ms=500))
    one = filled(tmp_path / "a" / "t-0", PAIRS, waits)
    assert planned(one, 1400) is None and planned(one, 1500) is not None
    one.close()
    ratio = CleanupSettings(False, True, min_cleanable_ratio=1.0, max_lag_ms=500)
    one = filled(tmp_path / "b" / "t-0", PAIRS, replace(SMALL, cleanup=ratio))
    assert planned(one, 1500) is None and planned(one, 1501) is not None
    one.close()


def test_topic_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    one = filled(tmp_path / "t-0", PAIRS, replace(SMALL, cleanup=CleanupSettings()))
    assert planned(one, 10**6) is None and not one.compaction.is_wanted
    one.close()


def test_segments_deleted_meanwhile_end_the_round(tmp_path: Path) -> None:
    both = replace(SMALL, cleanup=COMPACT._replace(deletes=True))
    one = filled(tmp_path / "t-0", PAIRS, both)
    made = planned(one, 10**6)
    assert made is not None
    one.delete_records(10, lambda outcome: None)
    settle(one)
    assert list(steps(one, made)) == [False]
    assert [row[0] for row in shown(one)] == list(range(10, 40))
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    assert compact(one) == 1
    one.delete_records(-1, lambda outcome: None)
    settle(one)
    assert shown(one) == [] and one.log_start_offset == 40
    one.close()


def test_reader_with_a_file_that_was_replaced_reads_on(tmp_path: Path) -> None:
    one = filled(tmp_path / "t-0", PAIRS)
    moment, before = one._moment, shown(one)
    compact(one)
    one._moment = moment
    assert shown(one) == before
    one.close()


_KEYS = st.sampled_from([b"a", b"b", b"c", b"long" * 10, b"e"])
_BATCHES = st.lists(
    st.lists(
        st.tuples(_KEYS, st.one_of(st.none(), st.binary(max_size=30))), min_size=1, max_size=4
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=15)
@given(_BATCHES, _BATCHES, st.integers(1, 6), st.booleans(), st.sampled_from([0, 1, 3, 4]))
def test_any_log_keeps_the_newest_value_of_each_key_and_every_offset(
    tmp_path_factory: pytest.TempPathFactory,
    first: Any,
    second: Any,
    entries: int,
    restarts: bool,
    codec: int,
) -> None:
    directory = tmp_path_factory.mktemp("log") / "t-0"
    one, written = led(directory, SMALL), []
    for batches in (first, second):
        for pairs in batches:
            offset = one.high_watermark
            appended(one, keyed(*pairs, compression=codec))
            written += [(offset + at, *pair) for at, pair in enumerate(pairs)]
        compact(one, memory=entries * ENTRY_BYTES)
        if restarts:
            one.close()
            one = led(directory, SMALL, epoch=2)
        base = max(int(path.stem) for path in directory.glob("*.log"))
        newest = {key: offset for offset, key, _ in written if offset < base}
        found = shown(one)
        assert set(found) <= set(written) and found == sorted(found)
        assert one.high_watermark == len(written)
        for row in written:
            offset, key, value = row
            # A deletion below the end may have gone with its time.
            if offset >= base or (newest[key] == offset and value is not None):
                assert row in found
            elif newest[key] != offset:
                assert row not in found
        for offset in range(0, len(written), 11):
            assert shown(one, offset) == [row for row in found if row[0] >= offset]
    one.close()
    shutil.rmtree(directory.parent)


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_crash_behind_any_operation_leaves_the_newest_records(
    root: Path, tmp_path: Path, delay_ms: int
) -> None:
    disk, rand = RecordingDisk(tmp_path), random.Random(3)
    one = led(tmp_path / "t-0", replace(SMALL, file_delete_delay_ms=delay_ms), disk=disk)
    for key, value in PAIRS[:12]:
        appended(one, keyed((key, value)))
    written = shown(one)
    begins = len(disk.ops)
    compact(one, disk=disk)
    assert len(shown(one)) < len(written) and bool(disk.waiting) == (delay_ms > 0)
    disk.delete_waiting()
    one.close()
    base = max(int(path.stem) for path in (tmp_path / "t-0").glob("*.log"))
    crash, new = CrashDisk(), NewStates()
    for number, op in enumerate(disk.ops):
        crash.apply(op)
        if number < begins:
            continue
        for state in new.of((*crash.killed(op), *crash.lost_power(rand))):
            directory = root / "state"
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            write_state(directory, state)
            again = led(directory / "t-0", SMALL, epoch=9)
            assert again.problems == (), again.problems
            assert not list(directory.glob("*/*.deleted"))
            found = shown(again)
            assert set(found) <= set(written) and found == sorted(set(found))
            end = again.high_watermark
            # A power failure may take what was not synced: records of the active segment.
            assert end >= base
            kept = {row[1]: row for row in written if row[0] < end}
            assert set(kept.values()) <= set(found)
            compact(again)
            assert set(kept.values()) <= set(shown(again))
            again.close()
    assert new.came > 100
