"""Failovers with many partitions, on kwire's quorums alone and at a size that takes seconds."""

from __future__ import annotations

from kwire.messages.metadata_request import MetadataRequest
from tools.admin import Admin
from tools.bench.controller import as_created, filled, filled_failovers
from tools.own_quorum import own_quorum


def test_failovers_with_many_partitions_have_a_row_for_each_way_to_ask() -> None:
    with own_quorum(3) as one, own_quorum(3) as other:
        rows = filled_failovers((one, one), (other, other), kills=1, partitions=1_000, settle_s=0.5)
        assert [row["what"] for row in rows] == [
            "controller killed to first change, 1,000 partitions",
            "controller killed to first change through a broker, 1,000 partitions",
        ]
        assert all(row["kwire"] > 0 and row["peer_value"] > 0 for row in rows)
        for cluster in (one, other):
            with Admin(cluster.bootstrap.split(",")) as admin:
                topics = admin.send(MetadataRequest(topics=None)).topics
            many = [topic for topic in topics if topic.name.startswith("many-")]
            leaders = [part.leader_id for topic in many for part in topic.partitions]
            assert len(leaders) == 1_000
            assert set(leaders) == {1001, 1002, 1003}


def test_a_simulated_broker_that_is_fenced_is_noticed() -> None:
    with own_quorum(1, formatted=True) as cluster, filled(cluster, 200) as brokers:
        assert as_created(cluster)
        assert brokers.heartbeat(1002, fence=True)
        assert not as_created(cluster)
