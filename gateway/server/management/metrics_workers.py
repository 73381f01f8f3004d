"""Lists the metrics of each worker, which are there with ``workers`` above 1.

All other metrics of clients are sums of all workers. The ``process_`` metrics are the node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.server.management.metric import Metric, Sample

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts
    from gateway.server.workers.worker_processes import WorkerProcess


def _of_each(kind: str, name: str, help: str, value: Callable[[WorkerProcess], float]) -> Metric:
    def samples(facts: Facts) -> Iterator[Sample]:
        for worker in facts.workers:
            yield (str(worker.number),), value(worker)

    return Metric(name, kind, help, samples, ("worker",))


#: In the order in which they are shown.
WORKERS: Final = (
    _of_each(
        "gauge",
        "kwire_worker_ready",
        "1 if the worker accepts connections; worker 1 is the node.",
        lambda worker: float(worker.is_ready),
    ),
    _of_each(
        "counter",
        "kwire_worker_restarts_total",
        "Processes of the worker that ended and were replaced.",
        lambda worker: worker.restarts,
    ),
    _of_each(
        "gauge",
        "kwire_worker_connections",
        "Open connections of clients of the worker.",
        lambda worker: worker.counts.counts.connections.total(),
    ),
    _of_each(
        "gauge",
        "kwire_worker_high_watermark",
        "One past the last offset that the worker serves.",
        lambda worker: worker.counts.high_watermark,
    ),
    _of_each(
        "counter",
        "kwire_worker_cpu_seconds_total",
        "Processor time of the worker's processes, s.",
        lambda worker: worker.counts.cpu_s + worker.retired.cpu_s,
    ),
    _of_each(
        "gauge",
        "kwire_worker_resident_memory_bytes",
        "Memory of the worker's process.",
        lambda worker: worker.counts.resident_bytes,
    ),
)
