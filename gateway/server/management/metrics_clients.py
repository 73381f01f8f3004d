"""Lists the metrics of clients: their consumer groups, connections and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import Metric, Sample, counter, event_counter, gauge
from kwire.protocol import error_name

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts
    from gateway.server.scheduling.counts import ApiCounts


def _api_counter(name: str, help: str, value: Callable[[ApiCounts], float]) -> Metric:
    def samples(facts: Facts) -> Iterator[Sample]:
        for api in facts.counted.counts.apis.values():
            yield (api.name,), value(api)

    return Metric(name, "counter", help, samples, ("api",))


def _request_errors(facts: Facts) -> Iterator[Sample]:
    for api in facts.counted.counts.apis.values():
        for code, number in sorted(api.errors.items()):
            yield (api.name, error_name(code)), number


def _connections(facts: Facts) -> Iterator[Sample]:
    for listener in facts.listeners:
        yield (listener,), facts.counted.counts.connections[listener]


def _cuts(facts: Facts) -> Iterator[Sample]:
    for reason, number in sorted(facts.counted.counts.cuts.items()):
        yield (reason,), number


def _groups(facts: Facts) -> Iterator[Sample]:
    for state, number in sorted(facts.groups().items()):
        yield (state,), number


def _group_bytes(facts: Facts) -> Iterator[Sample]:
    usage = facts.group_usage()
    yield ("members",), usage.member_bytes
    yield ("offsets",), usage.offset_bytes


def _group_bytes_of_largest(facts: Facts) -> Iterator[Sample]:
    shares = facts.group_usage().by_owner.values()
    yield ("members",), max((held.member_bytes for held in shares), default=0)
    yield ("offsets",), max((held.offset_bytes for held in shares), default=0)


def _group_refusals(facts: Facts) -> Iterator[Sample]:
    for limit, number in sorted(facts.group_refusals().items()):
        yield (limit,), number


#: In the order in which they are shown.
CLIENTS: Final = (
    Metric("kwire_groups", "gauge", "Consumer groups.", _groups, ("state",)),
    gauge(
        "kwire_group_members",
        "Members of groups, and ids given to clients that join.",
        lambda facts: facts.group_usage().members,
    ),
    Metric(
        "kwire_group_memory_bytes",
        "gauge",
        "Approximate memory of groups.",
        _group_bytes,
        ("kind",),
    ),
    Metric(
        "kwire_group_memory_largest_principal_bytes",
        "gauge",
        "Approximate memory of the principal or address that uses most.",
        _group_bytes_of_largest,
        ("kind",),
    ),
    Metric(
        "kwire_group_refusals_total",
        "counter",
        "Group requests that a limit refused, by the limit's key.",
        _group_refusals,
        ("limit",),
    ),
    Metric(
        "kwire_connections", "gauge", "Open connections of clients.", _connections, ("listener",)
    ),
    event_counter(
        "kwire_connections_accepted_total", "Connections that were accepted.", "connection accepted"
    ),
    event_counter(
        "kwire_connections_refused_total",
        "Connections closed at once, above a limit.",
        "connection refused",
    ),
    event_counter(
        "kwire_failed_authentications_total",
        "Connections that failed to authenticate.",
        "authentication failed",
    ),
    event_counter(
        "kwire_failed_handshakes_total",
        "Connections whose TLS handshake failed.",
        "handshake failed",
    ),
    Metric(
        "kwire_connections_cut_total",
        "counter",
        "Connections that the server closed, by the key of the limit.",
        _cuts,
        ("reason",),
    ),
    counter(
        "kwire_received_bytes_total",
        "Bytes from clients.",
        lambda facts: facts.counted.counts.received,
    ),
    counter(
        "kwire_sent_bytes_total",
        "Bytes to clients.",
        lambda facts: facts.counted.counts.sent,
    ),
    gauge(
        "kwire_buffered_bytes",
        "Memory of unfinished requests and unsent responses.",
        lambda facts: facts.counted.buffered_bytes,
    ),
    gauge(
        "kwire_parked_requests",
        "Requests with a pending response.",
        lambda facts: facts.counted.parked,
    ),
    gauge(
        "kwire_parked_fetches",
        "Fetch requests that wait for records.",
        lambda facts: facts.counted.parked_fetches,
    ),
    _api_counter(
        "kwire_request_waits_total",
        "Responses that were pending before they were sent.",
        lambda api: api.waits,
    ),
    _api_counter(
        "kwire_request_wait_seconds_total",
        "Total time for which responses were pending, s.",
        lambda api: api.wait_seconds,
    ),
    Metric(
        "kwire_request_errors_total",
        "counter",
        "Error codes in responses.",
        _request_errors,
        ("api", "error"),
    ),
    event_counter(
        "kwire_bad_requests_total", "Requests that did not follow the protocol.", "bad request"
    ),
    event_counter(
        "kwire_refused_requests_total",
        "Requests of an API or version that is not served.",
        "unsupported request",
    ),
)
