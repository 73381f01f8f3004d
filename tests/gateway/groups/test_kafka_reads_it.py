"""Kafka's tool reads the coordinator's records, and the coordinator reads those of Kafka's
``__consumer_offsets``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.groups.group import State
from gateway.groups.records import restore_groups
from gateway.groups.usage import Usage
from gateway.log.offsets.offset_store import OffsetStore
from kwire.records import decode_batches
from tests.gateway.groups.script import START_MS, Script
from tests.gateway.log.offset_store_files import SEGMENT
from tools import java, java_tools
from tools.kafka import kafka

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka and its tools need java"),
]


def test_dump_log_segments_decodes_every_record(tmp_path: Path) -> None:
    script, store = Script(), OffsetStore(tmp_path)
    for line in (
        "join a instance=one topics=t,u",
        "sync a id=one-1 gen=1 instance=one assign=one-1:x",
        "commit a id=one-1 gen=1 instance=one offset=5 epoch=3 meta=why",
        "commit b group=simple offset=6 retention=1000",
        "delete x group=simple",
    ):
        script.command(line)
    store.append(script.written, START_MS)
    store.close()
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", str(tmp_path / SEGMENT), "--offsets-decoder"]
    )
    assert "isvalid: true" in said
    records = [
        line.partition(" key: ")[2].partition(" payload: ")
        for line in said.splitlines()
        if line.startswith("| ")
    ]
    keys = [json.loads(key)["data"] for key, _, _ in records]
    values = [json.loads(value)["data"] if value != "<DELETE>" else None for _, _, value in records]
    offsets = [{"group": name, "topic": "t", "partition": 0} for name in ("g", "simple", "simple")]
    assert keys == [{"group": "g"}, *offsets]
    assert values[1:] == [
        {"offset": 5, "leaderEpoch": 3, "metadata": "why", "commitTimestamp": START_MS},
        {
            "offset": 6,
            "metadata": "",
            "commitTimestamp": START_MS,
            "expireTimestamp": START_MS + 1000,
        },
        None,
    ]
    group: Any = values[0]
    assert (group["generation"], group["protocol"], group["protocolType"]) == (
        1,
        "range",
        "consumer",
    )
    (member,) = group["members"]
    assert member["memberId"] == group["leader"]
    assert (member["groupInstanceId"], member["subscription"]["topics"]) == ("one", ["t", "u"])


def test_dump_log_segments_reads_a_compacted_log(tmp_path: Path) -> None:
    script, store = Script(), OffsetStore(tmp_path)
    for line in (
        "commit x group=gone offset=1",
        "commit a group=simple offset=6",
        "delete x group=gone",
    ):
        script.command(line)
    store.append(script.written, START_MS)
    store.compact()
    store.close()
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", str(tmp_path / SEGMENT), "--offsets-decoder"]
    )
    batches = [line for line in said.splitlines() if line.startswith("baseOffset: ")]
    assert len(batches) == 3 and all("isvalid: true" in line for line in batches)
    assert sum(line.startswith("| ") for line in said.splitlines()) == 1


def test_groups_of_real_kafka_are_read() -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    with kafka() as cluster:
        cluster.tool(java.TOPICS, ["--create", "--topic", "t"])
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("t", b"x").get(10)
        with KafkaConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap,
            group_id="g",
            group_instance_id="one",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            while not consumer.poll(1000):
                pass
            consumer.commit()
            assert consumer.committed(TopicPartition("t", 0)) == 1
            records = _newest(cluster)
    (group,) = restore_groups(list(records.items()), Usage(), START_MS).values()
    assert (group.group_id, group.state, group.generation) == ("g", State.STABLE, 1)
    assert group.subscribed_topics == {"t"}  # type: ignore[comparison-overlap]
    assert list(group.static_members) == ["one"]
    assert group.members[group.static_members["one"]].assignment
    assert group.offsets[("t", 0)].offset == 1


def _newest(cluster: Any) -> dict[bytes, bytes]:
    """The newest value of every key of the cluster's ``__consumer_offsets``."""
    found: dict[bytes, bytes] = {}
    for path in [
        path for node in cluster.nodes for path in node.log_dir.glob("__consumer_offsets-*/*.log")
    ]:
        for batch in decode_batches(path.read_bytes()):
            for record in batch.records:
                assert record.key is not None
                found.pop(record.key, None)
                if record.value is not None:
                    found[record.key] = record.value
    return found
