"""Three nodes of kwire, each broker and controller, under Kafka's own tools: replicas are moved,
leaders elected, replicas compared, quotas set; and each node is restarted in turn while a producer
waits for no failure and a Streams application counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.jars.maven import MavenError
from tests.interop.brokers import partitions
from tests.interop.clients import missing, need_clients, need_java
from tests.interop.test_streams import TIMES, WORDS, Counts, application
from tests.waiting import until
from tools import java, streams_jars
from tools.own_quorum import OwnCluster, own_quorum
from tools.partition_checker.brokers import COMBINED
from tools.process import Process

pytestmark = pytest.mark.interop

_TOOLS = "org.apache.kafka.tools"
_CONFIGS = "kafka.admin.ConfigCommand"
_PROPERTIES = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    need_java()
    need_clients()
    with own_quorum(3, properties={**_PROPERTIES, **COMBINED}) as running:
        defaults = ["--entity-type", "brokers", "--entity-default"]
        alter = ["--alter", "--add-config", "min.insync.replicas=2", *defaults]
        running.tool(_CONFIGS, alter)
        yield running


def create(cluster: OwnCluster, topic: str, replicas: str) -> None:
    """A topic whose partitions have these replicas, separated by commas."""
    arguments = ["--create", "--topic", topic, "--replica-assignment", replicas]
    cluster.tool(f"{_TOOLS}.TopicCommand", arguments)


class Writer:
    """An idempotent producer that expects no failure."""

    def __init__(self, cluster: OwnCluster) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
        self._producer = Producer(settings)
        self._failed: list[object] = []

    def write(self, topic: str, values: Iterable[str]) -> None:
        """Hand records over, whose keys are their values."""
        for value in values:
            data = value.encode()
            self._producer.produce(topic, data, data, on_delivery=self._delivered)
            self._producer.poll(0)

    def finish(self) -> None:
        """Wait until all of them are acknowledged."""
        assert self._producer.flush(120) == 0
        assert self._failed == []

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)


def produce(cluster: OwnCluster, topic: str, count: int) -> None:
    writer = Writer(cluster)
    writer.write(topic, (f"record-{number}" for number in range(count)))
    writer.finish()


def wait_for_all_in_sync(cluster: OwnCluster, *topics: str) -> None:
    for topic in topics:
        until(
            partial(partitions, cluster, topic),
            f"all replicas of {topic} are in sync",
            lambda told: all(one.in_sync == frozenset(one.replicas) for one in told),
        )


def throttles(cluster: OwnCluster) -> set[tuple[str, str]]:
    """The limits of replication that brokers and topics have, by name and value."""
    told = "".join(
        cluster.tool(_CONFIGS, ["--describe", "--entity-type", kind])
        for kind in ("brokers", "topics")
    )
    return set(re.findall(r"^\s*(\w+\.replication\.throttled\.\w+)=(\S*)", told, re.MULTILINE))


def test_reassignment_moves_replicas_under_a_throttle_by_the_letter(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    create(cluster, "moved", "1:2,2:3")
    produce(cluster, "moved", 500)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": "moved"}], "version": 1}))
    tool = f"{_TOOLS}.reassign.ReassignPartitionsCommand"
    proposed = cluster.tool(
        tool, ["--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3", "--generate"]
    )
    assert "Proposed partition reassignment configuration" in proposed
    plan = tmp_path / "plan.json"
    wanted = [
        {"topic": "moved", "partition": index, "replicas": replicas}
        for index, replicas in enumerate(([3, 1], [1, 2, 3]))
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    moves = ["--reassignment-json-file", str(plan)]
    done = cluster.tool(tool, [*moves, "--execute", "--throttle", "10000000"])
    assert "Successfully started partition reassignments for moved-0,moved-1" in done
    throttled = {
        f"{side}.replication.throttled.{what}"
        for side in ("leader", "follower")
        for what in ("rate", "replicas")
    }
    # Here and below the broker that is asked may not have fetched the change yet.
    until(
        lambda: {name for name, _ in throttles(cluster)},
        "the throttle is on",
        lambda names: names == throttled,
    )
    verify = [*moves, "--verify"]
    told = until(
        lambda: cluster.tool(tool, verify),
        "the moves are over",
        lambda text: "is still" not in text,
    )
    for index in range(2):
        assert f"Reassignment of partition moved-{index} is completed." in told
    until(
        lambda: [list(one.replicas) for one in partitions(cluster, "moved")],
        "the replicas are the plan's",
        lambda replicas: replicas == [[3, 1], [1, 2, 3]],
    )
    until(lambda: throttles(cluster), "the throttle is off", lambda left: not left)
    assert "No partition reassignments found" in cluster.tool(tool, ["--list"])


def test_election_gives_partitions_back_to_their_preferred_leader(cluster: OwnCluster) -> None:
    create(cluster, "led", "1:2:3,1:2:3")
    produce(cluster, "led", 10)
    node = cluster.node(1)
    cluster.stop_node(node)
    until(
        lambda: partitions(cluster, "led"),
        "another leader",
        lambda told: all(one.leader not in (1, -1) for one in told),
    )
    cluster.start_node(node)
    cluster.wait_for_node(node)
    wait_for_all_in_sync(cluster, "led")
    arguments = ["--election-type", "preferred", "--topic", "led", "--partition", "0"]
    said = cluster.tool(f"{_TOOLS}.LeaderElectionCommand", arguments)
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in said
    # A broker that has not fetched the election yet still names the leader of before.
    until(
        lambda: partitions(cluster, "led"),
        "the preferred leader",
        lambda told: told[0].leader == 1,
    )
    said = cluster.tool(f"{_TOOLS}.LeaderElectionCommand", arguments)
    assert "Valid replica already elected for partitions led-0" in said


def test_verification_finds_replicas_equal(cluster: OwnCluster, tmp_path: Path) -> None:
    create(cluster, "verified", "1:2:3,2:3:1,3:1:2")
    produce(cluster, "verified", 3000)
    arguments = ["--broker-list", cluster.bootstrap, "--topics-include", "verified", "--time", "-2"]
    line = java.command(
        f"{_TOOLS}.ReplicaVerificationTool",
        [*arguments, "--report-interval-ms", "1000"],
        version=cluster.version,
        options=java.QUICK_START,
        log_level="warn",
    )
    verifier = Process("kafka-replica-verification", line, tmp_path / "verification")
    try:
        said = until(
            verifier.output_end,
            "a report of the tool",
            lambda text: "max lag is 0 for partition verified-" in text,
        )
    finally:
        verifier.kill()
    assert "verification process is started" in said
    assert "among 3 partitions" in said
    assert "doesn't match" not in said and "ERROR" not in said


def test_log_dirs_and_quotas_by_the_letter(cluster: OwnCluster) -> None:
    create(cluster, "sized", "1:2:3")
    produce(cluster, "sized", 100)
    said = cluster.tool(f"{_TOOLS}.LogDirsCommand", ["--describe", "--topic-list", "sized"])
    report = json.loads(said.splitlines()[-1])
    sizes = {
        one["broker"]: partition["size"]
        for one in report["brokers"]
        for directory in one["logDirs"]
        for partition in directory["partitions"]
    }
    assert sizes.keys() == {1, 2, 3}
    assert len(set(sizes.values())) == 1 and min(sizes.values()) > 1000
    quota = ["--entity-type", "clients", "--entity-name", "app"]
    tool = _CONFIGS
    cluster.tool(tool, ["--alter", "--add-config", "producer_byte_rate=1000", *quota])
    assert "producer_byte_rate=1000" in cluster.tool(tool, ["--describe", *quota])
    cluster.tool(tool, ["--alter", "--delete-config", "producer_byte_rate", *quota])
    assert "producer_byte_rate" not in cluster.tool(tool, ["--describe", *quota])


def test_rolling_restart_fails_no_produce_and_streams_count_once(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    try:
        streams_jars.jars()
    except MavenError as error:
        missing(str(error))
    create(cluster, "words", "1:2:3,2:3:1,3:1:2")
    create(cluster, "counts", "1:2:3,2:3:1,3:1:2")
    writer, rounds = Writer(cluster), 0

    def count_words() -> None:
        nonlocal rounds
        rounds += 1
        writer.write("words", TIMES * WORDS)

    counts = Counts(cluster.bootstrap)
    running = application(cluster.bootstrap, tmp_path)
    try:
        count_words()
        counts.reach(lambda newest: max(newest, default=0) > 0, "the first counts")
        for node in cluster.nodes:
            count_words()
            cluster.stop_node(node)
            count_words()
            cluster.start_node(node)
            cluster.wait_for_node(node)
            wait_for_all_in_sync(cluster, "words", "counts", "__transaction_state")
        writer.finish()
        counts.reach(
            lambda newest: len(newest) == len(WORDS) and set(newest) == {rounds * TIMES},
            "each word is counted as often as it came",
        )
        assert running.running()
    finally:
        counts.close()
        running.kill()
    for word, read in counts.read.items():
        assert read == sorted(set(read)), f"{word} is counted once, and in order"
