"""Drives a Kafka quorum and the gateway that observes it through fail-overs, and keeps a report
for the tests.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire.protocol import CLUSTER_METADATA_PARTITION
from tests.interop.libraries import ConfluentKafka
from tests.interop.quorum import clipped, files_of, records_of, wait_for_end, wait_for_segments
from tests.interop.reading import Record
from tests.interop.restarts import Restarted
from tests.interop.truth import Batch, split
from tests.waiting import PATIENCE_S, until
from tools.kafka import Cluster, Node
from tools.metadata_load import Load

LEADERS_KILLED = 4
#: Requests that every new leader must have done before it is its turn.
LOAD_A_ROUND = 5
#: A snapshot every few seconds of the load, or none.
OFTEN, NEVER = 30_000, 1_000_000_000
_BYTES_BETWEEN = "metadata.log.max.record.bytes.between.snapshots"
#: In these rounds the leader is cut off before it dies: it writes what it cannot commit.
_CUT_OFF_ROUNDS = (1, 3)
#: In these rounds one voter is down.
_LEFT_BEHIND_ROUNDS = range(2, 4)


class Follower(ConfluentKafka):
    """Looks for its server more often than librdkafka does by itself, and never begins again by
    itself.
    """

    settings = {  # noqa: RUF012
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "auto.offset.reset": "error",
        "log_level": 2,
    }


@dataclass
class FailoverReport:
    """The report: the cluster and the gateway at the end, the committed records, and the
    records that the consumer got.
    """

    cluster: Cluster
    server: Restarted
    management: str
    data_dir: Path
    reader: Follower
    load: Load
    #: Where the gateway's log began: the end of the snapshot that it took first, and the snapshot.
    start: int
    snapshot: bytes
    truth: list[Batch] = field(default_factory=list)
    #: The batches of each voter, by node id.
    logs: dict[int, list[Batch]] = field(default_factory=dict)
    #: The batches that leaders wrote while they were cut off, from their files after they died.
    tails: list[list[Batch]] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Behind the last record of the truth."""
        return self.truth[-1].last_offset + 1

    @property
    def prefix(self) -> list[Record]:
        """The records of the snapshot, which a consumer is given first, at offsets below
        the start.
        """
        return records_of(split(self.snapshot))


def kill_leaders(report: FailoverReport) -> None:
    """Several times: the leader dies, and comes back while another one leads and takes requests."""
    left_behind: Node | None = None
    for number in range(LEADERS_KILLED):
        cluster, leader = report.cluster, report.cluster.wait_for_leader()
        others = [node for node in controllers(cluster) if node is not leader]
        if number == _LEFT_BEHIND_ROUNDS.start:
            left_behind = others.pop()
            cluster.kill_node(left_behind)
        others = [node for node in others if node is not left_behind]
        if number in _CUT_OFF_ROUNDS:
            cut_off(report, leader, others)
        else:
            cluster.kill_node(leader)
        cluster.start_node(leader)
        if left_behind is not None and number == _LEFT_BEHIND_ROUNDS.stop - 1:
            cluster.start_node(left_behind)
            left_behind = None
        report.load.wait_for(LOAD_A_ROUND)


def cut_off(report: FailoverReport, leader: Node, others: list[Node]) -> None:
    """The leader writes while it is cut off, and dies: no record of that is ever committed.

    It appends three batches. A Fetch that a voter sent before it was suspended takes the first one,
    or the second one: the voter finds it in its socket, and it is committed later.
    """
    for node in others:
        report.cluster.pause_node(node)
    written = files_of(leader)
    before = written[-1].last_offset
    until(lambda: len(files_of(leader)) >= len(written) + 3, "the leader writes alone")
    report.cluster.kill_node(leader)
    report.tails.append(clipped(files_of(leader), None, start=before + 1))
    for node in others:
        report.cluster.resume_node(node)


def settle(report: FailoverReport) -> None:
    """Wait until all nodes have the same log end. The truth is the part of the log that all
    voters hold.
    """
    cluster, leader = report.cluster, report.cluster.wait_for_leader()
    for node in controllers(cluster):
        cluster.wait_for_node(node)
    end = files_of(leader)[-1].last_offset + 1
    wait_for_end(report.server.address, end)
    report.logs = {node.node_id: wait_for_segments(node, end) for node in controllers(cluster)}
    whole = min(report.logs.values(), key=lambda log: log[0].base_offset)
    report.truth = clipped(whole, None, report.start)
    report.reader.read_until(len(report.prefix) + len(records_of(report.truth)))


def lost(report: FailoverReport) -> list[Batch]:
    """Batches that a leader wrote and no quorum committed."""
    kept = {batch.data for batch in report.truth}
    return [batch for tail in report.tails for batch in tail if batch.data not in kept]


def end_of_copy(data_dir: Path) -> int:
    """Behind the last batch in the segments of the gateway's directory."""
    return copied(data_dir)[-1].last_offset + 1


def copied(data_dir: Path) -> list[Batch]:
    """The batches in the segments of the gateway's directory."""
    segments = sorted((data_dir / CLUSTER_METADATA_PARTITION).glob("*.log"))
    return [batch for one in segments for batch in split(one.read_bytes(), growing=True)]


def newest_snapshot(node: Node) -> int:
    """The end offset of the node's newest snapshot, 0 without one."""
    return max(
        (int(path.name.partition("-")[0]) for path in node.metadata_log_dir.glob("*.checkpoint")),
        default=0,
    )


def with_snapshots(cluster: Cluster, bytes_between: int) -> None:
    """Every controller, one after the other, starts again with a snapshot after so many bytes of
    records.
    """
    for node in controllers(cluster):
        cluster.kill_node(node)
        cluster.configure_node(node, {_BYTES_BETWEEN: str(bytes_between)})
        _come_back(cluster, node)


def lose_disks(cluster: Cluster, above: int, bytes_between: int) -> None:
    """Every controller, one after the other, comes back with an empty disk: what is left of the log
    below the newest snapshot is that snapshot. First, under load, they get one above offset
    ``above``. Then there is one after ``bytes_between``.
    """
    with Load(cluster.controllers.split(","), per_second=60) as load:
        while newest_snapshot(cluster.wait_for_leader()) <= above:
            load.wait_for(10)
    for node in controllers(cluster):
        cluster.kill_node(node)
        cluster.wipe_node(node)
        cluster.configure_node(node, {_BYTES_BETWEEN: str(bytes_between)})
        _come_back(cluster, node)


def controllers(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.nodes if node.is_controller()]


def _come_back(cluster: Cluster, node: Node) -> None:
    """Start a voter; returns when it has what the leader has."""
    end = files_of(cluster.wait_for_leader())[-1].last_offset + 1
    cluster.start_node(node)
    cluster.wait_for_node(node)
    wait_for_segments(node, end)


def readiness(management: str) -> dict[str, Any]:
    """The body of ``/readyz`` at the management port ``host:port``."""
    try:
        with urllib.request.urlopen(f"http://{management}/readyz", timeout=PATIENCE_S) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        said = error.read()
    return dict(json.loads(said))
