"""Lists the metrics of clients that have quotas, under Kafka's names (``ClientQuotaManager``).

Many users or client ids have no values of each: a scrape is to stay short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import Metric, Sample

if TYPE_CHECKING:
    from gateway.broker.quotas.client_quota_manager import ClientQuotaManager, Sensor
    from gateway.broker.quotas.client_quotas import ClientQuotas
    from gateway.server.management.facts import Facts

#: Groups of clients of a quota, of which each one has values of its own.
EACH_MAX: Final = 200
#: The quotas by the last part of Kafka's name of their metrics, with the name of what they measure.
_KINDS: Final[tuple[tuple[str, str, str], ...]] = (
    ("produce", "byte_rate", "Bytes of Produce requests per second."),
    ("fetch", "byte_rate", "Bytes of Fetch responses per second."),
    ("request", "request_time", "Percent of the time of a thread that requests took."),
    ("controllermutation", "mutation_rate", "Partitions created and deleted per second."),
)


def _managers(quotas: ClientQuotas) -> dict[str, ClientQuotaManager]:
    return {
        "produce": quotas.produce,
        "fetch": quotas.fetch,
        "request": quotas.request,
        "controllermutation": quotas.mutations,
    }


def _of_sensors(
    kind: str, name: str, help: str, read: Callable[[Sensor, int], float | None]
) -> Metric:
    def samples(facts: Facts) -> Iterator[Sample]:
        if facts.quotas is None:
            return
        manager, now_ms = _managers(facts.quotas)[kind], facts.quotas.now_ms()
        if len(manager) <= EACH_MAX:
            for group, sensor in manager.sensors():
                value = read(sensor, now_ms)
                if value is not None:
                    yield (group.user, group.client_id), value

    return Metric(f"kafka_server_{kind}_{name}", "gauge", help, samples, ("user", "client_id"))


def _in_all(name: str, help: str, read: Callable[[ClientQuotaManager], float]) -> Metric:
    def samples(facts: Facts) -> Iterator[Sample]:
        if facts.quotas is not None:
            for kind, manager in _managers(facts.quotas).items():
                yield (kind,), read(manager)

    return Metric(name, "counter", help, samples, ("quota",))


#: In the order in which they are shown.
QUOTAS: Final = (
    *(
        _of_sensors(kind, name, help, lambda sensor, now_ms: sensor.rate.rate(now_ms))
        for kind, name, help in _KINDS
    ),
    *(
        _of_sensors(
            kind,
            "throttle_time",
            "Mean throttle time of the last minute, ms.",
            lambda sensor, now_ms: sensor.throttle_times.mean(now_ms),
        )
        for kind, _, _ in _KINDS
    ),
    _of_sensors(
        "controllermutation",
        "tokens",
        "Partitions that the clients may change at once.",
        lambda sensor, now_ms: sensor.bucket.tokens(sensor.limit, now_ms),
    ),
    _in_all(
        "kwire_throttled_requests_total",
        "Requests whose connection was muted.",
        lambda manager: manager.throttled,
    ),
    _in_all(
        "kwire_throttle_seconds_total",
        "Sum of their throttle times, s.",
        lambda manager: manager.throttled_ms / 1000,
    ),
)
