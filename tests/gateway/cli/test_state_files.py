"""States out of files: Kafka's own at every snapshot and at the end, from whatever start, and
sentences where there is none.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest

from gateway.cli.state_files import load_files
from kwire.cluster.shell_view import entities, shell_view
from kwire.message import Message
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.at import At
from kwire.metadata_log.reader import read_log_file
from kwire.records import Record, encode_batch, encode_control_record, encode_metadata_record
from kwire.uuid import Uuid
from tests.shared import LOG_NAMES, needs_shared


def directory(root: Path, node: str) -> Path:
    return root / "nodes" / node / "__cluster_metadata-0"


def facts_of_truth(path: Path) -> Counter[tuple[str, ...]]:
    """The records of Kafka's image as rows in the form of the tree's."""
    names: dict[str, str] = {}
    rows: Counter[tuple[str, ...]] = Counter()
    for line in path.read_text(encoding="utf-8").split("\n")[1:-1]:
        kind, data = (record := json.loads(line))["type"], record["data"]
        if kind == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
            rows["topic", data["name"], data["topicId"]] += 1
        elif kind == "PARTITION_RECORD":
            members = ("leader", "leaderEpoch", "partitionEpoch", "replicas", "isr")
            rows[
                "partition",
                names[data["topicId"]],
                str(data["partitionId"]),
                *(str(data[m]) for m in members),
            ] += 1
        elif kind == "CONFIG_RECORD":
            rows["config", data["resourceName"], data["name"], data["value"]] += 1
        elif kind == "REGISTER_BROKER_RECORD":
            rows[
                "broker", str(data["brokerId"]), str(data["brokerEpoch"]), str(data["fenced"])
            ] += 1
        elif kind == "ACCESS_CONTROL_ENTRY_RECORD":
            rows["acl", data["id"], data["principal"], data["host"]] += 1
        elif kind == "CLIENT_QUOTA_RECORD":
            rows["quota", data["key"], str(data["value"])] += 1
        elif kind == "DELEGATION_TOKEN_RECORD":
            rows["token", data["tokenId"], data["owner"], str(data["expirationTimestamp"])] += 1
        elif kind == "USER_SCRAM_CREDENTIAL_RECORD":
            rows["scram", data["name"], str(data["iterations"])] += 1
    return rows


def facts_of_tree(root: dict[str, Any]) -> Counter[tuple[str, ...]]:
    rows: Counter[tuple[str, ...]] = Counter()
    for topic in root["topics"]["byName"].values():
        assert root["topics"]["byId"][topic["id"]] is topic
        rows["topic", topic["name"], topic["id"]] += 1
        for number, one in topic.items():
            if isinstance(one, dict):
                members = ("leader", "leaderEpoch", "partitionEpoch", "replicas", "isr")
                rows["partition", topic["name"], number, *(str(one[m]) for m in members)] += 1
    for resource, configs in root["configs"].items():
        for name, value in configs.items():
            rows["config", resource.partition(":")[2], name, value] += 1
    for broker in root["cluster"]["brokers"].values():
        rows["broker", str(broker["id"]), str(broker["epoch"]), str(broker["fenced"])] += 1
    for acl_id, acl in root["acls"]["byId"].items():
        rows["acl", acl_id, acl["principal"], acl["host"]] += 1
    for quotas in root["clientQuotas"].values():
        for key, value in quotas.items():
            rows["quota", key, str(value)] += 1
    for token in root["delegationToken"].values():
        rows["token", token["tokenId"], token["owner"], str(token["expiryTimestamp"])] += 1
    for users in root["scram"].values():
        for user, credential in users.items():
            rows["scram", user, str(credential["iterations"])] += 1
    return rows


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_the_state_is_kafkas_at_every_snapshot_and_at_the_end(name: str, logs: Any) -> None:
    root: Path = logs(name)
    assert list((root / "truth").glob("*/state-*.jsonl"))
    for node in sorted(path.name for path in (root / "truth").iterdir()):
        for truth in sorted((root / "truth" / node).glob("state-*.jsonl")):
            end = json.loads(truth.read_text(encoding="utf-8").split("\n")[0])["nextOffset"]
            state = load_files(
                [directory(root, node).parent],
                At() if truth.stem == "state-END" else At(offset=end),
            )
            assert (state.image.next_offset, state.notes) == (end, [])
            facts = facts_of_tree(shell_view(state.image, show_secrets=True))
            assert facts == facts_of_truth(truth) and len(facts) > 0, (node, truth.name)


@needs_shared
def test_every_start_leads_to_the_same_state(logs: Any) -> None:
    """From offset 0, from each of the snapshots, and from a snapshot file alone."""
    source = directory(logs("p-quorum"), "101")
    segments, snapshots = (
        sorted(source.glob("*.log")),
        sorted(source.glob("*-000000000[1-9].checkpoint")),
    )
    assert len(snapshots) > 3
    whole = dict(entities(load_files(segments, At()).image))
    for snapshot in snapshots:
        assert dict(entities(load_files([*segments, snapshot], At()).image)) == whole
        end = int(snapshot.name[:20])
        alone, before = load_files([snapshot], At()), load_files(segments, At(offset=end))
        assert dict(entities(alone.image)) == dict(entities(before.image))
        assert (alone.image.next_offset, alone.timestamp) == (end, before.timestamp)


@needs_shared
def test_a_time_is_the_offset_of_the_first_later_record(logs: Any) -> None:
    source = directory(logs("p-quorum"), "2")
    records = [
        r
        for path in sorted(source.glob("*.log"))
        for _, records in read_log_file(path)
        for r in records
    ]
    for index in range(40, len(records) - 1, 397):
        time_ms = records[index].timestamp
        first_later = next(
            (r.offset for r in records if r.timestamp > time_ms), records[-1].offset + 1
        )
        by_time, by_offset = (
            load_files([source], At(time_ms=time_ms)),
            load_files([source], At(offset=first_later)),
        )
        assert by_time.image.next_offset == by_offset.image.next_offset == first_later
        assert dict(entities(by_time.image)) == dict(entities(by_offset.image))


@needs_shared
def test_log_that_starts_later_names_its_start(logs: Any) -> None:
    source = directory(logs("p-one-segments"), "7")
    for at, text in (
        (At(offset=984), "log starts at offset 985: the state before offset 984"),
        (At(time_ms=1), "log starts at offset 985, later than 1970-01-01T00:00:00.001Z"),
        (At(offset=10**9), "there is no state before 1000000000 yet"),
    ):
        with pytest.raises(click.ClickException, match=text):
            load_files([source], at)
    assert load_files([source], At(offset=985)).image.next_offset == 985
    with pytest.raises(click.ClickException, match="begins at offset 895, and no usable snapshot"):
        load_files(sorted(source.glob("*.log")), At())


def topic(number: int) -> Message:
    return TopicRecord(name=f"t{number}", topic_id=Uuid(bytes([number]) * 16))


def batch(offset: int, *messages: Message, timestamp: int = 1000) -> bytes:
    records = [
        Record(
            offset=offset + i, timestamp=timestamp, key=None, value=encode_metadata_record(one, 0)
        )
        for i, one in enumerate(messages)
    ]
    return encode_batch(records, base_offset=offset, partition_leader_epoch=3)


def control(offset: int, name: str, message: Message) -> bytes:
    record = encode_control_record(name, message, offset=offset, timestamp=1000)
    return encode_batch([record], base_offset=offset, partition_leader_epoch=3, is_control=True)


def segment(where: Path, base: int, *batches: bytes) -> Path:
    path = where / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def snapshot(where: Path, end: int, *messages: Message, footer: bool = True) -> Path:
    path = where / f"{end:020d}-0000000003.checkpoint"
    path.write_bytes(
        control(0, "SNAPSHOT_HEADER", SnapshotHeaderRecord(last_contained_log_timestamp=900))
        + batch(1, *messages)
        + (control(1 + len(messages), "SNAPSHOT_FOOTER", SnapshotFooterRecord()) if footer else b"")
    )
    return path


def topics(paths: list[Path], at: At) -> list[str]:
    return sorted(load_files(paths, at).image.topic_ids)


def test_the_offset_is_exclusive(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic(1), topic(2)), batch(2, topic(3)))
    assert [topics([tmp_path], At(offset=offset)) for offset in range(4)] == [
        [],
        ["t1"],
        ["t1", "t2"],
        ["t1", "t2", "t3"],
    ]


def test_inside_a_transaction_the_state_is_the_one_before_it(tmp_path: Path) -> None:
    segment(
        tmp_path,
        0,
        batch(0, topic(1)),
        batch(1, BeginTransactionRecord(), topic(2), EndTransactionRecord(), timestamp=2000),
    )
    state = load_files([tmp_path], At(offset=3))
    assert (list(state.image.topic_ids), state.image.next_offset, state.timestamp) == (
        ["t1"],
        1,
        1000,
    )
    assert "inside a metadata transaction" in state.notes[0] and "offset 1" in state.notes[0]
    assert topics([tmp_path], At(offset=4)) == ["t1", "t2"]


def test_incomplete_end_is_reported_and_the_rest_counts(tmp_path: Path) -> None:
    whole = batch(0, topic(1))
    segment(tmp_path, 0, whole, batch(1, topic(2))[:-3])
    state = load_files([tmp_path], At())
    assert list(state.image.topic_ids) == ["t1"]
    assert f"ends inside a batch at byte {len(whole)}" in state.notes[0]


def test_damage_is_an_error_that_names_the_last_good_offset(tmp_path: Path) -> None:
    bad = bytearray(batch(1, topic(2)))
    bad[-1] ^= 1
    path = segment(tmp_path, 0, batch(0, topic(1)), bytes(bad), batch(2, topic(3)))
    with pytest.raises(click.ClickException) as caught:
        load_files([tmp_path], At())
    assert str(path) in caught.value.message and "--at 1 " in caught.value.message
    assert topics([tmp_path], At(offset=1)) == ["t1"]


def test_a_torn_segment_that_others_follow_is_damage(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2))[:-3])
    segment(tmp_path, 2, batch(2, topic(3)))
    with pytest.raises(click.ClickException, match="damaged"):
        load_files([tmp_path], At())


def test_missing_offsets_are_named(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic(1)))
    segment(tmp_path, 5, batch(5, topic(2)))
    with pytest.raises(click.ClickException, match="offsets 1 to 4 are missing"):
        load_files([tmp_path], At())
    segment(tmp_path, 5)
    segment(tmp_path, 0, batch(0, topic(1)), batch(3, topic(2)))
    with pytest.raises(click.ClickException, match="offsets 1 to 2 are missing"):
        load_files([tmp_path], At())


def test_a_record_that_does_not_fit_names_its_offset(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic(1), RemoveTopicRecord(topic_id=Uuid(bytes(16)))))
    with pytest.raises(click.ClickException, match=r"offset 1: RemoveTopicRecord .* --at 1 "):
        load_files([tmp_path], At())


@pytest.mark.parametrize("damage", ["footer", "bytes"])
def test_a_snapshot_that_cannot_be_used_is_passed_over(tmp_path: Path, damage: str) -> None:
    segment(tmp_path, 0, batch(0, topic(1), topic(2)), batch(2, topic(3)))
    path = snapshot(tmp_path, 2, topic(1), topic(2), footer=damage != "footer")
    if damage == "bytes":
        path.write_bytes(path.read_bytes()[:-80])
    state = load_files([tmp_path], At())
    assert sorted(state.image.topic_ids) == ["t1", "t2", "t3"]
    assert str(path) in state.notes[0] and "passed over" in state.notes[0]
    with pytest.raises(click.ClickException, match="no usable snapshot"):
        load_files([path], At())


def test_a_snapshot_ahead_of_the_log_stands_for_it(tmp_path: Path) -> None:
    """A follower that downloaded one, before it dropped its old log."""
    segment(tmp_path, 0, batch(0, topic(1)))
    snapshot(tmp_path, 50, topic(2))
    state = load_files([tmp_path], At())
    assert (list(state.image.topic_ids), state.image.next_offset, state.image.epoch) == (
        ["t2"],
        50,
        3,
    )
    assert topics([tmp_path], At(offset=1)) == ["t1"]


def test_a_snapshot_before_a_gap_serves_only_its_own_end(tmp_path: Path) -> None:
    snapshot(tmp_path, 2, topic(1))
    segment(tmp_path, 7, batch(7, topic(2)))
    assert topics([tmp_path], At(offset=2)) == ["t1"]
    with pytest.raises(
        click.ClickException, match="begins at offset 7, and no usable snapshot leads there"
    ):
        load_files([tmp_path], At())


def test_offsets_of_a_log_that_a_snapshot_covers_are_not_folded_twice(tmp_path: Path) -> None:
    segment(
        tmp_path,
        0,
        batch(0, NoOpRecord(), NoOpRecord(), RemoveTopicRecord(topic_id=Uuid(bytes([1]) * 16))),
        batch(3, topic(3)),
    )
    snapshot(tmp_path, 3, topic(2))
    assert topics([tmp_path], At()) == ["t2", "t3"]


def test_directory_or_file_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="no segment or snapshot in it"):
        load_files([tmp_path], At())
    other = tmp_path / "notes.log"
    other.touch()
    with pytest.raises(click.ClickException, match="under the names that Kafka gave them"):
        load_files([other], At())


def test_segment_deleted_during_the_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").symlink_to(tmp_path / "cleaned up")
    with pytest.raises(click.ClickException, match=r"000\.log: gone; .* run this again"):
        load_files([tmp_path], At())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").mkdir()
    with pytest.raises(click.ClickException, match=r"00000000000000000000\.log: Is a directory"):
        load_files([tmp_path], At())


@needs_shared
def test_the_snapshot_of_formatting_is_empty(logs: Any, tmp_path: Path) -> None:
    name = "00000000000000000000-0000000000.checkpoint"
    shutil.copy(directory(logs("p-one-basic"), "1") / name, tmp_path)
    assert load_files([tmp_path / name], At()).image.next_offset == 0
