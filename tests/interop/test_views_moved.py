"""A consumer group of a view moves between two servers of one cluster, of which one has the log
from offset 0 and the other one from a snapshot, and takes its committed offsets along.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from gateway.ports.view_topics import view_topic
from kwire.cluster import view_offsets as offsets
from tests.documented import blocks, commands
from tests.gateway.views.view_reading import opened
from tests.interop.clients import need_clients
from tests.interop.reading import Record, first_difference
from tests.interop.test_views import expected_records
from tests.shared import needs_shared
from tools import java, java_tools
from tools.gateway_process import Gateway, gateway

pytestmark = needs_shared

_VIEW: Final = "partitions"
_TOPIC: Final = view_topic(_VIEW)
_MOVES: Final = 3
_POLL_S: Final = 20.0


def read(server: Gateway, enough: Any) -> list[Record]:
    """The records that a member of the group gets until ``enough(record)``; it commits behind that
    one and leaves.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "group.id": "moved"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    found: list[Record] = []
    try:
        consumer.subscribe([_TOPIC])
        while not found or not enough(found[-1]):
            message = consumer.poll(_POLL_S)
            assert message is not None and message.error() is None, message
            offset, timestamp = message.offset(), message.timestamp()[1]
            assert offset is not None
            found.append(Record(offset, timestamp, message.key(), message.value()))
        position = TopicPartition(_TOPIC, 0, found[-1].offset + 1)
        consumer.commit(offsets=[position], asynchronous=False)
    finally:
        consumer.close()
    return found


def documented() -> list[list[str]]:
    """The commands of the page that move a group: one for the old server and one for the new."""
    return [
        words
        for block in blocks()
        if block.page == "docs/views.md"
        for words in commands(block)
        if words[0] == "kafka-consumer-groups.sh"
    ]


def move(old: Gateway, new: Gateway, file: Path) -> None:
    """Run the commands of the page; the output of the first one is the file of the second one."""
    take, bring = documented()
    names = {"old:9092": old.bootstrap, "new:9092": new.bootstrap, "my-group": "moved"}
    names |= {"__cluster_metadata.topics": _TOPIC, "offsets.csv": str(file)}
    file.write_text(
        java_tools.run_tool(java.CONSUMER_GROUPS, [names.get(word, word) for word in take[1:]])
    )
    java_tools.run_tool(java.CONSUMER_GROUPS, [names.get(word, word) for word in bring[1:]])


def test_group_that_moves_with_its_offsets_reads_each_record_once(
    logs: Any, tmp_path: Path
) -> None:
    need_clients()
    whole, part = (logs("p-quorum") / f"nodes/{node}/__cluster_metadata-0" for node in (3, 4))
    snapshot_end = opened(part).snapshot_end
    assert opened(whole).snapshot_end == 0 < snapshot_end
    end = offsets.at(min(opened(one).high_watermark for one in (whole, part)))
    chance = random.Random(17)
    with (
        gateway("--source", "log", "--log-dir", str(whole)) as one,
        gateway("--source", "log", "--log-dir", str(part)) as other,
    ):
        expected = [
            record
            for record in expected_records(whole, _VIEW, one.ready["cluster_id"])
            if record.offset < end
        ]
        behind = [record.offset for record in expected if record.offset >= offsets.at(snapshot_end)]
        assert len(behind) > 100
        stops = [*sorted(chance.sample(behind[:-1], _MOVES)), behind[-1]]
        servers, found = (one, other), list[Record]()
        for number, stop in enumerate(stops):
            old, new = servers[(number - 1) % 2], servers[number % 2]
            if number:
                move(old, new, tmp_path / "offsets.csv")
            found += read(new, lambda record, stop=stop: record.offset >= stop)
        assert not first_difference(found, expected)


def test_page_has_both_commands() -> None:
    assert [("--export" in words, "--from-file" in words) for words in documented()] == [
        (True, False),
        (False, True),
    ]
