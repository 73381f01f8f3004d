"""Measures commits, kwire beside Kafka: the latency of createTopics one at a time, and topics a
second in batches.

The client is confluent-kafka for both. Rounds alternate, so that a slow phase of the machine slows
both. A topic counts when its response arrived: then it is committed, on the disks of a majority.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tools import java
from tools.gateway_process import gateway
from tools.java import KAFKA_VERSION
from tools.kafka import FULL_SPEED, kafka
from tools.own_quorum import own_quorum

_ROUNDS, _WARM_UP = 6, 1
_SINGLES, _BATCHES, _BATCH = 50, 4, 100
_STARTS, _START_S_MAX = 5, 0.5
_TIMEOUT_S = 60


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        java.java()
        java.class_path()
    except java.JavaError as error:
        return [{"what": "commit", "ok": False, "notes": f"not measured: {error}"}]
    return [*_start(), *_compare(1, bar=1.0), *_compare(3, bar=None)]


def _start() -> Iterator[dict[str, Any]]:
    starts = []
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        for number in range(_STARTS):
            with gateway("--data-dir", str(Path(scratch) / str(number))) as server:
                starts.append(server.started_in_s)
    yield {
        "what": "start of a fresh quorum of one to ready",
        "unit": "s",
        "kwire": statistics.median(starts),
        "ok": statistics.median(starts) < _START_S_MAX,
        "notes": f"below {_START_S_MAX} s",
    }


def _compare(controllers: int, bar: float | None) -> Iterator[dict[str, Any]]:
    """The rows of a quorum of one (Kafka: broker and controller in one process), or of three (and a
    broker apart).
    """
    with ExitStack() as stack:
        quorum = stack.enter_context(own_quorum(controllers))
        cluster = stack.enter_context(
            kafka(
                brokers=1,
                controllers=0 if controllers == 1 else controllers,
                static_voters=True,
                options=FULL_SPEED,
            )
        )
        quorum.wait_for_leader()
        sides = {"kwire": Side(quorum.bootstrap), "Kafka": Side(cluster.bootstrap)}
        for number in range(_WARM_UP + _ROUNDS):
            for name in sorted(sides, reverse=bool(number % 2)):
                sides[name].round(counts=number >= _WARM_UP)
    who = "one controller" if controllers == 1 else f"{controllers} controllers"
    peer = f"Kafka {KAFKA_VERSION}"
    for what, figure in _PERCENTILES.items():
        own, their = (figure(sides[name].latencies) for name in ("kwire", "Kafka"))
        yield {
            "what": f"createTopics one at a time, {who}",
            "unit": f"ms ({what})",
            "kwire": own,
            "peer": peer,
            "peer_value": their,
            "ratio": their / own,
            "bar": bar,
            "notes": f"{len(sides['kwire'].latencies)} topics",
        }
    own, their = (statistics.median(sides[name].rates) for name in ("kwire", "Kafka"))
    yield {
        "what": f"createTopics in batches of {_BATCH}, {who}",
        "unit": "topics/s",
        "kwire": own,
        "peer": peer,
        "peer_value": their,
        "ratio": own / their,
        "bar": bar,
        "notes": f"{_ROUNDS * _BATCHES * _BATCH} topics",
    }


def _percentile(share: int) -> Callable[[list[float]], float]:
    return lambda values: statistics.quantiles(values, n=100)[share - 1]


_PERCENTILES: Mapping[str, Callable[[list[float]], float]] = {
    "p50": _percentile(50),
    "p99": _percentile(99),
}


class Side:
    """One server under the client: ``latencies`` in ms of single creations, ``rates`` in topics/s
    of each round's batches.
    """

    def __init__(
        self, bootstrap: str, *, singles: int = _SINGLES, batches: int = _BATCHES, replicas: int = 1
    ) -> None:
        """Each round creates ``singles`` topics one by one and ``batches`` of many, of ``replicas``
        each.
        """
        from confluent_kafka.admin import AdminClient

        self.latencies: list[float] = []
        self.rates: list[float] = []
        # Critical messages only: the client reports its lost server at the end, which is expected.
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._singles, self._batches, self._replicas = singles, batches, replicas
        self._number = 0

    def round(self, *, counts: bool) -> None:
        """Create so many topics one by one, then so many batches."""
        latencies = [1000 * self._create(1) for _ in range(self._singles)]
        took = sum(self._create(_BATCH) for _ in range(self._batches))
        if counts:
            self.latencies += latencies
            self.rates.append(self._batches * _BATCH / took)

    def _create(self, count: int) -> float:
        """Return seconds from the call to the last response. Raises KafkaException for a refused
        topic.
        """
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        self._number += count
        names = [f"bench-{self._number - index}" for index in range(count)]
        topics = [
            NewTopic(name, num_partitions=1, replication_factor=self._replicas) for name in names
        ]
        began = time.perf_counter()
        for future in self._admin.create_topics(topics, request_timeout=_TIMEOUT_S).values():
            future.result(_TIMEOUT_S)
        return time.perf_counter() - began
