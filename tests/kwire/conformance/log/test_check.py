"""Right logs have no finding; bytes that are flipped are told. ``test_falsified`` has the rest."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kwire.conformance.log.check import check_log
from kwire.conformance.log.layout import NoLog
from kwire.conformance.outcome import Outcome, Result
from kwire.records import iter_batches
from tests.kwire.conformance.log.log_copy import LogCopy, Place
from tests.kwire.conformance.log.right_snapshot import write_snapshot
from tests.shared import LOG_NAMES, needs_shared, unpack_log

SEGMENT = "00000000000000000000.log"
SAMPLE = Path(__file__).resolve().parents[4] / "gateway" / "sample"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A copy of the log that the package ships."""
    shutil.copytree(SAMPLE, tmp_path / "copy")
    return tmp_path / "copy" / "__cluster_metadata-0"


def findings(log: Path) -> list[Result]:
    return [result for result in check_log(log).results if result.sentence]


def test_the_sample_is_right(log: Path) -> None:
    assert findings(log) == []
    assert check_log(log.parent).exit_status() == 0


def test_a_snapshot_that_is_the_replay_is_right(log: Path) -> None:
    for header in LogCopy(log).headers(SEGMENT)[5::20]:
        write_snapshot(log / SEGMENT, header.next_offset)
    assert findings(log) == []


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_logs_of_kafka_are_right(name: str, tmp_path: Path) -> None:
    unpacked = unpack_log(name, tmp_path)
    logs = sorted(unpacked.rglob("__cluster_metadata-0"))
    assert logs
    for one in logs:
        assert [result.sentence for result in findings(one)] == []


@pytest.mark.parametrize("part", range(4))
def test_a_byte_that_is_flipped_is_found_in_its_batch(log: Path, part: int) -> None:
    data = (log / SEGMENT).read_bytes()
    headers = list(iter_batches(data))
    for at in range(part * 97, len(data), 97 * 4 * 4):
        flipped = bytearray(data)
        flipped[at] ^= 0x40
        (log / SEGMENT).write_bytes(flipped)
        found = findings(log)
        assert found, f"byte {at} was flipped, and nothing was found"
        batch = next(one for one in headers if one.position <= at < one.end)
        positions = {
            int(result.sentence.split(" at ")[1].split(":")[0])
            for result in found
            if f"{SEGMENT} at " in result.sentence
        }
        assert any(position <= batch.end for position in positions), (at, positions)


def test_a_finding_names_file_and_position(log: Path) -> None:
    copy = LogCopy(log)
    copy.patch(Place(SEGMENT, 9), 70, b"\xff\xff", crc=False)
    position = copy.headers(SEGMENT)[9].position
    assert findings(log)[0].sentence.startswith(f"{SEGMENT} at {position}: ")


def test_one_fault_that_breaks_all_batches_is_cut_short(log: Path) -> None:
    content = bytearray((log / SEGMENT).read_bytes())
    for header in iter_batches(bytes(content)):
        content[header.position + 17] ^= 1
    (log / SEGMENT).write_bytes(content)
    report = check_log(log)
    assert len([one for one in report.results if one.rule.id == "log.batch-crc"]) == 10
    assert any(remark.startswith("log.batch-crc: ") for remark in report.remarks)


@needs_shared
def test_every_damaged_batch_of_a_large_log_is_told(tmp_path: Path) -> None:
    log = next(unpack_log("p-large", tmp_path).rglob("__cluster_metadata-0"))
    content = bytearray((log / SEGMENT).read_bytes())
    damaged = random.Random(7).sample(list(iter_batches(bytes(content))), 8)
    for header in damaged:
        content[header.end - 1] ^= 1
    (log / SEGMENT).write_bytes(content)
    found = [one for one in findings(log) if one.rule.id == "log.batch-crc"]
    assert {one.outcome for one in found} == {Outcome.DAMAGED}
    assert {one.sentence.partition(": ")[0] for one in found} == {
        f"{SEGMENT} at {header.position}" for header in damaged
    }


def test_no_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match="no segments and no snapshots"):
        check_log(tmp_path)
