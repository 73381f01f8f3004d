"""Lists the metrics of a broker's own partitions and Fetch sessions, under Kafka's names.

A broker with many topics or partitions has no values of each one: a scrape is to stay short.
Source: ``BrokerTopicMetrics``, ``UnifiedLog``, ``FetchSessionCache``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import Metric, Sample, counter, gauge

if TYPE_CHECKING:
    from gateway.handlers.fetch_sessions import FetchSessionCache
    from gateway.server.management.facts import Facts

_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_LOG: Final = "kafka_log_log_"
_SESSIONS: Final = "kafka_server_fetchsessioncache_"
#: Topics, or partitions, of which each one has values of its own.
EACH_MAX: Final = 200


def _of_topics(name: str, help: str, field: str) -> Metric:
    """A counter of the field of that name of ``AppendCounts``."""
    read = attrgetter(field)

    def samples(facts: Facts) -> Iterator[Sample]:
        replicas = facts.replicas
        if replicas is None:
            return
        # Prometheus takes an empty label for none: as in Kafka, that is the sum.
        yield ("",), read(replicas.appended)
        if len(replicas.appended_by_topic) <= EACH_MAX:
            for topic, counts in replicas.appended_by_topic.items():
                yield (topic,), read(counts)

    return Metric(_TOPICS + name, "counter", help, samples, ("topic",))


def _of_logs(name: str, help: str, field: str) -> Metric:
    """A gauge of the field of that name of each partition."""
    read = attrgetter(field)

    def samples(facts: Facts) -> Iterator[Sample]:
        partitions = () if facts.replicas is None else facts.replicas.partitions
        if len(partitions) <= EACH_MAX:
            for one in partitions:
                topic = one.directory.name.rpartition("-")[0]
                yield (topic, str(one.index)), read(one)

    return Metric(_LOG + name, "gauge", help, samples, ("topic", "partition"))


def _of_sessions(
    value: Callable[[FetchSessionCache], float],
) -> Callable[[Facts], float | None]:
    return lambda facts: None if facts.fetch_sessions is None else value(facts.fetch_sessions)


#: In the order in which they are shown.
BROKER: Final = (
    _of_topics("messagesin_total", "Records that were appended.", "messages"),
    _of_topics("bytesin_total", "Bytes of the batches that were appended.", "bytes"),
    _of_topics("bytesout_total", "Bytes of records that clients fetched.", "bytes_out"),
    _of_topics(
        "replicationbytesout_total",
        "Bytes of records that followers fetched.",
        "replication_bytes_out",
    ),
    _of_topics("totalproducerequests_total", "Partitions in Produce requests.", "produces"),
    _of_topics(
        "failedproducerequests_total",
        "Batches that were refused for unexpected reasons.",
        "failed_produces",
    ),
    _of_topics("totalfetchrequests_total", "Partitions in responses to Fetch.", "fetches"),
    _of_logs("logendoffset", "One past the last offset of the partition.", "end_offset"),
    _of_logs("logstartoffset", "First offset of the partition.", "log_start_offset"),
    _of_logs("size", "Bytes of the partition's segments.", "size_bytes"),
    gauge(
        f"{_SESSIONS}numincrementalfetchsessions",
        "Fetch sessions of clients.",
        _of_sessions(len),
    ),
    gauge(
        f"{_SESSIONS}numincrementalfetchpartitionscached",
        "Partitions in all of them.",
        _of_sessions(lambda sessions: sessions.partition_count),
    ),
    counter(
        f"{_SESSIONS}incrementalfetchsessionevictions_total",
        "Sessions that had to go for others.",
        _of_sessions(lambda sessions: sessions.evictions),
    ),
)
