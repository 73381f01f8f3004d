"""Right logs have no finding; damaged and falsified copies are told, with file, place and rule."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.conformance.log.check import check_log
from kwire.conformance.log.layout import NoLog
from kwire.conformance.outcome import Outcome, Result
from kwire.message import Message
from kwire.records import iter_batches
from kwire.uuid import Uuid
from tests.kwire.conformance.log import falsify
from tests.kwire.conformance.log.falsify import SEGMENT, batches, patch, segment, snapshot, write
from tests.shared import LOG_NAMES, needs_shared, unpack_log

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
    headers = list(iter_batches(segment(log).read_bytes()))
    for header in headers[5::20]:
        snapshot(log, header.next_offset)
    assert findings(log) == []


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_logs_of_kafka_are_right(name: str, tmp_path: Path) -> None:
    unpacked = unpack_log(name, tmp_path)
    logs = sorted(unpacked.rglob("__cluster_metadata-0"))
    assert logs
    for one in logs:
        assert [result.sentence for result in findings(one)] == []


def _append(log: Path, data: bytes) -> None:
    with segment(log).open("ab") as file:
        file.write(data)


def _remove_batch(log: Path) -> None:
    found = batches(log)
    write(log, found[:9] + found[10:])


def _swap_batches(log: Path) -> None:
    found = batches(log)
    write(log, [*found[:9], found[10], found[9], *found[11:]])


def _repeat_batch(log: Path) -> None:
    found = batches(log)
    write(log, [*found[:10], found[9], *found[10:]])


def _two_segments(log: Path, gap: int) -> None:
    found = batches(log)
    write(log, found[:10])
    base = found[10 + gap].header.base_offset
    (log / f"{base:020d}.log").write_bytes(b"".join(one.encode() for one in found[10 + gap :]))


def _rename_segment(log: Path) -> None:
    segment(log).rename(log / f"{7:020d}.log")


def _cut(log: Path) -> None:
    data = segment(log).read_bytes()
    segment(log).write_bytes(data[:-5])


def _cut_before_another(log: Path) -> None:
    _two_segments(log, 0)
    _cut(log)


def _foreign_leader(log: Path) -> None:
    [control] = [n for n, one in enumerate(batches(log)) if one.header.is_control][:1]
    found = batches(log)[control]
    value = bytearray(found.records[0].value or b"")
    value[2:6] = struct.pack(">i", 77)
    everything = batches(log)
    everything[control].records[0].value = bytes(value)
    write(log, everything)


def _without_leader_change(log: Path) -> None:
    found = batches(log)
    [control, *_] = [n for n, one in enumerate(found) if one.header.is_control]
    found[control].header = found[control].header._replace(attributes=0)
    other = next(one for one in found if not one.header.is_control)
    found[control].records[0].key = None
    found[control].records[0].value = other.records[0].value
    write(log, found)


def _snapshot_control_in_segment(log: Path) -> None:
    found = batches(log)
    [control, *_] = [n for n, one in enumerate(found) if one.header.is_control]
    found[control].records[0].key = b"\0\0\0\3"
    found[control].records[0].value = b"\0\0\0\0\0\0\0\0\0\0\0"
    write(log, found)


def _key(log: Path) -> None:
    found = batches(log)
    next(one for one in found if not one.header.is_control).records[0].key = b"k"
    write(log, found)


def _unknown_type(log: Path) -> None:
    found = batches(log)
    found[-1].records[0].value = b"\x01\xc8\x01\x00\x00"
    write(log, found)


def _later_version(log: Path) -> None:
    falsify.change_record(
        log, "FeatureLevelRecord",
        lambda message, version: (message.copy(feature_level=7), version),
    )  # fmt: skip


def _no_topic(log: Path) -> None:
    falsify.change_record(
        log, "PartitionRecord",
        lambda message, version: (message.copy(topic_id=Uuid(b"\7" * 16)), version),
    )  # fmt: skip


def _text(name: str, text: str) -> Callable[[Path], object]:
    return lambda log: (log / name).write_text(text)


def _index(log: Path) -> None:
    (log / SEGMENT.replace(".log", ".index")).write_bytes(struct.pack(">ii", 5, 3))


def _drop_config(records: list[tuple[Message, int]]) -> None:
    del records[-1]


FALSIFIED: list[tuple[str, str, Outcome, Callable[[Path], object]]] = [
    ("a bit of a record", "batch-crc", Outcome.DAMAGED,
     lambda log: patch(log, 9, 70, b"\xff\xff", crc=False)),
    ("a length of 5", "batch-header", Outcome.DAMAGED,
     lambda log: patch(log, 9, 8, struct.pack(">i", 5), crc=False)),
    ("a format of 1", "batch-header", Outcome.DAMAGED,
     lambda log: patch(log, 9, 16, b"\1", crc=False)),
    ("the end is cut", "whole-tail", Outcome.ADVICE, _cut),
    ("zeros behind the end", "whole-tail", Outcome.ADVICE, lambda log: _append(log, bytes(500))),
    ("rubbish behind the end", "batch-header", Outcome.DAMAGED,
     lambda log: _append(log, bytes(8) + b"\0\0\0\5" + b"\7" * 90)),
    ("a segment is cut before another", "batch-whole", Outcome.DAMAGED, _cut_before_another),
    ("a batch is missing", "offsets-contiguous", Outcome.FAIL, _remove_batch),
    ("two batches are swapped", "offsets-contiguous", Outcome.FAIL, _swap_batches),
    ("a batch is there twice", "offsets-contiguous", Outcome.FAIL, _repeat_batch),
    ("part of a segment is missing", "offsets-contiguous", Outcome.FAIL,
     lambda log: _two_segments(log, 3)),
    ("a segment is renamed", "segment-name", Outcome.FAIL, _rename_segment),
    ("an epoch of -1", "epochs-ascend", Outcome.FAIL,
     lambda log: patch(log, 9, 12, struct.pack(">i", -1))),
    ("an epoch of the future", "leader-change-first", Outcome.FAIL,
     lambda log: patch(log, 9, 12, struct.pack(">i", 900))),
    ("an epoch falls", "epochs-ascend", Outcome.FAIL,
     lambda log: patch(log, 9, 12, struct.pack(">i", 900))),
    ("a record count too high", "records", Outcome.FAIL,
     lambda log: patch(log, 9, 57, struct.pack(">i", 9))),
    ("a last offset too high", "records", Outcome.FAIL,
     lambda log: patch(log, 9, 23, struct.pack(">i", 900))),
    ("a producer id", "no-producer", Outcome.FAIL,
     lambda log: patch(log, 9, 43, struct.pack(">q", 4))),
    ("a timestamp of none of the records", "timestamps", Outcome.FAIL,
     lambda log: patch(log, 9, 35, struct.pack(">q", 1))),
    ("a leader that does not vote", "leader-is-voter", Outcome.FAIL, _foreign_leader),
    ("no LEADER_CHANGE", "leader-change-first", Outcome.FAIL, _without_leader_change),
    ("a snapshot's control record", "control-records", Outcome.FAIL, _snapshot_control_in_segment),
    ("a record with a key", "no-keys", Outcome.FAIL, _key),
    ("a record type of nobody", "metadata-records", Outcome.FAIL, _unknown_type),
    ("records of a later version", "record-version", Outcome.FAIL, _later_version),
    ("a partition without its topic", "references", Outcome.FAIL, _no_topic),
    ("a snapshot that lacks a record", "snapshot-is-replay", Outcome.FAIL,
     lambda log: snapshot(log, batches(log)[-1].header.next_offset, _drop_config)),
    ("a snapshot of another epoch", "snapshot-epoch", Outcome.FAIL,
     lambda log: snapshot(log, batches(log)[-1].header.next_offset, epoch=77)),
    ("a snapshot without its footer", "snapshot-frame", Outcome.FAIL,
     lambda log: snapshot(log, batches(log)[-1].header.next_offset, footer=False)),
    ("a log without its beginning", "starts-at", Outcome.FAIL, _rename_segment),
    ("a checkpoint of one line", "leader-epoch-checkpoint", Outcome.DAMAGED,
     _text("leader-epoch-checkpoint", "0\n")),
    ("an epoch at another offset", "leader-epoch-checkpoint", Outcome.FAIL,
     _text("leader-epoch-checkpoint", "0\n2\n0 0\n1 999\n")),
    ("a quorum-state that is no JSON", "quorum-state", Outcome.DAMAGED, _text("quorum-state", "{")),
    ("a quorum-state of an old epoch", "quorum-state", Outcome.FAIL,
     _text("quorum-state",
           '{"leaderId":1,"leaderEpoch":0,"votedId":-1,"data_version":1}')),
    ("a partition.metadata of another topic", "partition-metadata", Outcome.FAIL,
     _text("partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")),
    ("a partition.metadata of nothing", "partition-metadata", Outcome.DAMAGED,
     _text("partition.metadata", "x")),
    ("a meta.properties without a cluster", "meta-properties", Outcome.DAMAGED,
     lambda log: (log.parent / "meta.properties").write_text("version=1\nnode.id=1\n")),
    ("an index that leads nowhere", "offset-index", Outcome.FAIL, _index),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "outcome", "falsified"), [pytest.param(*one[1:], id=one[0]) for one in FALSIFIED]
)
def test_a_falsified_copy_is_told(
    log: Path, rule: str, outcome: Outcome, falsified: Callable[[Path], object]
) -> None:
    falsified(log)
    found = {(result.rule.id, result.outcome) for result in findings(log)}
    assert (f"log.{rule}", outcome) in found


def test_every_rule_of_logs_has_a_falsified_copy() -> None:
    from kwire.conformance.log.rules import FAMILY

    tried = {f"log.{rule}" for _, rule, _, _ in FALSIFIED}
    # Transactions are opened by bootstrap records only, which the sample does not have.
    assert {rule.id for rule in FAMILY} - tried == {"log.transactions"}


@pytest.mark.parametrize("part", range(4))
def test_a_byte_that_is_flipped_is_found_in_its_batch(log: Path, part: int) -> None:
    data = segment(log).read_bytes()
    headers = list(iter_batches(data))
    for at in range(part * 97, len(data), 97 * 4 * 4):
        flipped = bytearray(data)
        flipped[at] ^= 0x40
        segment(log).write_bytes(flipped)
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
    patch(log, 9, 70, b"\xff\xff", crc=False)
    position = list(iter_batches(segment(log).read_bytes()))[9].position
    assert findings(log)[0].sentence.startswith(f"{SEGMENT} at {position}: ")


def test_one_fault_that_breaks_all_batches_is_cut_short(log: Path) -> None:
    content = bytearray(segment(log).read_bytes())
    for header in iter_batches(bytes(content)):
        content[header.position + 17] ^= 1
    segment(log).write_bytes(content)
    report = check_log(log)
    assert len([one for one in report.results if one.rule.id == "log.batch-crc"]) == 10
    assert any(remark.startswith("log.batch-crc: ") for remark in report.remarks)


def test_no_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match="no segments and no snapshots"):
        check_log(tmp_path)
