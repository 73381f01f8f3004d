"""Gateways behind gateways: three levels over a quorum of kwire's and over one of Kafka's.

The gateway in the middle is killed and started again, finds that the records it needs are gone and
loads a snapshot instead, and the quorum elects another leader. After each step all levels have the
bytes of the quorum.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.log.metadata.listing import list_directory
from kwire.protocol import CLUSTER_METADATA_PARTITION
from tests.interop.clients import need_clients
from tests.interop.quorum import (
    QUICK_ELECTIONS,
    fetched_from,
    first_unequal,
    make_topics,
    need_kafka,
    offsets_of,
    wait_for_end,
    wait_for_segments,
)
from tests.waiting import until
from tools.kafka import Cluster, kafka
from tools.own_quorum import QUICK, own_quorum
from tools.relay_tree import Relay, relay_chain

#: Snapshots and cleaning after a few topics.
_SHORT_LOGS = (
    "--metadata-log-max-record-bytes-between-snapshots=4000",
    "--metadata-log-segment-bytes=4096",
    "--metadata-max-retention-bytes=4000",
    "--no-metadata-log-fsync",
)
pytestmark = pytest.mark.timeout(240)


@contextlib.contextmanager
def _kafka() -> Iterator[Cluster]:
    need_kafka()
    with kafka(brokers=1, controllers=3, properties=QUICK_ELECTIONS) as cluster:
        yield cluster


@pytest.mark.parametrize("quorum", [lambda: own_quorum(3, properties=QUICK), _kafka])
def test_three_levels_follow_a_quorum(
    quorum: Callable[[], contextlib.AbstractContextManager[Cluster]],
) -> None:
    need_clients()
    with quorum() as cluster, relay_chain(cluster.controllers, 3, *_SHORT_LOGS) as levels:
        _all_levels_have_the_quorums_bytes(cluster, levels, "first")
        assert [_quorum(level)["relays"] for level in levels] == [0, 1, 2]
        _middle_is_killed_and_loads_a_snapshot(cluster, levels)
        _all_levels_have_the_quorums_bytes(cluster, levels, "after-the-snapshot")
        _leader_is_killed(cluster, levels)
        _all_levels_have_the_quorums_bytes(cluster, levels, "after-the-election")


def _middle_is_killed_and_loads_a_snapshot(cluster: Cluster, levels: list[Relay]) -> None:
    top, middle, lowest = levels
    start, end = offsets_of(lowest.bootstrap)
    middle.kill()
    written = itertools.count()

    def start_after_more_topics() -> int:
        make_topics(cluster, [f"unseen-{next(written)}-{number}" for number in range(20)])
        # Not what it serves: the records of a snapshot come before its log.
        directory = top.directory / "data" / CLUSTER_METADATA_PARTITION
        return min(base for base, _ in list_directory(str(directory)).segments)

    until(
        start_after_more_topics,
        "the top level deletes records that are in a snapshot",
        lambda top_start: top_start > offsets_of(lowest.bootstrap)[1],
    )
    # Its last record may have come between the question and the kill.
    served = offsets_of(lowest.bootstrap)
    assert served[0] == start and served[1] >= end, "the lowest level still serves what it has"
    _shows(lowest, "the lowest level misses the leader", lambda now: now["last_answer_s_ago"] > 1.0)
    _shows(lowest, "the lowest level gives the reason", lambda now: bool(now["problem"]))
    middle.start()
    for level in (middle, lowest):  # a second one where the first was replaced while it was loaded
        _shows(level, "a snapshot is loaded", lambda now: now["snapshot_loads"] >= 1)
        _shows(level, "the leader answers again", lambda now: now["last_answer_s_ago"] < 2.0)


def _leader_is_killed(cluster: Cluster, levels: list[Relay]) -> None:
    epoch = _quorum(levels[-1])["epoch"]
    old = cluster.wait_for_leader()
    cluster.kill_node(old)
    for level in levels:
        _shows(level, "the new epoch is known", lambda now: now["epoch"] > epoch)
        _shows(level, "so is its leader", lambda now: now["leader_id"] not in (-1, old.node_id))
    cluster.start_node(old)
    cluster.wait_for_node(old)


def _all_levels_have_the_quorums_bytes(cluster: Cluster, levels: list[Relay], topic: str) -> None:
    start = _quorum(levels[0])["high_watermark"]
    make_topics(cluster, [topic])
    leader = cluster.wait_for_leader()
    _shows(levels[0], "the topic is at the first level", lambda now: now["high_watermark"] > start)
    end = _quorum(levels[0])["high_watermark"]
    expected = [batch for batch in wait_for_segments(leader, end) if batch.base_offset >= start]
    assert expected
    for level in levels:
        wait_for_end(level.bootstrap, end)
        seen = fetched_from(level.bootstrap, expected[0].base_offset, end)
        assert not first_unequal([batch for batch in seen if batch.last_offset < end], expected)


def _quorum(level: Relay) -> dict[str, Any]:
    found: dict[str, Any] = level.status()["quorum"]
    return found


def _shows(level: Relay, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Return when the level's status of the quorum fulfils ``holds``."""
    until(lambda: _quorum(level), what, holds)
