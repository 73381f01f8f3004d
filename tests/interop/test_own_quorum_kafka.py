"""Mixed quorums: a Kafka controller follows a kwire leader's log to its end, and a
non-electable kwire voter votes with Kafka controllers.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.clients import need_java
from tests.interop.own import passed
from tests.interop.own_kafka import (
    NON_ELECTABLE,
    Mixed,
    complaints,
    observed_by_kafka,
    with_non_electable,
)
from tests.interop.quorum import clipped, files_of, first_unequal, wait_for_segments
from tools.consistency_checker.checker import Minimum
from tools.consistency_checker.faults import APPENDS
from tools.consistency_checker.run import Run, judge, under_load
from tools.consistency_checker.watch import leader_end
from tools.own_quorum import QUICK, own_quorum

#: One leader is killed before the kwire voter is killed, one after it has restarted.
_LEADERS_KILLED = 2


@pytest.mark.parametrize("voters", [1, 3], ids=["one dynamic voter", "three static voters"])
def test_kafka_controller_fetches_the_log_of_a_kwire_leader(voters: int, tmp_path: Path) -> None:
    """As an observer, while the log grows and, with three voters, over a change of leaders: the
    same bytes, and no complaint.
    """
    need_java()
    ids = [11, 12, 13][:voters]
    with own_quorum(ids=ids, properties=QUICK, formatted=True) as own:
        with (
            under_load(own, tmp_path / "journal", per_second=20) as run,
            observed_by_kafka(own, tmp_path) as observer,
        ):
            wait_for_segments(observer, leader_end(own.wait_for_leader()))
            if voters > 1:
                leader = own.wait_for_leader()
                own.kill_node(leader)
                own.start_node(leader)
            run.writers.wait_for(50)
            run.writers.stop()
            leader = own.wait_for_leader()
            end = leader_end(leader)
            fetched = wait_for_segments(observer, end)
            assert not first_unequal(fetched, clipped(files_of(leader), end))
            assert complaints(observer) == []
        passed(
            f"observed by a controller of Kafka, {voters} voters",
            judge(run, Minimum(acknowledged=50)),
        )


def test_non_electable_kwire_voter_keeps_a_kafka_quorum_available(tmp_path: Path) -> None:
    """Two Kafka controllers and a non-electable kwire voter, which is in the majority when one
    of the Kafka controllers is dead. It replicates, votes, survives its own ``kill -9``, and
    never leads.
    """
    need_java()
    with with_non_electable(tmp_path) as cluster:
        with under_load(cluster, tmp_path / "journal", per_second=10) as run:
            run.writers.wait_for(APPENDS)
            kill_real_leader(cluster, run)
            cluster.kill_node(cluster.non_electable)
            cluster.start_node(cluster.non_electable)
            cluster.wait_for_node(cluster.non_electable)
            kill_real_leader(cluster, run)
        for node in cluster.nodes:
            cluster.wait_for_node(node)
        result = judge(
            run, Minimum(acknowledged=APPENDS * _LEADERS_KILLED, epochs=_LEADERS_KILLED + 1)
        )
        passed("non-electable voter of kwire among controllers of Kafka", result)
        end = leader_end(cluster.wait_for_leader())
        logs = [wait_for_segments(node, end) for node in cluster.nodes]
        assert not first_unequal(logs[2], logs[0]) and not first_unequal(logs[1], logs[0])
        assert [line for node in cluster.real for line in complaints(node)] == []
        assert all(said.leader != NON_ELECTABLE for said in run.watch.seen)


def kill_real_leader(cluster: Mixed, run: Run) -> None:
    """The other Kafka controller must win with the kwire voter's vote, and commit with it
    alone; then the dead one restarts.

    The other one has everything before: records that only the leader and the kwire voter hold are
    committed. While the leader is down only the kwire voter holds them. It never becomes a
    candidate, and refuses its vote to a shorter log.
    """
    leader = cluster.wait_for_leader()
    [other] = [node for node in cluster.real if node is not leader]
    with run.writers.held():
        wait_for_segments(other, files_of(leader)[-1].last_offset + 1)
        since = time.monotonic()
        cluster.kill_node(leader)
    run.recovered(since, APPENDS)
    run.fault_began("leader")
    cluster.start_node(leader)
    cluster.wait_for_node(leader)
