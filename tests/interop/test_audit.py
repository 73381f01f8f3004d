"""Stock consumers read the audit topic: each acknowledged change once, with its records, also
after the leader was killed and for requests in an Envelope.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.protocol.topic import GROUP_METADATA_TOPIC
from kwire.records import decode_metadata_record
from tests.gateway.controller.cluster import made
from tests.interop.clients import missing, need_clients, need_java
from tests.interop.conftest import FIGURES
from tests.interop.reading import Record
from tests.interop.session import read_with_every_client
from tests.kwire.spark.session import spark_session
from tests.shared import mistyped
from tests.waiting import PATIENCE_S, until
from tools.consistency_checker import faults
from tools.consistency_checker.history import Outcome
from tools.consistency_checker.journal import read_journal
from tools.consistency_checker.run import under_load
from tools.consistency_checker.writers import id_of
from tools.gateway_process import KWIRE
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.real_brokers import FIRST_ID, SESSIONS, real_brokers
from tools.wire_client import WireClient

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "audit.md"
_SEED = 590
#: Kafka's broker logs this as an error about each replica that a reassignment adds.
_USUAL = "to exist, but it was missing. Creating..."


def changes(bootstrap: str) -> list[dict[str, Any]]:
    """The changes of clients in the audit topic, by confluent-kafka, with partition and offset of
    each.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    found: list[dict[str, Any]] = []
    try:
        described = consumer.list_topics(AUDIT_TOPIC, timeout=PATIENCE_S).topics[AUDIT_TOPIC]
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(AUDIT_TOPIC, number))[1]
            for number in described.partitions
        }
        consumer.assign(
            [TopicPartition(AUDIT_TOPIC, number, 0) for number, end in ends.items() if end]
        )
        while len(found) < sum(ends.values()):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(found)} of {ends}"
            assert message.error() is None and message.key() is None
            where: dict[str, Any] = {"partition": message.partition(), "at": message.offset()}
            found.append(json.loads(mistyped(message.value())) | where)
    finally:
        consumer.close()
    return [one for one in found if _is_of_client(one)]


def _is_of_client(change: dict[str, Any]) -> bool:
    """Whether no broker asked for the change: the first consumer has ``__consumer_offsets``
    created.
    """
    return {"type": "TOPIC", "name": GROUP_METADATA_TOPIC} not in change["resources"]


def log_records(bootstrap: str) -> dict[int, Any]:
    """Decoded records of the metadata log by offset, by kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    partition, found = TopicPartition(CLUSTER_METADATA_TOPIC, 0), {}
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(timeout_ms=500).get(partition, ()):
                found[record.offset] = decode_metadata_record(record.value)[2]
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("roles", ["controller", "broker,controller"])
def test_every_acknowledged_change_has_one_entry_although_leaders_are_killed(
    roles: str, tmp_path: Path
) -> None:
    """Writers ask every node; the leader is killed, then all nodes at once; then both topics are
    joined by offset.
    """
    with own_quorum(3, properties={**QUICK, "process.roles": roles}) as cluster:
        if roles != "controller":
            until(lambda: _in_sync(cluster) == [{1, 2, 3}], "the topic is created")
        with under_load(cluster, tmp_path / "journal", per_second=60) as run:
            run.writers.wait_for(3 * faults.APPENDS)
            for fault in (faults.kill_leader, faults.kill_all):
                fault(run, random.Random(_SEED))
        acknowledged = {
            one.id
            for one in read_journal(tmp_path / "journal")
            if one.outcome is Outcome.ACKNOWLEDGED
        }
        told = _until_there(cluster, acknowledged)
        if roles == "controller":
            _check_partitions(cluster, told)
        else:
            until(lambda: _in_sync(cluster) == [{1, 2, 3}], "all replicas")
            _check_loss_of_a_node(cluster, told)
        bootstrap = next(one.broker_address for one in cluster.nodes if one.process is not None)
        tail = f"kwire tail -b {bootstrap} --topic {AUDIT_TOPIC} --until-end -o json"
        printed = [json.loads(line)["change"] for line in _run(tail).splitlines()]
        assert sorted(one["offset"] for one in printed if _is_of_client(one)) == sorted(
            one["offset"] for one in told
        )
        forwarders = {
            None if one["forwarder"] is None else one["forwarder"]["client_id"] for one in told
        }
    FIGURES.append(
        f"{AUDIT_TOPIC}: {len(acknowledged)} acknowledged changes, {len(told)} told, forwarded "
        f"by {forwarders}"
    )
    assert None in forwarders and len(forwarders) > 1, (
        "some came straight to the leader, others in an Envelope"
    )
    offsets = [offset for one in told for offset in range(one["offset"], one["last_offset"] + 1)]
    assert len(offsets) == len(set(offsets)), "a record has one change"


def _until_there(cluster: OwnCluster, acknowledged: set[int]) -> list[dict[str, Any]]:
    """The changes, once none of the acknowledged ones is missing; each was made by one of them."""

    def seen() -> tuple[Counter[int], list[dict[str, Any]]]:
        records, told = log_records(cluster.bootstrap), changes(cluster.bootstrap)
        return Counter(id for one in told for id in _made_by(one, records)), told

    made, told = until(
        seen, "the acknowledged changes", lambda found: acknowledged <= found[0].keys()
    )
    assert {id for id, times in made.items() if times > 1} == set()
    return told


def _made_by(change: dict[str, Any], records: dict[int, Any]) -> list[int]:
    """The numbers of the appends whose records these are; one, and what it is about is what the
    change says.
    """
    own = [records[offset] for offset in range(change["offset"], change["last_offset"] + 1)]
    assert change["records"] == len(own)
    ids = [id for record in own if (id := id_of(record)) is not None]
    assert len(ids) == 1, (change, own)
    topic = {"type": "TOPIC", "name": f"loss-{ids[0]}"}
    by_api = {
        "CreateTopics": [topic],
        "IncrementalAlterConfigs": [{"type": "BROKER", "name": None}],
    }
    assert change["resources"] == by_api[change["api"]]
    return ids


def _in_sync(cluster: OwnCluster) -> list[set[int]]:
    """The replicas of the audit topic's partitions, once all of them are in sync."""
    with contextlib.closing(WireClient(cluster.nodes[0].broker_address)) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=AUDIT_TOPIC)])
        (topic,) = client.call(request, 12).topics
    assert all(set(one.replica_nodes) == set(one.isr_nodes) for one in topic.partitions)
    return [set(one.replica_nodes) for one in topic.partitions]


def _check_loss_of_a_node(cluster: OwnCluster, told: list[dict[str, Any]]) -> None:
    """Without the node that leads the quorum, and its disk, the others have the same entries."""
    lost = cluster.wait_for_leader()
    cluster.kill_node(lost)
    shutil.rmtree(lost.log_dir)
    left = ",".join(node.broker_address for node in cluster.nodes if node is not lost)
    offsets = sorted(one["offset"] for one in told)
    until(lambda: sorted(one["offset"] for one in changes(left)) == offsets, "the entries")


def _check_partitions(cluster: OwnCluster, told: list[dict[str, Any]]) -> None:
    """As every node says: one a node, led by it; and in each are the changes of that node, in the
    order of the log.
    """
    topics = [MetadataRequestTopic(name=None, topic_id=AUDIT_TOPIC_ID)]
    for node in cluster.nodes:
        with contextlib.closing(WireClient(node.broker_address)) as client:
            (topic,) = client.call(MetadataRequest(topics=topics), 13).topics
        leaders = [(one.partition_index, one.leader_id, one.error_code) for one in topic.partitions]
        assert (topic.name, leaders) == (AUDIT_TOPIC, [(0, 1, 0), (1, 2, 0), (2, 3, 0)])
    for number, node in enumerate(cluster.nodes):
        own = sorted((one for one in told if one["partition"] == number), key=lambda one: one["at"])
        assert {one["node_id"] for one in own} <= {node.node_id}
        assert [one["at"] for one in own] == list(range(len(own)))
        assert [one["offset"] for one in own] == sorted(one["offset"] for one in own)


def test_broker_of_kafka_leads_the_topic_and_the_node_hands_entries_over_to_it() -> None:
    need_clients()
    need_java()
    roles = {"process.roles": "broker,controller", **SESSIONS}
    with (
        own_quorum(1, formatted=True, properties=roles) as cluster,
        real_brokers(cluster, 1) as brokers,
    ):
        create(cluster, "a")
        until(lambda: _created(cluster.bootstrap) == ["a"], "the entry")
        for replicas in ([FIRST_ID, cluster.nodes[0].node_id], [FIRST_ID]):
            _reassign(cluster, replicas)
            until(lambda: _in_sync(cluster), "the reassignment", [set(replicas)].__eq__)
        create(cluster, "b", "c")
        until(lambda: _created(brokers.bootstrap) == ["a", "b", "c"], "the entries")
        assert [line for line in brokers.errors() if _USUAL not in line] == []


def _created(bootstrap: str) -> list[str]:
    """The topics that clients created, as the entries say in their order."""
    told = changes(bootstrap)
    return [one["resources"][0]["name"] for one in told if one["api"] == "CreateTopics"]


def _reassign(cluster: OwnCluster, replicas: list[int]) -> None:
    partition = {"partition_index": 0, "replicas": replicas}
    request = made(
        "AlterPartitionReassignmentsRequest",
        topics=[{"name": AUDIT_TOPIC, "partitions": [partition]}],
        timeout_ms=10_000,
    )
    with contextlib.closing(WireClient(cluster.nodes[0].broker_address)) as client:
        answer = client.call(request, 0)
    assert answer.responses[0].partitions[0].error_code == 0, answer


# --- one node, every client, and the page


@pytest.fixture(scope="module")
def one() -> Iterator[OwnCluster]:
    """A quorum of one that was killed after three changes."""
    need_clients()
    with own_quorum(1) as cluster:
        create(cluster, "a", "b", "c")
        (node,) = cluster.nodes
        cluster.kill_node(node)
        cluster.start_node(node)
        cluster.wait_for_node(node)
        yield cluster


def create(cluster: OwnCluster, *names: str, **more: Any) -> None:
    """A request for each of these topics."""
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap, client_id="the-admin")
    try:
        for name in names:
            admin.create_topics(
                [NewTopic(name=name, num_partitions=1, replication_factor=1)], **more
            )
    finally:
        admin.close()


def test_every_stock_client_reads_and_follows_the_audit_topic(one: OwnCluster) -> None:
    """Consumers with assigned partitions and in groups, which commit their offsets, read the
    entries from before kill -9 and those after.
    """

    def append() -> int:
        create(one, "checked", validate_only=True)  # no change
        create(one, "d")
        return 1

    outcomes = read_with_every_client(one.bootstrap, AUDIT_TOPIC, 3, append)
    assert {str(way): decision.error for way, decision in outcomes.items() if decision.error} == {}
    for way, decision in outcomes.items():
        assert [name for record in decision.records for name in _names(record)] == [
            "a",
            "b",
            "c",
            "d",
        ], way
        assert decision.committed in (None, 4), way


def _names(record: Record) -> list[str]:
    assert record.key is None
    told = json.loads(record.value or b"")
    assert (told["api"], told["client_id"], told["principal"]) == (
        "CreateTopics",
        "the-admin",
        "User:ANONYMOUS",
    )
    return [one["name"] for one in told["resources"]]


def _block(language: str, page: str, begins: str = "") -> str:
    """The first block of code in ``language`` that begins so."""
    found = re.search(rf"```{language}\n({begins}.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_commands_and_output_of_the_audit_page_are_right(one: OwnCluster) -> None:
    """The commands and the Python of docs/audit.md, and the members that it shows."""
    page = _PAGE.read_text(encoding="utf-8")
    shown = json.loads(_block("json", page))
    told = changes(one.bootstrap)
    assert all(
        list(shown) == [name for name in change if name not in ("partition", "at")]
        for change in told
    )
    for command in _block("bash", page).splitlines():
        printed = _run(command.replace("127.0.0.1:9092", one.bootstrap))
        assert printed.count("CreateTopics") == len(told), printed
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(
            _block("python", page, "import json"),
            {"server": one.bootstrap},
        )
    lines = said.getvalue().splitlines()
    assert len(lines) == len(told)
    assert all(
        line.endswith("User:ANONYMOUS 127.0.0.1 CreateTopics ['TOPIC_RECORD', 'PARTITION_RECORD']")
        for line in lines
    ), lines


def _run(line: str) -> str:
    words = re.findall(r"'[^']*'|\S+", line)
    words = [word.strip("'") for word in words]
    if words[0] == "kwire":
        words[:1] = KWIRE
    elif shutil.which(words[0]) is None:
        missing(f"{words[0]} is not on the PATH")
    if "kcat" in words[0]:
        words += ["-X", "socket.timeout.ms=10000"]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


def test_spark_query_of_the_audit_page_names_each_principal(one: OwnCluster) -> None:
    """Every record of the log with its principal, None for records that the controller wrote by
    itself.
    """
    names: dict[str, Any] = {"spark": spark_session(kafka=True), "server": one.bootstrap}
    block = re.search(
        r"```python\n(from pyspark.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    exec(block[1], names)
    rows = names["who_wrote"].select("at", "principal", "api").collect()
    wanted = {
        offset: told["api"]
        for told in changes(one.bootstrap)
        for offset in range(told["offset"], told["last_offset"] + 1)
    }
    assert {row["at"]: row["api"] for row in rows if row["principal"] is not None} == wanted
    assert len(rows) > len(wanted)
