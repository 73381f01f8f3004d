"""A gateway observes a Kafka quorum of three static voters under load, while leaders are
killed, suspended and cut off with records that are lost.

The gateway is killed, too. A consumer gets the committed records, and no others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kwire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from tests.interop.clients import need_clients
from tests.interop.conftest import READ
from tests.interop.failover import (
    LEADERS_KILLED,
    LOAD_A_ROUND,
    NEVER,
    OFTEN,
    FailoverReport,
    Follower,
    controllers,
    copied,
    end_of_copy,
    kill_leaders,
    lose_disks,
    lost,
    readiness,
    settle,
    with_snapshots,
)
from tests.interop.quorum import (
    QUICK_ELECTIONS,
    clipped,
    fetched_from,
    files_of,
    first_unequal,
    need_kafka,
    observing,
    offsets_of,
    records_of,
    wait_for_end,
    wait_for_segments,
)
from tests.interop.reading import digest, first_difference
from tests.interop.restarts import Restarted
from tests.interop.truth import split
from tests.waiting import until
from tools.admin import Admin
from tools.kafka import kafka
from tools.metadata_load import Load
from tools.metadata_nodes import wait_for
from tools.process import lasting_ports

_GATEWAYS_KILLED = 6
_PROPERTIES = {**QUICK_ELECTIONS, "metadata.log.max.record.bytes.between.snapshots": str(OFTEN)}
_SEED = 4
_KRAFT_VERSION, _KRAFT_VOTERS = 5, 6
_FEATURE_UPDATE_FAILED = 95


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailoverReport]:
    need_clients()
    need_kafka()
    scratch = tmp_path_factory.mktemp("failover")
    with ExitStack() as stack:
        cluster = stack.enter_context(
            kafka(
                brokers=1,
                controllers=3,
                static_voters=True,
                properties=_PROPERTIES,
            )
        )
        # No snapshots while the gateway is killed: after an election Kafka sends every replica that
        # lags, voters too, to a snapshot, and the new leader no longer has the records that the
        # consumer waits for.
        lose_disks(cluster, above=0, bytes_between=NEVER)
        management = f"127.0.0.1:{lasting_ports(1)[0]}"
        arguments = observing(cluster, scratch / "data", "--management-listener", management)
        server = stack.enter_context(Restarted(scratch, *arguments))
        reader = Follower(server.address, CLUSTER_METADATA_TOPIC, None)
        load = stack.enter_context(Load(cluster.controllers.split(","), per_second=30))
        report = FailoverReport(
            cluster,
            server,
            management,
            scratch / "data",
            reader,
            load,
            *taken_snapshot(scratch / "data"),
        )
        reader.start()
        load.wait_for(20)
        server.kill_at_random(_GATEWAYS_KILLED, random.Random(_SEED))
        kill_leaders(report)
        server.wait_for_kills(120)
        load.stop()
        settle(report)
        reader.stop()
        yield report


def taken_snapshot(data_dir: Path) -> tuple[int, bytes]:
    """End offset and bytes of the one snapshot in the gateway's directory."""
    [file] = (data_dir / CLUSTER_METADATA_PARTITION).glob("*.checkpoint")
    return int(file.name.partition("-")[0]), file.read_bytes()


def test_run_had_the_planned_kills_and_uncommitted_tails(report: FailoverReport) -> None:
    """Leaders and gateways were killed as planned, and leaders wrote records that were lost
    afterwards.
    """
    assert report.server.kills == _GATEWAYS_KILLED
    assert len({batch.epoch for batch in report.truth}) > LEADERS_KILLED
    assert len(lost(report)) > 0
    assert report.load.done >= LEADERS_KILLED * LOAD_A_ROUND


def test_gateway_began_with_a_snapshot_of_the_quorum(report: FailoverReport) -> None:
    assert report.start > 0
    assert report.truth[0].base_offset == report.start
    files = [
        file
        for node in controllers(report.cluster)
        for file in node.metadata_log_dir.glob(f"{report.start:020d}-*.checkpoint")
    ]
    assert report.snapshot in [file.read_bytes() for file in files]


def test_consumer_got_the_committed_records_only(report: FailoverReport) -> None:
    """The snapshot's records, then the quorum's records without gap, duplicate or lost record."""
    expected = records_of(report.truth)
    prefix = [record for record in report.reader.records if record.offset < report.start]
    seen = [
        record for record in report.reader.records if report.start <= record.offset < report.end
    ]
    assert [(record.key, record.value) for record in prefix] == [
        (record.key, record.value) for record in report.prefix
    ]
    assert not first_difference(seen, expected)
    READ.append(("quorum with fail-overs", "confluent-kafka-assign", len(seen), digest(seen)))


def test_gateway_serves_the_log_of_the_quorum(report: FailoverReport) -> None:
    """Its files and its responses have the quorum's bytes, and so has every voter from its log
    start on.
    """
    assert not first_unequal(clipped(copied(report.data_dir), report.end), report.truth)
    fetched = fetched_from(report.server.address, report.start, report.end)
    assert not first_unequal(clipped(fetched, report.end), report.truth)
    for node_id, log in report.logs.items():
        first = max(log[0].base_offset, report.start)
        assert not first_unequal(clipped(log, None, first), clipped(report.truth, None, first)), (
            f"node {node_id}"
        )


def test_gateway_behind_the_log_start_fetches_the_snapshot(report: FailoverReport) -> None:
    """While the gateway is down each voter loses its disk and replicates again from a snapshot: the
    records that the gateway lacks are in snapshots only.

    It must then hold a snapshot of the leader, byte for byte, and the leader's log behind it; a new
    consumer gets the records of the snapshot, then the log.
    """
    cluster, server = report.cluster, report.server
    server.kill()
    left_at = end_of_copy(report.data_dir)
    with_snapshots(cluster, OFTEN)
    lose_disks(cluster, above=left_at, bytes_between=NEVER)
    leader = cluster.wait_for_leader()
    end = files_of(leader)[-1].last_offset + 1
    log = wait_for_segments(leader, end)
    assert log[0].base_offset > left_at

    server.start()
    wait_for_end(server.address, end)
    start, snapshot = taken_snapshot(report.data_dir)
    assert start >= log[0].base_offset
    assert snapshot in [
        file.read_bytes() for file in leader.metadata_log_dir.glob(f"{start:020d}-*.checkpoint")
    ]
    first, _ = offsets_of(server.address)
    fetched = fetched_from(server.address, first, end)
    assert not first_unequal(clipped(fetched, end, start), clipped(log, end, start))
    prefix = [(record.key, record.value) for record in records_of(clipped(fetched, start))]
    assert prefix == [(record.key, record.value) for record in records_of(split(snapshot))]


def test_gateway_follows_the_successor_of_a_suspended_leader(report: FailoverReport) -> None:
    """A suspended leader keeps its connections open and answers nothing; when it resumes it
    believes for a while that it leads.
    """
    cluster, hung = report.cluster, report.cluster.wait_for_leader()
    with Load(cluster.controllers.split(",")) as load:
        cluster.pause_node(hung)
        leader = cluster.wait_for_leader()
        load.wait_for(5)
        wait_for_end(report.server.address, files_of(leader)[-1].last_offset + 1)
        cluster.resume_node(hung)
        load.wait_for(20)
    check_the_same(report)


def test_gateway_without_controllers_serves_committed_records(report: FailoverReport) -> None:
    """The gateway serves committed records, marked as stale, and follows controllers that
    return.
    """
    for node in controllers(report.cluster):
        report.cluster.kill_node(node)
    until(lambda: not readiness(report.management)["ready"], "it says that it is not ready")
    start, end = offsets_of(report.server.address)
    assert fetched_from(report.server.address, start, end)[-1].last_offset == end - 1
    report.server.kill()
    report.server.start()
    assert offsets_of(report.server.address) == (start, end), (
        "what is committed went back over a restart"
    )
    for node in controllers(report.cluster):
        report.cluster.start_node(node)
    with Load(report.cluster.controllers.split(",")) as load:
        load.wait_for(10)
    check_the_same(report)
    until(lambda: readiness(report.management), "it is ready", lambda told: told["ready"])


def test_gateway_follows_the_upgrade_to_dynamic_voters(report: FailoverReport) -> None:
    """kraft.version 1 is finalized, so the voters are in the log, in control records."""
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    with Admin(report.cluster.controllers.split(",")) as admin:

        def upgraded() -> bool:
            # A new leader refuses until every voter has report it, seconds later, what it supports.
            answer = admin.send(
                UpdateFeaturesRequest(feature_updates=[update]), accept={_FEATURE_UPDATE_FAILED}
            )
            return int(answer.error_code) != _FEATURE_UPDATE_FAILED

        wait_for(upgraded, "kraft.version 1")
    first, end = check_the_same(report)
    found = fetched_from(report.server.address, max(first, end - 200), end)
    control = {
        int.from_bytes(record.key[2:4], "big")
        for b in found
        if b.control
        for record in b.records()
        if record.key
    }
    assert control >= {_KRAFT_VERSION, _KRAFT_VOTERS}


def check_the_same(report: FailoverReport) -> tuple[int, int]:
    """Bring the gateway to the leader's current end and compare the logs. Return where the
    comparison begins and ends.

    The gateway's log may begin later than this leader's, after a snapshot of another leader. Below
    that it serves the records of the snapshot.
    """
    leader = report.cluster.wait_for_leader()
    end = files_of(leader)[-1].last_offset + 1
    wait_for_end(report.server.address, end)
    log = wait_for_segments(leader, end)
    first = max(copied(report.data_dir)[0].base_offset, log[0].base_offset)
    assert not first_unequal(
        clipped(fetched_from(report.server.address, first, end), end, first),
        clipped(log, end, first),
    )
    return first, end
