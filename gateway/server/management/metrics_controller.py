"""Lists the metrics of the controller and of forwarded requests, under Kafka's names.

The counts of brokers, topics and partitions are those of the committed image, so every controller
node shows them; the rest is of this node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import (
    Metric,
    Sample,
    applied_lag_ms,
    applied_timestamp_ms,
    counter,
    gauge,
    one,
    percentile_ms,
)

if TYPE_CHECKING:
    from gateway.server.controller.controller_metrics import ClusterCounts, ControllerFacts
    from gateway.server.controller.envelopes import ForwardingMeasures
    from gateway.server.management.facts import Facts

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_MANAGER: Final = "kafka_controller_controllereventmanager_"
_STATS: Final = "kafka_controller_controllerstats_"
_FORWARDING: Final = "kafka_server_forwardingmanager_"


def _of_node(
    name: str, help: str, value: Callable[[ControllerFacts], float | None], kind: str = "gauge"
) -> Metric:
    """A metric of a node that may become the active controller; others do not show it."""
    return Metric(
        name,
        kind,
        help,
        lambda facts: one(None if facts.controlling is None else value(facts.controlling)),
    )


def _of_cluster(name: str, help: str, value: Callable[[ClusterCounts], float]) -> Metric:
    return _of_node(_CONTROLLER + name, help, lambda controlling: value(controlling.cluster))


def _of_log(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    """A metric of the records that clients can read, shown by the same nodes."""
    return Metric(
        _CONTROLLER + name,
        "gauge",
        help,
        lambda facts: one(None if facts.controlling is None else value(facts)),
    )


def _forwarding(
    value: Callable[[ForwardingMeasures], float | None],
) -> Callable[[Facts], float | None]:
    """The value of a node that forwards requests to the active controller; else None."""
    return lambda facts: None if facts.forwarding is None else value(facts.forwarding)


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
    _of_cluster(
        "fencedbrokercount", "Registered brokers that are fenced.", lambda it: it.fenced_brokers
    ),
    _of_cluster(
        "controlledshutdownbrokercount",
        "Brokers in controlled shutdown.",
        lambda it: it.leaving_brokers,
    ),
    Metric(
        f"{_CONTROLLER}brokerregistrationstate",
        "gauge",
        "10: fenced, 20: in controlled shutdown, 30: active.",
        _registrations,
        ("broker",),
    ),
    _of_cluster("globaltopiccount", "Topics.", lambda it: it.topics),
    _of_cluster("globalpartitioncount", "Partitions.", lambda it: it.partitions),
    _of_cluster(
        "offlinepartitionscount", "Partitions without a leader.", lambda it: it.offline_partitions
    ),
    _of_cluster(
        "preferredreplicaimbalancecount",
        "Partitions whose leader is not the first replica.",
        lambda it: it.imbalanced_partitions,
    ),
    _of_node(
        f"{_CONTROLLER}metadataerrorcount",
        "Records that could not be applied to the image.",
        lambda it: it.errors,
    ),
    _of_node(
        f"{_CONTROLLER}lastappliedrecordoffset",
        "Offset of the last record in the image.",
        lambda it: it.applied_offset,
    ),
    _of_log(
        "lastappliedrecordtimestamp",
        "Largest timestamp of a record that clients can read, ms.",
        applied_timestamp_ms,
    ),
    _of_log("lastappliedrecordlagms", "Age of that timestamp, ms.", applied_lag_ms),
    _of_node(
        f"{_CONTROLLER}lastcommittedrecordoffset",
        "Offset of the last committed record.",
        lambda it: it.committed_offset,
    ),
    _of_node(
        f"{_CONTROLLER}newactivecontrollerscount",
        "New leaders of the quorum, as seen by this node.",
        lambda it: it.measures.new_controllers,
    ),
    _of_node(
        f"{_CONTROLLER}eventqueueoperationsstartedcount",
        "Requests that this node handled as the controller.",
        lambda it: it.measures.started,
    ),
    _of_node(
        f"{_CONTROLLER}eventqueueoperationstimedoutcount",
        "Requests handled after their deadline.",
        lambda it: it.measures.timed_out,
    ),
    _of_node(
        f"{_CONTROLLER}timedoutbrokerheartbeatcount",
        "Broker heartbeats handled after their deadline.",
        lambda it: it.measures.heartbeats_timed_out,
    ),
    _of_node(
        f"{_MANAGER}eventqueueprocessingtimems_p99",
        "Time to handle a request, 99th percentile, ms.",
        lambda it: percentile_ms(it.measures.processing, 0.99),
    ),
    _of_node(
        f"{_MANAGER}eventqueueprocessingtimems_p999",
        "The same, 99.9th percentile, ms.",
        lambda it: percentile_ms(it.measures.processing, 0.999),
    ),
    _of_node(
        f"{_STATS}uncleanleaderelections_total",
        "Partition leaders elected outside the ISR.",
        lambda it: it.elections.unclean,
        "counter",
    ),
    _of_node(
        f"{_STATS}electionfromeligibleleaderreplicas_total",
        "Partition leaders elected from the eligible leader replicas.",
        lambda it: it.elections.eligible,
        "counter",
    ),
)

#: Requests that the active controller carries out on another node (KIP-590), in the order in which
#: they are shown.
FORWARDING: Final = (
    gauge(
        f"{_FORWARDING}queuelength",
        "Forwarded requests without a response yet.",
        _forwarding(lambda one: one.queue_length),
    ),
    gauge(
        f"{_FORWARDING}queuetimems_p99",
        "Time until a request was sent to the controller, 99th percentile, ms.",
        _forwarding(lambda measures: percentile_ms(measures.queue, 0.99)),
    ),
    gauge(
        f"{_FORWARDING}queuetimems_p999",
        "The same, 99.9th percentile, ms.",
        _forwarding(lambda measures: percentile_ms(measures.queue, 0.999)),
    ),
    gauge(
        f"{_FORWARDING}remotetimems_p99",
        "Time until the controller answered, 99th percentile, ms.",
        _forwarding(lambda measures: percentile_ms(measures.remote, 0.99)),
    ),
    gauge(
        f"{_FORWARDING}remotetimems_p999",
        "The same, 99.9th percentile, ms.",
        _forwarding(lambda measures: percentile_ms(measures.remote, 0.999)),
    ),
    gauge(
        "kwire_num_client_forwarding_to_controller",
        "Client ids with a forwarded request in flight.",
        _forwarding(lambda one: len(one.waiting)),
    ),
    counter(
        "kwire_num_messages_redirected_total",
        "Requests forwarded in an Envelope.",
        _forwarding(lambda one: one.forwarded),
    ),
    counter(
        "kwire_request_forwarding_to_controller_authorization_fail_total",
        "Forwarded requests refused because this node may not forward.",
        _forwarding(lambda one: one.unauthorized),
    ),
)
