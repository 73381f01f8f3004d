"""Quorums of other Kafka releases, with static and with dynamic voters, are observed from the
first record through a fail-over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.clients import ASSIGN, WAYS, need_clients
from tests.interop.conftest import READ
from tests.interop.quorum import (
    QUICK_ELECTIONS,
    clipped,
    fetched_from,
    files_of,
    first_unequal,
    need_kafka,
    observing,
    records_of,
    types_of,
    wait_for_end,
    wait_for_segments,
)
from tests.interop.reading import digest, first_difference
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.metadata_workload import node_properties, write_some

#: Release, static voters. The release that everything else is tested with is in the other quorum
#: tests, both ways.
QUORUMS = [("4.1.2", True), ("4.4.0", False)]
_WRITTEN = {
    "TopicRecord",
    "ConfigRecord",
    "AccessControlEntryRecord",
    "ClientQuotaRecord",
    "UserScramCredentialRecord",
}


@pytest.mark.parametrize(
    ("version", "static"), QUORUMS, ids=[f"{v}-{'static' if s else 'dynamic'}" for v, s in QUORUMS]
)
def test_quorum_of_the_release_is_observed_through_a_fail_over(
    version: str, static: bool, tmp_path: Path
) -> None:
    need_clients()
    need_kafka(version)
    way = next(way for way in WAYS if (way.reader.client, way.mode) == ("confluent-kafka", ASSIGN))
    with (
        kafka(
            version=version,
            brokers=1,
            controllers=3,
            static_voters=static,
            properties=QUICK_ELECTIONS,
            node_properties=node_properties,
        ) as cluster,
        gateway(*observing(cluster, tmp_path / "data")) as server,
    ):
        reader = way.on(server.bootstrap, CLUSTER_METADATA_TOPIC)
        reader.start()
        cluster.kill_node(cluster.wait_for_leader())
        leader = cluster.wait_for_leader()
        write_some(cluster)
        end = files_of(leader)[-1].last_offset + 1
        wait_for_end(server.bootstrap, end)
        truth = wait_for_segments(leader, end)
        expected = records_of(truth)
        reader.read_until(len(expected))
        reader.stop()
        assert len({batch.epoch for batch in truth}) > 1
        assert not _WRITTEN - types_of(expected)
        assert not first_difference(
            [record for record in reader.records if record.offset < end], expected
        )
        assert not first_unequal(clipped(fetched_from(server.bootstrap, 0, end), end), truth)
        READ.append((f"quorum of Kafka {version}", str(way), len(expected), digest(expected)))
