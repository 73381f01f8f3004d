"""Lists the metrics of the controller and of forwarded requests, under Kafka's names. They are of
this node alone; ``metrics_cluster`` has those of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import (
    Metric,
    counter,
    gauge,
    one,
    percentile_ms,
)

if TYPE_CHECKING:
    from gateway.server.controller.controller_metrics import ControllerFacts
    from gateway.server.controller.envelopes import ForwardingMetrics
    from gateway.server.management.facts import Facts

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_MANAGER: Final = "kafka_controller_controllereventmanager_"
_FORWARDING: Final = "kafka_server_forwardingmanager_"


def _of_node(name: str, help: str, value: Callable[[ControllerFacts], float | None]) -> Metric:
    """A metric of a node that may become the active controller; others do not show it."""
    return Metric(
        name,
        "gauge",
        help,
        lambda facts: one(None if facts.controlling is None else value(facts.controlling)),
    )


def _forwarding(
    value: Callable[[ForwardingMetrics], float | None],
) -> Callable[[Facts], float | None]:
    """The value of a node that forwards requests to the active controller; else None."""
    return lambda facts: None if facts.forwarding is None else value(facts.forwarding)


#: In the order in which they are shown.
CONTROLLER: Final = (
    _of_node(
        f"{_CONTROLLER}activecontrollercount",
        "1 where this node is the active controller.",
        lambda it: it.is_active,
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
