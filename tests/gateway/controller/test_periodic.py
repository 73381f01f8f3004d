"""Periodic tasks: when they run, and what they find to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster
from tests.gateway.controller.cluster import made

FOR_EVER_MS = 10**12
CHECK_MS = 300_000


def cluster(**settings: Any) -> BrokerCluster:
    return BrokerCluster([1, 2, 3], broker_session_timeout_ms=FOR_EVER_MS, **settings)


def led_by_another(it: BrokerCluster) -> None:
    """The first replica was fenced and is in sync again; another replica still leads."""
    it.create([1, 2])
    it.fence(1)
    it.heartbeat(1)
    assert it.alter([2, 1]).error_code == 0
    assert it.partition().leader == 2


def test_preferred_leader_is_elected_after_the_interval() -> None:
    it = cluster()
    led_by_another(it)
    it.now_ms += CHECK_MS - 1
    assert it.poll() == [] and it.partition().leader == 2
    it.now_ms += 1
    assert it.poll() == ["electPreferred"] and it.partition().leader == 1
    assert it.poll() == []


def test_preferred_leader_is_not_elected_if_disabled() -> None:
    it = cluster(leader_imbalance_check_interval_ms=0)
    led_by_another(it)
    it.now_ms += 10 * CHECK_MS
    assert it.poll() == [] and it.partition().leader == 2


def test_unclean_leader_is_elected_after_the_topic_allows_it() -> None:
    it = cluster(level=25, features={})
    it.create([1, 2])
    it.fence(2)
    it.fence(1)
    it.heartbeat(2)
    assert it.partition().leader == -1
    assert it.controller.image is not None
    configs = [{"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}]
    resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
    assert (
        it.ask(made("IncrementalAlterConfigsRequest", resources=[resource])).responses[0].error_code
        == 0
    )
    assert it.partition().leader == -1
    it.now_ms += CHECK_MS
    assert it.poll() == ["electUnclean"]
    assert (it.partition().leader, it.partition().isr) == (2, [2])


@pytest.mark.parametrize("found", [False, True])
def test_task_that_found_work_runs_again_at_once(found: bool) -> None:
    it = cluster()
    if found:
        led_by_another(it)
    it.now_ms += CHECK_MS
    it.poll()
    assert (it.controller.deadline_ms == it.now_ms) == found
    it.poll()
    assert it.controller.deadline_ms == it.now_ms + CHECK_MS
