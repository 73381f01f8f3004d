"""Metrics of the controller: figures of its decisions, and those of a running node."""

from __future__ import annotations

from pathlib import Path

from gateway.server.controller.controller_metrics import (
    ControllerMeasures,
)
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.create_topics_request import CreateTopicsRequest
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import lone_node
from tests.gateway.server.sources.test_controller_node import metric
from tests.gateway.server.test_alter_isr import scene
from tests.waiting import until_async

PREFIX = "kafka_controller_kafkacontroller_"


def test_decisions_are_counted_and_timed() -> None:
    measures = ControllerMeasures()
    measures.decided(0.01)
    measures.too_late([CreateTopicsRequest(), BrokerHeartbeatRequest()])
    assert (measures.started, measures.timed_out, measures.heartbeats_timed_out) == (1, 2, 1)
    assert 0 < (measures.processing.percentile(0.99) or 0) < 1
    for epoch, leader_id in ((-1, -1), (1, 2), (1, 2), (2, -1), (3, 2), (4, 1)):
        measures.leader_is(epoch, leader_id)
    assert measures.new_controllers == 3, (
        "the same one in another epoch is a new one, and nobody is none"
    )


def test_running_controller_has_kafkas_metrics(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data", management_listener="127.0.0.1:0") as node:
            await scene(node)
            seen = node.quorum.controller.facts.measures
            await until_async(lambda: seen.new_controllers == 1)
            told = {
                name: (await metric(node, PREFIX + name))[""]
                for name in (
                    "activecontrollercount",
                    "activebrokercount",
                    "fencedbrokercount",
                    "globaltopiccount",
                    "globalpartitioncount",
                    "offlinepartitionscount",
                    "preferredreplicaimbalancecount",
                    "metadataerrorcount",
                    "newactivecontrollerscount",
                    "eventqueueoperationstimedoutcount",
                )
            }
            assert list(told.values()) == [1, 2, 0, 1, 1, 0, 0, 0, 1, 0]
            [started] = (await metric(node, PREFIX + "eventqueueoperationsstartedcount")).values()
            assert started >= 5, "two registrations, two heartbeats, a topic"
            [took_ms] = (
                await metric(
                    node, "kafka_controller_controllereventmanager_eventqueueprocessingtimems_p99"
                )
            ).values()
            assert took_ms > 0

    run(main)
