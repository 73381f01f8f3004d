"""The metrics of the controller, under Kafka's names: the cluster as this node has it, and what it
decided while it led.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import (
    Metric,
    Sample,
    applied_lag_ms,
    applied_timestamp_ms,
    one,
    percentile_ms,
)

if TYPE_CHECKING:
    from gateway.server.controller.controller_metrics import ClusterCounts, ControllerFacts
    from gateway.server.management.facts import Facts

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_MANAGER: Final = "kafka_controller_controllereventmanager_"
_STATS: Final = "kafka_controller_controllerstats_"


def _of_node(
    name: str, help: str, value: Callable[[ControllerFacts], float | None], kind: str = "gauge"
) -> Metric:
    """Of a node of our own quorum, which may be the controller; nothing of others."""
    return Metric(
        name,
        kind,
        help,
        lambda facts: one(None if facts.controlling is None else value(facts.controlling)),
    )


def _of_cluster(name: str, help: str, value: Callable[[ClusterCounts], float]) -> Metric:
    return _of_node(_CONTROLLER + name, help, lambda controlling: value(controlling.cluster))


def _of_log(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    """The same, of what clients can see."""
    return Metric(
        _CONTROLLER + name,
        "gauge",
        help,
        lambda facts: one(None if facts.controlling is None else value(facts)),
    )


def _registrations(facts: Facts) -> Iterator[Sample]:
    if facts.controlling is not None:
        for broker_id, state in facts.controlling.registrations:
            yield (str(broker_id),), state


#: In the order in which they are shown.
CONTROLLER: Final = (
    _of_node(
        f"{_CONTROLLER}activecontrollercount",
        "1 where this node is the active controller.",
        lambda it: it.is_active,
    ),
    _of_cluster(
        "activebrokercount", "Registered brokers that are not fenced.", lambda it: it.active_brokers
    ),
    _of_cluster("fencedbrokercount", "Registered brokers that are.", lambda it: it.fenced_brokers),
    _of_cluster(
        "controlledshutdownbrokercount",
        "Brokers in controlled shutdown.",
        lambda it: it.leaving_brokers,
    ),
    Metric(
        f"{_CONTROLLER}brokerregistrationstate",
        "gauge",
        "10 for a broker that is fenced, 20 for one in controlled shutdown, 30 for one that serves.",
        _registrations,
        ("broker",),
    ),
    _of_cluster("globaltopiccount", "Topics.", lambda it: it.topics),
    _of_cluster("globalpartitioncount", "Partitions.", lambda it: it.partitions),
    _of_cluster(
        "offlinepartitionscount", "Partitions that nobody leads.", lambda it: it.offline_partitions
    ),
    _of_cluster(
        "preferredreplicaimbalancecount",
        "Partitions whose leader is not the first replica.",
        lambda it: it.imbalanced_partitions,
    ),
    _of_node(
        f"{_CONTROLLER}metadataerrorcount",
        "Records that could not be folded.",
        lambda it: it.errors,
    ),
    _of_node(
        f"{_CONTROLLER}lastappliedrecordoffset",
        "Offset of the last record in the image.",
        lambda it: it.applied_offset,
    ),
    _of_log(
        "lastappliedrecordtimestamp",
        "Largest timestamp of a record that clients can see, ms.",
        applied_timestamp_ms,
    ),
    _of_log("lastappliedrecordlagms", "How long ago that was, ms.", applied_lag_ms),
    _of_node(
        f"{_CONTROLLER}lastcommittedrecordoffset",
        "Offset of the last committed record.",
        lambda it: it.committed_offset,
    ),
    _of_node(
        f"{_CONTROLLER}newactivecontrollerscount",
        "Leaders that this node has seen come.",
        lambda it: it.measures.new_controllers,
    ),
    _of_node(
        f"{_CONTROLLER}eventqueueoperationsstartedcount",
        "Operations decided on here.",
        lambda it: it.measures.started,
    ),
    _of_node(
        f"{_CONTROLLER}eventqueueoperationstimedoutcount",
        "Of these, answered when nobody waited any more.",
        lambda it: it.measures.timed_out,
    ),
    _of_node(
        f"{_CONTROLLER}timedoutbrokerheartbeatcount",
        "Heartbeats of brokers among these.",
        lambda it: it.measures.heartbeats_timed_out,
    ),
    _of_node(
        f"{_MANAGER}eventqueueprocessingtimems_p99",
        "99 % were decided within so many ms.",
        lambda it: percentile_ms(it.measures.processing, 0.99),
    ),
    _of_node(
        f"{_MANAGER}eventqueueprocessingtimems_p999",
        "99.9 % were.",
        lambda it: percentile_ms(it.measures.processing, 0.999),
    ),
    _of_node(
        f"{_STATS}uncleanleaderelections_total",
        "Leaders elected here that were not in sync.",
        lambda it: it.elections.unclean,
        "counter",
    ),
    _of_node(
        f"{_STATS}electionfromeligibleleaderreplicas_total",
        "Leaders elected here from eligible leader replicas.",
        lambda it: it.elections.eligible,
        "counter",
    ),
)
