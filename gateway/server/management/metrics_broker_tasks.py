"""Lists the metrics of what a broker does with its partitions: it follows leaders, has the ISR
changed, compacts logs and coordinates transactions. Under Kafka's names, where it has one.

Source: ``ReplicaManager``, ``LogManager``, ``AbstractFetcherManager``, ``LogCleanerManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.transaction import TransactionState
from gateway.server.management.metric import Metric, Sample, counter, gauge

if TYPE_CHECKING:
    from gateway.server.broker.broker_node import BrokerNode
    from gateway.server.management.facts import Facts

_REPLICAS: Final = "kafka_server_replicamanager_"
_CLEANER: Final = "kafka_log_logcleanermanager_"


def _of_broker(value: Callable[[BrokerNode], float]) -> Callable[[Facts], float | None]:
    return lambda facts: None if facts.broker is None else value(facts.broker)


def _offline(facts: Facts) -> int | None:
    """Partitions whose log cannot be used."""
    return None if facts.replicas is None else facts.replicas.offline_count


def _offline_directories(facts: Facts) -> int | None:
    if facts.replicas is None:
        return None
    offline = {path for path, online in facts.replicas.directories().items() if not online}
    return len(offline | {str(one.directory.parent) for one in facts.replicas.offline})


def _since_last_run_ms(facts: Facts) -> float | None:
    at = None if facts.broker is None else facts.broker.cleaner.looked_at
    return None if at is None else 1000 * max(0.0, facts.clock() - at)


def _transactions(facts: Facts) -> Iterator[Sample]:
    counts = None if facts.broker is None else facts.broker.transactions.counts
    if counts is not None:
        for state in TransactionState:
            yield (state.label,), counts.by_state.get(state, 0)


def _unmarked(facts: Facts) -> int | None:
    counts = None if facts.broker is None else facts.broker.transactions.counts
    return None if counts is None else counts.unmarked


def _waiting_entries(facts: Facts) -> int | None:
    forwarder = None if facts.broker is None else facts.broker.audit_forwarder
    return None if forwarder is None else forwarder.waiting


#: In the order in which they are shown.
BROKER_TASKS: Final = (
    counter(
        f"{_REPLICAS}isrshrinks_total",
        "Changes of an ISR that removed replicas.",
        _of_broker(lambda broker: broker.isrs.shrinks),
    ),
    counter(
        f"{_REPLICAS}isrexpands_total",
        "Changes of an ISR that added a replica.",
        _of_broker(lambda broker: broker.isrs.expands),
    ),
    counter(
        f"{_REPLICAS}failedisrupdates_total",
        "Changes of an ISR that the controller refused.",
        _of_broker(lambda broker: broker.isrs.failures),
    ),
    gauge(
        "kwire_audit_waiting_entries",
        "Entries of this node that the audit topic does not have yet.",
        _waiting_entries,
    ),
    gauge(f"{_REPLICAS}offlinereplicacount", "Partitions whose log cannot be used.", _offline),
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that are offline, or hold a log that cannot be used.",
        _offline_directories,
    ),
    gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Committed records that the partition lacks which is farthest behind its leader.",
        _of_broker(lambda broker: broker.replicas.fetchers.max_lag),
    ),
    gauge(
        f"{_CLEANER}max_dirty_percent",
        "Largest part of a compacted log that was not clean at the last look.",
        _of_broker(lambda broker: int(100 * broker.cleaner.max_dirty_ratio)),
    ),
    gauge(
        f"{_CLEANER}time_since_last_run_ms",
        "Time since the log cleaner last looked for work.",
        _since_last_run_ms,
    ),
    gauge(
        f"{_CLEANER}uncleanable_partitions_count",
        "Partitions that are not compacted any more before the next start.",
        _of_broker(lambda broker: broker.cleaner.uncleanable_count),
    ),
    Metric(
        "kwire_transactions",
        "gauge",
        "Transactional ids that this broker coordinates, by state.",
        _transactions,
        ("state",),
    ),
    gauge(
        "kwire_transaction_markers_waiting",
        "Partitions that lack the marker of a transaction whose outcome is decided.",
        _unmarked,
    ),
)
