"""Measures many clients at once beside Kafka: ten producers and ten consumers over 1,000 partitions
of one topic, with the batches of Java's clients at their defaults.

Each producer writes to all partitions in turn, some in a request; each consumer reads a share of
them in a Fetch session (KIP-227). They are threads of this process, on another processor than the
servers (see ``processors``), and make a batch once, so that the server is what is measured. Counted
are the bytes that the consumers get. All that was acknowledged has to be consumed in the end, and
the longest time without any record tells whether the server stops.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tools.bench import processors
from tools.bench.data_servers import DataServer, both
from tools.bench.produce import batch_of, produce_request, wall_ms
from tools.bench.rounds import ROUNDS, Value, compared, row
from tools.java import JavaError
from tools.process import PATIENCE_S, ProcessError, cpu_seconds
from tools.wire_client import WireClient

_GB = 1e9
_PRODUCE, _FETCH = 9, 11
#: As Java's consumer: the most bytes of a partition, and of a response; ms of a long poll.
_PARTITION_MAX, _FETCH_MAX, _WAIT_MS = 1 << 20, 50 << 20, 500


class Sizes(NamedTuple):
    """How much is measured; ``batch`` and ``record`` are bytes, ``asked`` partitions in a Produce
    request.
    """

    partitions: int = 1000
    producers: int = 10
    consumers: int = 10
    asked: int = 50
    batch: int = 16 << 10
    record: int = 1000
    measured_s: float = 4.0
    warm_up_s: float = 6.0
    rounds: int = ROUNDS


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows; one with the reason where Kafka cannot run."""
    try:
        with both() as servers, processors.pin_processors(*(one.pid for one in servers)):
            yield from rows(servers, Sizes())
    except (JavaError, ProcessError) as error:
        yield {"what": "clients", "ok": False, "notes": f"not measured: {error}"}


def rows(servers: Sequence[DataServer], sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Yield the rows of two servers."""
    pauses: dict[str, list[float]] = {server.name: [] for server in servers}

    # The same topic in each round: a broker would be deleting the last one meanwhile.
    topics = {server.name: f"bench-clients-{n}" for n, server in enumerate(servers)}
    for server in servers:
        server.create(topics[server.name], sizes.partitions)

    def measure(server: DataServer, warm_up_s: float) -> Value:
        measured = _Load(server, topics[server.name], sizes).run(warm_up_s)
        pauses[server.name].append(measured.pause_s)
        return Value(measured.cpu_s / measured.size * _GB, measured.rate)

    clients = f"{sizes.producers} producers, {sizes.consumers} consumers"
    what = f"{clients}, {sizes.partitions:,} partitions, batches of {sizes.batch >> 10} KiB"
    costs = compared(
        servers, what, "s CPU/GB", measure, rounds=sizes.rounds, first_warm_up_s=sizes.warm_up_s
    )
    yield {**costs, "bar": 0.5}
    own, peer = (1000 * statistics.median(pauses[server.name][1:]) for server in servers)
    yield row(servers, f"{clients}: longest time without a record", "ms", own, peer)


class _Measured(NamedTuple):
    """Bytes that were consumed in the measured time, those of a second, the server's processor time
    and the longest time without a record.
    """

    size: int
    rate: float
    cpu_s: float
    pause_s: float


class _Load:
    """The clients of one measurement."""

    def __init__(self, server: DataServer, topic: str, sizes: Sizes) -> None:
        self._server, self._topic, self._sizes = server, topic, sizes
        self._starts = [server.end(topic, index) for index in range(sizes.partitions)]
        self._batch, self._records = batch_of(sizes.batch, sizes.record, wall_ms())
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._acknowledged: int | None = None  # batches, when the producers have ended
        self._produced = self._consumed = 0
        self._last = self._longest_s = 0.0
        self._faults: list[BaseException] = []

    def run(self, warm_up_s: float) -> _Measured:
        """Produce and consume; return what was measured after ``warm_up_s``. Raises OSError if a
        batch was refused, or is not consumed.
        """
        sizes = self._sizes
        producing = [self._start(self._produce, n) for n in range(sizes.producers)]
        consuming = [self._start(self._consume, n) for n in range(sizes.consumers)]
        try:
            deadline = time.monotonic() + 2 * PATIENCE_S
            # A broker opens the logs of all partitions first.
            while self._consumed < 2 * sizes.partitions and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(warm_up_s)
            first, cpu, began = self._consumed, cpu_seconds(self._server.pid), time.monotonic()
            self._last, self._longest_s = began, 0.0
            time.sleep(sizes.measured_s)
            while self._consumed == first and time.monotonic() < deadline:
                time.sleep(0.01)  # a broker that stops is measured until it goes on
            took = time.monotonic() - began
            count, cpu = self._consumed - first, cpu_seconds(self._server.pid) - cpu
            longest_s = max(self._longest_s, time.monotonic() - self._last)
        finally:
            self._stopped.set()
            for thread in producing:
                thread.join()
            self._acknowledged = self._produced
            for thread in consuming:
                thread.join()
        if self._faults or self._consumed != self._acknowledged or not count:
            raise OSError(
                f"{self._server.name} acknowledged {self._acknowledged} batches and gave "
                f"{self._consumed}, {count} of them in time: {self._faults}"
            )
        size = count * len(self._batch)
        return _Measured(size, size / took, cpu, longest_s)

    def _start(self, work: Any, number: int) -> threading.Thread:
        def guarded() -> None:
            try:
                with WireClient(self._server.address) as client:
                    # As from any client: a connection may begin with a small request only.
                    client.call(ApiVersionsRequest(), 0)
                    work(client, number)
            except BaseException as fault:
                self._faults.append(fault)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def _produce(self, client: WireClient, number: int) -> None:
        sizes = self._sizes
        starts = range(0, sizes.partitions, sizes.asked)
        requests = [
            produce_request(
                self._topic, range(start, min(start + sizes.asked, sizes.partitions)), self._batch
            )
            for start in starts
        ]
        turns = itertools.cycle(requests)
        for _ in range(number * len(requests) // sizes.producers):
            next(turns)  # each begins elsewhere
        while not self._stopped.is_set():
            (answer,) = client.call(next(turns), _PRODUCE).responses
            errors = {one.error_code for one in answer.partition_responses}
            if errors != {0}:
                raise OSError(f"batches were refused: {errors}")
            with self._lock:
                self._produced += len(answer.partition_responses)

    def _consume(self, client: WireClient, number: int) -> None:
        sizes, session, epoch = self._sizes, 0, 0
        owned = range(number, sizes.partitions, sizes.consumers)
        offsets = {index: self._starts[index] for index in owned}
        changed = list(offsets)
        deadline = None
        while self._acknowledged is None or self._consumed < self._acknowledged:
            partitions = [
                FetchPartition(
                    partition=index, fetch_offset=offsets[index], partition_max_bytes=_PARTITION_MAX
                )
                for index in changed
            ]
            topics = [FetchTopic(topic=self._topic, partitions=partitions)] if partitions else []
            asked = FetchRequest(
                max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_FETCH_MAX, session_id=session,
                session_epoch=epoch, topics=topics,
            )  # fmt: skip
            answer = client.call(asked, _FETCH)
            session, epoch = answer.session_id, epoch + 1
            changed = self._take(answer, offsets)
            if self._acknowledged is not None:
                deadline = deadline or time.monotonic() + PATIENCE_S
                if time.monotonic() > deadline:
                    break

    def _take(self, answer: Any, offsets: dict[int, int]) -> list[int]:
        """Count the batches of an answer; return the partitions that had some."""
        found = [one for topic in answer.responses for one in topic.partitions]
        errors = {answer.error_code, *(one.error_code for one in found)}
        if errors != {0}:
            raise OSError(f"records were not given: {errors}")
        changed, got = [], 0
        for one in found:
            batches = len(one.records or b"") // len(self._batch)  # Kafka may cut the last one off
            if batches:
                offsets[one.partition_index] += batches * self._records
                changed.append(one.partition_index)
                got += batches
        if got:
            now = time.monotonic()
            with self._lock:
                self._consumed += got
                self._longest_s = max(self._longest_s, now - self._last)
                self._last = now
        return changed
