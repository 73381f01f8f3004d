"""Measures one stream of the tables of 20 live clusters, with a trigger of a second: the time from
the answer to a change until its row is in the table, and what the stream costs while nothing
changes.

The clusters are quorums of one node, in one process (``tools.own_clusters``). The processor time is
that of Spark's driver, JVM and Python workers, without the clusters'.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tools.admin import Admin
from tools.bench.spark import session, tree_cpu_seconds
from tools.own_clusters import own_clusters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLUSTERS: Final = 20
_ROUNDS: Final = 5
_TRIGGER: Final = "1 second"
#: Seconds from a change to its row, the median.
_WITHIN_S: Final = 3.0
_IDLE_S: Final = 30.0
_TIMEOUT_S: Final = 120.0


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        return [{"what": "spark delivery", "ok": False, "notes": f"not measured: {error}"}]
    with (
        tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch,
        own_clusters(Path(scratch), _CLUSTERS) as found,
        session(Path(scratch)) as spark,
    ):
        addresses = {f"c{n}": address for n, address in enumerate(found)}
        return list(_rows(*_measured(spark, addresses, str(Path(scratch) / "tables"))))


def _measured(
    spark: SparkSession, addresses: Mapping[str, str], root: str
) -> tuple[list[float], float]:
    """Return the seconds from each change to its row, and the processor seconds of a second in
    which nothing changes.
    """
    from kwire.spark import follow
    from kwire.spark.table.places import clusters_at

    sources: list[Any] = [
        {"name": name, "bootstrap.servers": address} for name, address in addresses.items()
    ]
    query = follow(spark, sources, root, trigger={"processingTime": _TRIGGER})
    assert query is not None
    try:
        _wait_until(lambda: len(clusters_at(root)) == len(addresses))
        _arrivals(addresses, root, "warm")  # the first rows of a table cost more
        found = [
            seconds
            for number in range(_ROUNDS)
            for seconds in _arrivals(addresses, root, f"topic-{number}")
        ]
        before, began = tree_cpu_seconds(spark), time.monotonic()
        time.sleep(_IDLE_S)
        return found, (tree_cpu_seconds(spark) - before) / (time.monotonic() - began)
    finally:
        query.stop()


def _arrivals(addresses: Mapping[str, str], root: str, topic: str) -> list[float]:
    """Create a topic in each cluster; return the seconds from each answer to its row."""
    answered: dict[str, float] = {}
    for name, address in addresses.items():
        creatable = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        with Admin([address]) as admin:
            admin.send(CreateTopicsRequest(topics=[creatable], timeout_ms=10_000))
        answered[name] = time.monotonic()
    found: list[float] = []
    waiting = set(addresses)

    def arrived() -> bool:
        for name in [*waiting]:
            if topic in topics_of(root, name):
                found.append(time.monotonic() - answered[name])
                waiting.remove(name)
        return not waiting

    _wait_until(arrived)
    return found


def topics_of(root: str, name: str) -> set[str]:
    """Return the present topics in the tables of a cluster, from the files."""
    from kwire.spark.table.places import cluster_path
    from kwire.spark.table.store import Store

    store = Store(cluster_path(root, name))
    files = store.manifest.current.get("topic", {}).values()
    return {row["name"] for row in store.read(files).to_pylist()} if files else set()


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the stream did not bring its rows within {_TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def _rows(found: list[float], idle: float) -> Iterator[dict[str, Any]]:
    median = statistics.median(found)
    yield {
        "what": f"stream of {_CLUSTERS} clusters, trigger {_TRIGGER}: change to table",
        "unit": "s (p50)",
        "kwire": median,
        "ok": median < _WITHIN_S,
        "notes": f"below {_WITHIN_S:.0f} s; at most {max(found):.2f} s, {len(found)} changes",
    }
    yield {
        "what": f"stream of {_CLUSTERS} clusters: CPU while nothing changes",
        "unit": "% of a core",
        "kwire": 100 * idle,
        "notes": f"driver, JVM and Python workers, {_IDLE_S:.0f} s",
    }
