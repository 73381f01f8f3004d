"""Damage to the audit log costs the records it hit: what is readable stays, and no offset is given
to another record.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditLog, AuditRecord
from gateway.log.files.high_watermark_file import FILE_NAME
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.salvage import gap, salvage
from gateway.log.partition.salvage_recovery import DAMAGED
from gateway.sources.audit_partition import DIRECTORY, AuditPartition
from kwire.metadata_log.file_names import segment_name
from kwire.records import decode_batches
from tests.gateway.log.crash_disk import (
    CrashDisk,
    QuietDisk,
    RecordingDisk,
    read_state,
    write_state,
)
from tests.gateway.sources.reading import batches_from

RECORDS = 150
SETTINGS = replace(AUDIT_SETTINGS, fsync=False)


def filled(directory: Path, settings: LogSettings = SETTINGS) -> Path:
    """The only segment of a log with ``RECORDS`` records, a batch each, closed; or the first of
    several.
    """
    log = AuditLog(directory / DIRECTORY, settings, QuietDisk())
    for number in range(RECORDS):
        if log.is_full(number):
            log.roll()
        log.append([AuditRecord(number, b"change %d" % number)])
    log.close()
    return directory / DIRECTORY / segment_name(0)


def served(
    directory: Path, settings: LogSettings = SETTINGS
) -> tuple[dict[int, bytes | None], int, list[str]]:
    """Return the values that a consumer reads after a restart, by offset; the offset of the next
    change; and the problems that the log reports.
    """
    partition = AuditPartition(directory, settings, cluster_id="c")
    data = b"".join(data for _, _, data in batches_from(partition, partition.log_start_offset))
    records = {
        record.offset: record.value for batch in decode_batches(data) for record in batch.records
    }
    partition.close()
    return records, partition.end_offset, partition.repairs


def expected(*lost: int) -> dict[int, bytes]:
    return {number: b"change %d" % number for number in range(RECORDS) if number not in lost}


def test_flipped_bit_costs_one_record_and_no_offset(tmp_path: Path) -> None:
    path = filled(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    records, end_offset, said = served(tmp_path)
    (lost,) = set(range(RECORDS)) - set(records)
    assert records == expected(lost) and end_offset == RECORDS
    (sentence,) = said
    assert (
        f"{path}: lost bytes " in sentence
        and f"offsets {lost} to {lost}" in sentence
        and DAMAGED in sentence
    )
    assert path.with_name(path.name + DAMAGED).read_bytes() == data
    assert served(tmp_path) == (expected(lost), RECORDS, []), "once is enough"


def test_removed_segment_is_reported_and_its_offsets_are_not_reused(tmp_path: Path) -> None:
    filled(tmp_path).unlink()
    records, end_offset, said = served(tmp_path)
    assert (records, end_offset) == ({}, RECORDS)
    assert len(said) == 1 and f"below offset {RECORDS} is missing" in said[0]


def test_removed_last_segment_is_a_gap(tmp_path: Path) -> None:
    small = replace(AUDIT_SETTINGS, segment_bytes=4096, fsync=False)
    filled(tmp_path, small)
    last = sorted((tmp_path / DIRECTORY).glob("*.log"))[-1]
    base = int(last.stem)
    last.unlink()
    records, end_offset, said = served(tmp_path, small)
    assert records == expected(*range(base, RECORDS)) and end_offset == RECORDS
    assert len(said) == 1 and f"offsets {base} to {RECORDS - 1} are missing" in said[0]


def test_removed_segment_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    small = replace(AUDIT_SETTINGS, segment_bytes=4096, fsync=False)
    filled(tmp_path, small)
    _, middle, behind, *_ = sorted((tmp_path / DIRECTORY).glob("*.log"))
    middle.unlink()
    records, end_offset, _ = served(tmp_path, small)
    assert records == expected(*range(int(middle.stem), int(behind.stem))) and end_offset == RECORDS
    assert not list((tmp_path / DIRECTORY).glob(f"*{DAMAGED}")), "nothing that was there is damaged"


def test_unreadable_end_that_was_served_is_a_gap(tmp_path: Path) -> None:
    path = filled(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    records, end_offset, said = served(tmp_path)
    assert records == expected(*range(len(records), RECORDS)) and 0 < len(records) < RECORDS
    assert end_offset == RECORDS and any("are missing" in one for one in said)


def test_damaged_checkpoint_costs_only_its_protection(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / DIRECTORY / FILE_NAME).write_bytes(b"\xff" * 8192)
    records, end_offset, said = served(tmp_path)
    assert (records, end_offset, len(said)) == (expected(), RECORDS, 1)


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_leaves_every_other_record_in_its_place(tmp_path: Path, seed: int) -> None:
    rand = random.Random(seed)
    path = filled(tmp_path)
    data = bytearray(path.read_bytes())
    for _ in range(rand.randint(1, 4)):
        at, length = rand.randrange(len(data)), rand.choice((1, 10, 500))
        data[at : at + length] = rand.choice((b"", bytes(length), rand.randbytes(length)))
    path.write_bytes(data)
    records, end_offset, said = served(tmp_path)
    assert end_offset == RECORDS and said
    assert records.items() <= expected().items() and len(records) > RECORDS // 4


@pytest.mark.parametrize("damage", ["flipped", "removed"])
def test_crash_during_the_repair_leads_to_the_same_end(tmp_path: Path, damage: str) -> None:
    path = filled(tmp_path / "damaged")
    if damage == "removed":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 4
        path.write_bytes(data)
    before = read_state(tmp_path / "damaged")
    recording = RecordingDisk(tmp_path / "damaged")
    AuditLog(tmp_path / "damaged" / DIRECTORY, SETTINGS, recording).close()
    wanted, end_offset, _ = served(tmp_path / "damaged")
    disk, rand, tried = CrashDisk(before), random.Random(5), 0
    for op in recording.ops:
        disk.apply(op)
        for state in [*disk.killed(op), *disk.lost_power(rand)]:
            shutil.rmtree(tmp_path / "state", ignore_errors=True)
            write_state(tmp_path / "state", state)
            assert served(tmp_path / "state")[:2] == (wanted, end_offset)
            tried += 1
    assert end_offset == RECORDS and tried > 5


def test_gap_of_any_length_is_whole_batches_without_records() -> None:
    batches = list(decode_batches(gap(5, 5 + (1 << 32))))
    assert [len(list(batch.records)) for batch in batches] == [0, 0]


def test_whole_segment_is_left_as_it_is(tmp_path: Path) -> None:
    data = filled(tmp_path).read_bytes()
    assert salvage(data, 0, RECORDS) == (data, RECORDS, [])
