"""Lists the metrics of the committed cluster, under Kafka's names: those of every controller, and
those of brokers, by broker.

A server shows them whatever it reads the log from, once it has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import (
    Metric,
    Sample,
    applied_lag_ms,
    applied_timestamp_ms,
    one,
)

if TYPE_CHECKING:
    from gateway.server.management.cluster_facts import ClusterFacts
    from gateway.server.management.facts import Facts

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_BROKER: Final = ("broker",)


def _gauge(name: str, help: str, value: Callable[[ClusterFacts], float | None]) -> Metric:
    return Metric(_CONTROLLER + name, "gauge", help, lambda facts: one(value(facts.cluster)))


def _count(name: str, kind: str, help: str, field: str) -> Metric:
    """A metric of the field of that name of ``ClusterCounts``."""
    read = attrgetter(field)

    def samples(facts: Facts) -> Iterator[Sample]:
        counts = facts.cluster.counts
        if counts is not None:
            yield (), read(counts)

    return Metric(name, kind, help, samples)


def _by_broker(name: str, help: str, field: str) -> Metric:
    """A metric of the field of that name of ``BrokerCounts``, for each broker."""
    read = attrgetter(field)

    def samples(facts: Facts) -> Iterator[Sample]:
        for broker_id, broker in facts.cluster.by_broker():
            yield (str(broker_id),), read(broker)

    return Metric(_REPLICAS + name, "gauge", help, samples, _BROKER)


def _of_log(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    """A metric of the records that clients can read."""
    return Metric(
        _CONTROLLER + name,
        "gauge",
        help,
        lambda facts: one(None if facts.cluster.counts is None else value(facts)),
    )


def _registrations(facts: Facts) -> Iterator[Sample]:
    for broker_id, state in facts.cluster.registrations():
        yield (str(broker_id),), state


#: In the order in which they are shown.
CLUSTER: Final = (
    _gauge(
        "activebrokercount",
        "Registered brokers that are not fenced.",
        lambda it: it.brokers(fenced=False),
    ),
    _gauge(
        "fencedbrokercount",
        "Registered brokers that are fenced.",
        lambda it: it.brokers(fenced=True),
    ),
    _gauge(
        "controlledshutdownbrokercount",
        "Brokers in controlled shutdown.",
        lambda it: it.brokers(),
    ),
    Metric(
        f"{_CONTROLLER}brokerregistrationstate",
        "gauge",
        "10: fenced, 20: in controlled shutdown, 30: active.",
        _registrations,
        _BROKER,
    ),
    _count(f"{_CONTROLLER}globaltopiccount", "gauge", "Topics.", "topics"),
    _count(f"{_CONTROLLER}globalpartitioncount", "gauge", "Partitions.", "partitions"),
    _count(
        f"{_CONTROLLER}offlinepartitionscount", "gauge", "Partitions without a leader.", "offline"
    ),
    _count(
        f"{_CONTROLLER}preferredreplicaimbalancecount",
        "gauge",
        "Partitions whose leader is not the first replica.",
        "imbalanced",
    ),
    _by_broker("partitioncount", "Replicas on the broker.", "partitions"),
    _by_broker("leadercount", "Partitions that the broker leads.", "leaders"),
    _by_broker(
        "underreplicatedpartitions",
        "Partitions that it leads and whose ISR lacks a replica.",
        "under_replicated",
    ),
    _by_broker(
        "underminisrpartitioncount",
        "Partitions that it leads with an ISR below min.insync.replicas.",
        "under_min_isr",
    ),
    _by_broker(
        "atminisrpartitioncount",
        "Partitions that it leads with an ISR of min.insync.replicas.",
        "at_min_isr",
    ),
    _by_broker(
        "reassigningpartitions", "Partitions that it leads under reassignment.", "reassigning"
    ),
    _count(
        f"{_STATS}uncleanleaderelections_total",
        "counter",
        "Partition leaders elected outside the ISR.",
        "unclean_elections",
    ),
    _count(
        f"{_STATS}electionfromeligibleleaderreplicas_total",
        "counter",
        "Partition leaders elected from the eligible leader replicas.",
        "eligible_elections",
    ),
    _gauge(
        "metadataerrorcount",
        "Records that could not be applied to the image.",
        lambda it: it.errors,
    ),
    _gauge(
        "lastappliedrecordoffset",
        "Offset of the last record in the image.",
        lambda it: it.applied_offset,
    ),
    _of_log(
        "lastappliedrecordtimestamp",
        "Largest timestamp of a record that clients can read, ms.",
        applied_timestamp_ms,
    ),
    _of_log("lastappliedrecordlagms", "Age of that timestamp, ms.", applied_lag_ms),
    _gauge(
        "lastcommittedrecordoffset",
        "Offset of the last committed record.",
        lambda it: it.committed_offset,
    ),
    _count(
        "kwire_image_bytes",
        "gauge",
        "Approximate memory of the partitions in the image, without the lists that they share.",
        "size",
    ),
)
