"""Stock clients read and follow every stored Kafka log, served from its directory.

All clients read a log at once. Then real batches are appended, as Kafka would, and every client
must get them. Then the clients leave, and the committed offset of a group must be the end that it
read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from tests.interop.clients import ASSIGN, GROUP, WAYS, Way, need_clients
from tests.interop.commands import ConsoleConsumer, Kcat
from tests.interop.conftest import READ
from tests.interop.reading import Record, digest, first_difference
from tests.interop.session import Decision, read_with_every_client
from tests.interop.truth import Log, log_of
from tests.shared import needs_shared
from tools.gateway_process import gateway

pytestmark = needs_shared

_QUORUM = (*(f"nodes/{node}" for node in (1, 2, 3, 4, 101, 102, 103)), "side/nodes/3")
#: Log -> its nodes; ``side/`` are the directories of nodes that were cut off. The whole quorum is
#: read once: its nodes have the same records.
DIRECTORIES = {
    "p-abort": ("nodes/1", "side/nodes/1"),
    "p-large": ("nodes/1",),
    "p-old": ("nodes/1",),
    "p-one-basic": ("nodes/1",),
    "p-one-segments": ("nodes/7",),
    "p-quorum": _QUORUM,
    "p-quorum-short": ("nodes/1", "nodes/101", "side/nodes/3"),
    "p-upgrade": ("nodes/1",),
}
_SERVED = [(log, node) for log, nodes in DIRECTORIES.items() for node in nodes]
_APPENDED = 5


def ways_of(log: str, node: str) -> list[Way]:
    """The clients that read this directory. Java's reads one of each log, in a group or without
    one: its start takes seconds, and the nodes of a quorum have the same records. One group reads
    the largest log.
    """
    javas = ASSIGN if log == "p-large" else GROUP
    return [
        way
        for way in WAYS
        if (
            way.mode == javas and node == DIRECTORIES[log][0]
            if way.reader is ConsoleConsumer
            else log != "p-large" or way.mode == ASSIGN or way.reader is Kcat
        )
    ]


@dataclass
class Reading:
    """One served directory: its records, the appended ones, and the outcome of each client."""

    name: str
    log: Log
    added: Sequence[Record]
    outcomes: dict[Way, Decision]


@pytest.fixture(scope="module", params=_SERVED, ids="/".join)
def reading(request: Any, logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    need_clients()
    name, node = request.param
    log, copy = copied(logs(name), node, tmp_path_factory.mktemp("served"))
    batches = list(new_batches(log))
    added = [record for _, records in batches for record in records]

    def append() -> int:
        for data, _ in batches:
            with (copy / log.segments[-1].name).open("ab") as segment:
                segment.write(data)
        return len(added)

    with gateway("--source", "log", "--log-dir", str(copy)) as server:
        count = len(log.snapshot_values()) + len(log.records())
        outcomes = read_with_every_client(
            server.bootstrap, CLUSTER_METADATA_TOPIC, count, append, ways_of(name, node)
        )
        yield Reading(f"{name}/{node}", log, added, outcomes)


def copied(unpacked: Path, node: str, target: Path) -> tuple[Log, Path]:
    """The records of a node's directory, and a writable copy of it."""
    truth = unpacked / node.replace("nodes", "truth")
    copy = target / "data"
    shutil.copytree(unpacked / node, copy)
    return log_of(
        unpacked / node / CLUSTER_METADATA_PARTITION, truth
    ), copy / CLUSTER_METADATA_PARTITION


def new_batches(log: Log) -> Iterator[tuple[bytes, list[Record]]]:
    """Bytes and records of the log's last data batches again, at the offsets behind its end."""
    offset = log.end_offset
    for batch in log.data_batches()[-_APPENDED:]:
        shift = offset - batch.base_offset
        records = [record._replace(offset=record.offset + shift) for record in batch.records()]
        yield batch.moved_to(offset, log.last_epoch), records
        offset += batch.last_offset - batch.base_offset + 1


def test_every_client_reads_and_follows_every_record(reading: Reading) -> None:
    expected, start = [*reading.log.records(), *reading.added], reading.log.start_offset
    wrong = {}
    for way, decision in reading.outcomes.items():
        prefix = [record for record in decision.records if record.offset < start]
        rest = decision.records[len(prefix) :]
        wrong[str(way)] = decision.error or first_difference(rest, expected)
        if not wrong[str(way)]:
            check_prefix(prefix, reading.log)
        READ.append((reading.name, str(way), len(decision.records), digest(decision.records)))
    assert not any(wrong.values()), wrong


def check_prefix(prefix: Sequence[Record], log: Log) -> None:
    """The records below the log start are those of the snapshot at which it starts, in order."""
    assert [(record.key, record.value) for record in prefix] == log.snapshot_values()
    offsets = [record.offset for record in prefix]
    assert offsets == sorted(set(offsets)), "offsets of the snapshot's records do not grow"
    assert all(0 <= offset < log.start_offset for offset in offsets)


def test_all_clients_read_the_same(reading: Reading) -> None:
    digests = {str(way): digest(decision.records) for way, decision in reading.outcomes.items()}
    assert len(set(digests.values())) == 1, digests


def test_every_group_commits_the_end_offset(reading: Reading) -> None:
    groups = {str(way): one for way, one in reading.outcomes.items() if way.mode == GROUP}
    assert groups
    # Added batches are data, so the offset behind the last one is both the position and the end.
    end = reading.added[-1].offset + 1
    assert {way: (one.committed, one.error) for way, one in groups.items()} == dict.fromkeys(
        groups, (end, "")
    )


def served_once(directory: Path, count: int, *options: str) -> list[Record]:
    """The records that one client reads of ``directory`` from the beginning, served by a new
    server.
    """
    with gateway("--source", "log", "--log-dir", str(directory), *options) as server:
        way = next(
            way for way in WAYS if (way.reader.client, way.mode) == ("confluent-kafka", ASSIGN)
        )
        decision = read_with_every_client(
            server.bootstrap, CLUSTER_METADATA_TOPIC, count, lambda: 0, [way]
        )[way]
    assert not decision.error
    return list(decision.records)


def test_snapshot_prefix_is_the_same_after_a_restart_and_can_be_disabled(
    logs: Any, tmp_path: Path
) -> None:
    need_clients()
    log, copy = copied(logs("p-one-segments"), "nodes/7", tmp_path)
    count = len(log.snapshot_values()) + len(log.records())
    assert digest(served_once(copy, count)) == digest(served_once(copy, count))
    assert served_once(copy, len(log.records()), "--no-snapshot-prefix") == log.records()
