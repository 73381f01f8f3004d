"""The fold behind the tables: what it says is, was and changed, against the cluster's image of the
same records.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' has it)")

from kwire.cluster import FoldError, Image, Loader, shell_view
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import encode_metadata_record
from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.fold import Fold
from kwire.spark.table.kinds import KINDS
from kwire.spark.table.rows import Folded, Row
from kwire.uuid import Uuid
from tests.kwire.spark.table_rows import contents, entity_at, load, rows_of
from tests.reference_cycles import no_reference_cycles
from tests.shared import LOG_NAMES, needs_shared

TOPIC, OTHER = Uuid(bytes(range(16))), Uuid(bytes(range(16, 32)))
VERSION = FeatureLevelRecord(name="metadata.version", feature_level=20)

#: Behind every offset.
_NEVER = 1 << 63
#: Records of a log whose image takes a second to list.
_LARGE = 100_000


def rows(*records: Message, at: int = 0) -> list[Row]:
    return [
        Row(at + n, 1000 * (at + n), encode_metadata_record(one, one.VERSIONS[-1]))
        for n, one in enumerate(records)
    ]


def folded(*records: Message) -> Fold:
    fold = Fold()
    fold.take(rows(*records))
    return fold


def folded_rows(rows: list[Row]) -> Fold:
    fold = Fold()
    fold.take(rows)
    return fold


def history_at(fold: Fold, next_offset: int) -> dict[tuple[str, str], Any]:
    """The entities of the history after every record below ``next_offset``."""
    return History(fold).at(next_offset)


class History:
    """The whole history, to be asked often."""

    def __init__(self, fold: Fold) -> None:
        self._rows = [
            (one.since.offset, one.until.offset, (kind.entity, kind.text(one.key)), one.fields)
            for kind in KINDS
            for one in fold.folded.closed[kind.entity]
        ]
        self._rows += [
            (
                since.offset,
                _NEVER,
                (kind.entity, kind.text(key)),
                entity_at(kind, fold.state.image, key) or {},
            )
            for kind in KINDS
            for key, since in fold.state.since[kind.entity].items()
        ]

    def at(self, next_offset: int) -> dict[tuple[str, str], Any]:
        """The entities after every record below ``next_offset``."""
        return {
            place: fields
            for since, until, place, fields in self._rows
            if since < next_offset <= until
        }


class Replay:
    """The changes applied one after another."""

    def __init__(self, fold: Fold) -> None:
        #: As JSON, and what it says.
        self.state: dict[tuple[str, str], tuple[str, Any]] = {}
        self._changes = fold.folded.changes
        self._at = 0

    def to(self, next_offset: int) -> None:
        while (
            self._at < len(self._changes) and self._changes[self._at].effective_offset < next_offset
        ):
            change = self._changes[self._at]
            self._at += 1
            place = change.entity, change.key
            assert self.state.get(place, (None,))[0] == change.before, change
            if change.after is None:
                del self.state[place]
            else:
                self.state[place] = change.after, json.loads(change.after)


def nodes(logs: Any, name: str) -> Sequence[Path]:
    return [node / "__cluster_metadata-0" for node in sorted((logs(name) / "nodes").iterdir())]


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_changes_and_history_lead_to_the_image_at_any_offset(name: str, logs: Any) -> None:
    """At a hundred random offsets of each log, shared among its nodes; at four of a large one."""
    rng = random.Random(name)
    directories = nodes(logs, name)
    count = 100 // len(directories) + 1
    for directory in directories:
        records = rows_of(directory)
        fold = Fold()
        fold.take(records)
        assert not fold.folded.errors
        size = count if len(records) < _LARGE else count // 25
        asked = {row.offset + 1 for row in rng.sample(records, size)} | {records[-1].offset + 1}
        loader, replay, history = Loader(), Replay(fold), History(fold)
        known: dict[int, Any] = {}
        for row in records:
            load(loader, row)
            if row.offset + 1 in asked and not loader.in_transaction:
                expected = contents(loader.image, known)
                assert history.at(row.offset + 1) == expected, row.offset
                replay.to(row.offset + 1)
                assert {place: one for place, (_, one) in replay.state.items()} == expected, (
                    row.offset
                )
        assert contents(loader.image, known) == contents(loader.image)


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_current_state_equals_the_state_command(name: str, logs: Any) -> None:
    for directory in nodes(logs, name)[:2]:
        fold = Fold()
        fold.take(rows_of(directory))
        image, found = fold.state.image, contents(fold.state.image)
        shown = dict(shell_view.entities(image))
        for (entity, key), fields in found.items():
            if entity == "partition":
                place: tuple[str, ...] = (
                    "topics",
                    "byName",
                    fields["topic"],
                    str(fields["partition"]),
                )
                assert shown[place].items() <= fields.items()
            elif entity in ("broker", "controller"):
                assert shown["cluster", f"{entity}s", key] == fields
            elif entity == "acl":
                assert shown["acls", "byId", key].items() <= fields.items()
            elif entity == "token":
                assert shown["delegationToken", key] == fields
        count = sum(place[0] == "topics" for place in shown)
        assert count == sum(entity in ("topic", "partition") for entity, _ in found)


@needs_shared
def test_a_late_start_from_a_snapshot_comes_to_the_same(logs: Any) -> None:
    directory = logs("p-quorum") / "nodes" / "101" / "__cluster_metadata-0"
    whole = Fold()
    whole.take(rows_of(directory))
    snapshots = [path for path in directory.glob("*.checkpoint") if int(path.name[:20])]
    assert len(snapshots) > 1
    for snapshot in snapshots:
        late = Fold()
        late.take(rows_of(directory, snapshot))
        assert not late.folded.errors
        assert contents(late.state.image) == contents(whole.state.image)


@needs_shared
def test_a_log_that_left_us_behind_is_told_and_leads_to_the_same_by_its_snapshot(
    logs: Any,
) -> None:
    directory = logs("p-quorum") / "nodes" / "101" / "__cluster_metadata-0"
    every = rows_of(directory)
    snapshot = max(directory.glob("*.checkpoint"))
    late, end = rows_of(directory, snapshot), int(snapshot.name[:20])
    before = [row for row in every if row.offset < late[0].offset // 2]
    fold = folded_rows(before)
    with pytest.raises(DataLossError, match="what was between is gone"):
        fold.take(late)
    fold, other = folded_rows(before), Fold()
    other.take(late, until=end)
    fold.resync(other.state, end)
    fold.take(late)
    assert [one.op for one in fold.folded.changes].count("resync") == 1
    assert not fold.folded.errors
    whole = folded_rows(every)
    assert (
        contents(fold.state.image)
        == contents(whole.state.image)
        == history_at(fold, every[-1].offset + 1)
    )


def test_a_topic_goes_with_its_partitions_and_configs() -> None:
    fold = folded(
        TopicRecord(name="a", topic_id=TOPIC),
        PartitionRecord(topic_id=TOPIC, partition_id=0, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="7"),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1, isr=[]),
        RemoveTopicRecord(topic_id=TOPIC),
    )
    assert [(c.offset, c.n, c.entity, c.op, c.topic) for c in fold.folded.changes] == [
        (0, 0, "topic", "set", "a"),
        (1, 0, "partition", "set", "a"),
        (2, 0, "config", "set", "a"),
        (3, 0, "partition", "patch", "a"),
        (4, 0, "partition", "delete", "a"),
        (4, 1, "config", "delete", "a"),
        (4, 2, "topic", "delete", "a"),
    ]
    assert [
        (one.since.offset, one.until.offset, one.fields["leader"])
        for one in fold.folded.closed["partition"]
    ] == [
        (1, 3, 1),
        (3, 4, -1),
    ]
    assert not contents(fold.state.image)


def test_an_aborted_transaction_never_was_and_an_open_one_waits_over_a_restart() -> None:
    create = (BeginTransactionRecord(), TopicRecord(name="a", topic_id=TOPIC))
    fold = folded(*create, AbortTransactionRecord(), *create)
    assert not fold.folded.changes and len(fold.state.held) == 2
    again = Fold(fold.state)
    again.take(rows(*create, AbortTransactionRecord(), *create, EndTransactionRecord()))
    assert [(c.offset, c.effective_offset, c.key) for c in again.folded.changes] == [
        (4, 5, str(TOPIC))
    ]
    assert again.state.since["topic"] == {(TOPIC,): (5, 5000)}
    assert not again.state.held


def test_changes_within_a_transaction_are_one_version() -> None:
    fold = folded(
        BeginTransactionRecord(), TopicRecord(name="a", topic_id=TOPIC),
        PartitionRecord(topic_id=TOPIC, partition_id=0, replicas=[1], isr=[1], leader=1),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2), EndTransactionRecord(),
    )  # fmt: skip
    assert len(fold.folded.changes) == 3 and not fold.folded.closed["partition"]


def test_records_of_a_snapshot_behind_others_are_told() -> None:
    fold = folded(VERSION, TopicRecord(name="a", topic_id=TOPIC))
    with pytest.raises(DataLossError, match="before offset 2 were read: what was between is gone"):
        fold.take(rows(VERSION, TopicRecord(name="b", topic_id=OTHER), at=100))


def test_state_behind_a_gap_is_taken_by_its_difference() -> None:
    fold = folded(
        VERSION,
        TopicRecord(name="a", topic_id=TOPIC),
        BeginTransactionRecord(),
        TopicRecord(name="c", topic_id=OTHER),
    )
    fold.folded = Folded()
    fold.resync(folded(VERSION, TopicRecord(name="b", topic_id=OTHER)).state, 100)
    found = [(one.offset, one.n, one.op, one.type, one.key) for one in fold.folded.changes]
    assert found == [
        (99, -1, "resync", "", ""),
        (99, 0, "delete", "", str(TOPIC)),
        (99, 1, "set", "TOPIC_RECORD", str(OTHER)),
    ]
    assert fold.folded.changes[0].before == '{"nextOffset":4}'
    assert fold.state.since["feature"] == {("metadata.version",): (0, 0)}
    assert (fold.state.next_offset, fold.state.last_time, fold.state.held) == (100, None, [])
    fold.take(rows(RemoveTopicRecord(topic_id=OTHER), at=100))
    assert not fold.folded.errors and not fold.state.image.topics


@pytest.mark.parametrize("level", [20, 21])
def test_snapshot_of_an_upgraded_cluster_is_recognized_by_repeated_records(level: int) -> None:
    fold = folded(VERSION, TopicRecord(name="a", topic_id=TOPIC))
    upgraded = FeatureLevelRecord(name="metadata.version", feature_level=level)
    with pytest.raises(DataLossError):
        fold.take(rows(upgraded, TopicRecord(name="a", topic_id=TOPIC), at=50))


def test_an_upgrade_behind_a_control_record_is_no_reset() -> None:
    fold = folded(VERSION, TopicRecord(name="a", topic_id=TOPIC))
    fold.take(
        rows(
            FeatureLevelRecord(name="metadata.version", feature_level=21),
            TopicRecord(name="b", topic_id=OTHER),
            at=3,
        )
    )
    assert {one.op for one in fold.folded.changes} == {"set"}
    assert len(fold.state.image.topics) == 2


def test_snapshot_records_without_a_gap_are_told() -> None:
    fold = folded(VERSION, TopicRecord(name="a", topic_id=TOPIC))
    with pytest.raises(DataLossError, match="build the tables anew"):
        fold.take(rows(TopicRecord(name="a", topic_id=TOPIC), at=2))


def test_a_broker_that_registers_again_after_an_upgrade_is_no_reset() -> None:
    broker = RegisterBrokerRecord(broker_id=1, broker_epoch=4)
    fold = folded(VERSION, broker)
    fold.take(rows(FeatureLevelRecord(name="metadata.version", feature_level=21), broker, at=3))
    assert {one.op for one in fold.folded.changes} == {"set"}


def test_secrets_are_nowhere_and_a_new_one_is_a_new_version() -> None:
    keys = {"salt": b"s3cret", "stored_key": b"s3cret", "server_key": b"s3cret"}
    user = UserScramCredentialRecord(name="ann", mechanism=1, iterations=4096, **keys)
    password = ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.keystore.password", value="s3cret"
    )
    fold = folded(user, user, password, password, BeginTransactionRecord(), user)
    assert "s3cret" not in repr(fold.folded)
    assert all(b"s3cret" not in (row.value or b"") for row in fold.state.held)
    assert fold.state.image.scram[1, "ann"].salt == b"(redacted)"
    assert [(one.since.offset, one.until.offset) for one in fold.folded.closed["user"]] == [(0, 1)]
    assert [one.after for one in fold.folded.changes[2:]] == [
        '{"resourceType":"broker","resourceName":"1","name":"ssl.keystore.password",'
        '"value":"(redacted)"}'
    ] * 2


def test_ignored_rows_are_reported() -> None:
    fold = Fold()
    fold.take(
        [
            *rows(RemoveTopicRecord(topic_id=TOPIC)),
            Row(1, 5, b"\x01\x7f"),
            Row(2, 5, None, error="a damaged batch"),
            *rows(EndTransactionRecord(), at=3),
        ]
    )
    assert [(one.offset, one.error.split(",")[0]) for one in fold.folded.errors] == [
        (0, f"RemoveTopicRecord for topic {TOPIC}"), (1, fold.folded.errors[1].error.split(",")[0]),
        (2, "a damaged batch"), (3, "EndTransactionRecord at offset 3"),
    ]  # fmt: skip
    assert fold.state.next_offset == 4
    with pytest.raises(
        FoldError, match=f"offset 0: RemoveTopicRecord for topic {TOPIC}, which does not exist"
    ):
        Fold(fail_fast=True).take(rows(RemoveTopicRecord(topic_id=TOPIC)))


def test_log_that_begins_after_a_gap_is_reported() -> None:
    fold = Fold()
    fold.take(rows(TopicRecord(name="a", topic_id=TOPIC), at=40))
    assert [one.offset for one in fold.folded.errors] == [40]
    assert "what was before is missing" in fold.folded.errors[0].error


def test_rows_that_were_folded_pass() -> None:
    fold = folded(VERSION, TopicRecord(name="a", topic_id=TOPIC))
    fold.folded = Folded()
    fold.take(
        rows(VERSION, TopicRecord(name="a", topic_id=TOPIC), TopicRecord(name="b", topic_id=OTHER))
    )
    assert [one.offset for one in fold.folded.changes] == [2]


def test_fold_that_is_dropped_releases_its_image() -> None:
    with no_reference_cycles(Fold, Image):
        folded(TopicRecord(name="a", topic_id=TOPIC))
