"""Measures what kwire does with many partitions: time, memory, and the wait of other clients.

``KWIRE_SCALE_PARTITIONS`` and ``KWIRE_SCALE_NODES`` name the sizes, separated by commas, such as
``10000,100000,400000,1000000`` and ``1,3``. Topics have 100 partitions with three replicas, on 15
brokers that are simulated. The bars are times and bytes, not ratios.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

from tools.bench.scale_steps import LISTING_CLIENTS, LISTING_S, Bench, Took
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import cpu_seconds

_PARTITIONS: Final = os.environ.get("KWIRE_SCALE_PARTITIONS") or "10000,100000"
_NODES: Final = os.environ.get("KWIRE_SCALE_NODES") or "1,3"
#: The bars.
_WAIT_MS: Final = 50.0
_LIST_CPU_S: Final = 1.0
_LIST_AGAIN: Final = 0.1  # of the time of the first
_SHORT_S: Final = 0.01  # less is not measured well
_BYTES: Final = 500.0
_MEMORY_FROM: Final = 100_000
_FENCE_S: Final = 3.0
_STOP_S: Final = 2.0
_FIRST_WRITE_S: Final = 3.0
#: The shortest time of Kafka's controllers and brokers, with few partitions (``controller``).
_FAILOVER_S: Final = 1.7
#: A snapshot is due after every change with this property.
_SNAPSHOTS: Final = {"metadata.log.max.record.bytes.between.snapshots": "1"}
#: The simulated brokers share a processor with this bench, and a heartbeat waits while the
#: controller decides: none of them is to be fenced by chance.
_BROKERS_STAY: Final = {"broker.session.timeout.ms": "120000"}
_READY_S: Final = 120.0
_SNAPSHOT_BEGINS_S: Final = 2.0
_MIB: Final = 1 << 20

Row = dict[str, Any]


def run() -> Iterator[Row]:
    """Yield the rows of each size."""
    for nodes in map(int, _NODES.split(",")):
        for partitions in map(int, _PARTITIONS.split(",")):
            yield from Size(nodes, partitions).rows()


class Size:
    """One size: a number of nodes and of partitions."""

    def __init__(self, nodes: int, partitions: int) -> None:
        self._nodes = nodes
        self._partitions = partitions
        self._name = f"{nodes} node{'s' * (nodes > 1)}, {partitions:,} partitions"
        self._worst: tuple[float, str] = 0.0, "no step"
        self._held: tuple[float, str] = 0.0, f"no step of {_WAIT_MS:g} ms or more"
        self._began = time.monotonic()

    def rows(self) -> Iterator[Row]:
        with ExitStack() as stack:
            cluster = stack.enter_context(
                own_quorum(self._nodes, formatted=True, properties=_BROKERS_STAY)
            )
            bench = Bench(cluster, self._partitions, stack)
            empty = bench.memory_mib()
            with bench.probed():
                yield from self._changes(bench)
            yield self._memory("memory, highest while it serves all this", bench, empty, "VmHWM")
            yield from self._restart(bench, empty)
            yield from self._stop(bench)
            yield self._row(
                "longest step of the event loop", "ms", self._held[0], _WAIT_MS, self._held[1]
            )
            yield self._row(
                "longest wait of another client", "ms", self._worst[0], _WAIT_MS, self._worst[1]
            )

    def _changes(self, bench: Bench) -> Iterator[Row]:
        """The rows of all that is asked of a quorum that runs."""
        took = self._took("create", bench, bench.create)
        yield self._row(
            "create", "partitions/s", bench.partitions / took.seconds, notes=_notes(took)
        )
        first = self._took("list all topics", bench, bench.list_topics)
        size = f"{first.result / _MIB:.1f} MiB; "
        yield self._row(
            "list all topics, CPU of the event loop",
            "s",
            first.loop_s,
            _LIST_CPU_S,
            size + _notes(first),
        )
        again = self._took("list all topics again", bench, bench.list_topics)
        yield self._row(
            "list all topics again, CPU of the event loop",
            "s",
            again.loop_s,
            max(_LIST_AGAIN * first.loop_s, _SHORT_S),
            _notes(again),
        )
        many = self._took(f"{LISTING_CLIENTS} clients list all topics", bench, bench.list_by_many)
        yield self._row(
            f"{LISTING_CLIENTS} clients list all topics at once for {LISTING_S:g} s",
            "elections",
            many.elections,
            0,
            f"{many.result} answers; {_notes(many)}",
        )
        for name, step in (
            ("describe all topics, page by page", bench.describe),
            ("describe the configs of all topics", bench.describe_configs),
        ):
            took = self._took(name, bench, step)
            yield self._row(f"{name}, server CPU", "s", took.cpu_s, notes=_notes(took))
        for name, step_ms in (
            ("change a config", bench.change_config),
            ("AlterPartition of one partition", bench.alter_partition),
        ):
            took = self._took(name, bench, step_ms)
            yield self._row(name, "ms (p50)", took.result, notes=str(took.waits))
        took = self._took("fence a broker", bench, bench.fence)
        shared = f"in the ISR of {bench.partitions // 5:,} partitions; "
        yield self._row(
            "fence a broker: new leaders", "s", took.seconds, _FENCE_S, shared + _notes(took)
        )
        took = self._took("unfence it", bench, bench.unfence)
        yield self._row("unfence it", "s", took.seconds, notes=_notes(took))
        took = self._took("move 1,000 partitions", bench, bench.move)
        yield self._row("move 1,000 partitions", "s", took.seconds, notes=_notes(took))

    def _restart(self, bench: Bench, empty_mib: float) -> Iterator[Row]:
        """The rows of ``kill -9``: of the only node, or of the leader."""
        self._say("kill -9")
        cluster, killed = bench.cluster, bench.leader
        began = time.monotonic()
        cluster.kill_node(killed)
        if self._nodes > 1:
            bench.write()
            took_s = time.monotonic() - began
            yield self._row("leader killed to first write", "s", took_s, _FAILOVER_S)
        began = time.monotonic()
        cluster.start_node(killed)
        cluster.wait_for_node(killed, _READY_S)
        yield self._row("start after kill -9 to ready", "s", time.monotonic() - began)
        bench.write()
        if self._nodes == 1:
            first = time.monotonic() - began
            cpu = f"CPU {cpu_seconds(killed.pid):.2f} s"
            yield self._row("start after kill -9 to first write", "s", first, _FIRST_WRITE_S, cpu)
        with bench.probed():
            self._took("list all topics after the restart", bench, bench.list_topics)
        yield self._memory("memory after a restart", bench, empty_mib, "VmRSS")

    def _stop(self, bench: Bench) -> Iterator[Row]:
        """The rows of a snapshot, and of SIGTERM while the next one is written."""
        self._say("snapshot, stop")
        cluster = bench.cluster
        cluster.stop(kill=True)
        _start_with_snapshots(cluster)
        bench.write()
        with bench.probed():
            took = self._took("write a snapshot", bench, lambda: _next_snapshot(bench))
            yield self._row("write a snapshot", "s", took.seconds, notes=_notes(took))
            bench.write()
            time.sleep(_SNAPSHOT_BEGINS_S)
        began = time.monotonic()
        cluster.stop_node(bench.leader, _READY_S)
        stopped = time.monotonic() - began
        yield self._row("SIGTERM to exit, with a snapshot under way", "s", stopped, _STOP_S)

    def _took(self, name: str, bench: Bench, step: Any) -> Took:
        self._say(name)
        took = bench.took(step)
        self._worst = max(self._worst, (took.waits.worst_ms, name))
        if took.held_ms:
            self._held = max(self._held, (float(took.held_ms), name))
        return took

    def _say(self, step: str) -> None:
        line = f"  {time.monotonic() - self._began:5.0f} s  {self._name}: {step}"
        print(line, file=sys.stderr, flush=True)

    def _memory(self, what: str, bench: Bench, empty_mib: float, key: str) -> Row:
        used = bench.memory_mib(key)
        each = (used - empty_mib) * _MIB / bench.partitions
        notes = f"{used:.0f} MiB, {empty_mib:.0f} MiB of it before the first topic"
        # With few partitions the memory that the allocator keeps counts most.
        measures = key == "VmRSS" and bench.partitions >= _MEMORY_FROM
        limit = _BYTES if measures else None
        return self._row(what, "bytes/partition", each, limit, notes)

    def _row(
        self, what: str, unit: str, value: float, limit: float | None = None, notes: str = ""
    ) -> Row:
        """A row; ``limit`` is the largest value with which its bar holds."""
        row: Row = {"what": f"{self._name}: {what}", "unit": unit, "kwire": float(value)}
        if limit is not None:
            row["ok"] = value <= limit
            notes = f"at most {limit:g} {unit}{'; ' * bool(notes)}{notes}"
        return {**row, "notes": notes}


def _notes(took: Took) -> str:
    """The effect of a step on others, in words."""
    held = f", event loop held {took.held_ms} ms" if took.held_ms else ""
    elections = f", {took.elections} ELECTIONS" if took.elections else ""
    return f"{took.seconds:.2f} s, CPU {took.cpu_s:.2f} s, {took.waits}{held}{elections}"


def _start_with_snapshots(cluster: OwnCluster) -> None:
    """Start all nodes so that each change makes a snapshot due."""
    for node in cluster.nodes:
        cluster.configure_node(node, _SNAPSHOTS)
        cluster.start_node(node)
    for node in cluster.nodes:
        cluster.wait_for_node(node, _READY_S)


def _next_snapshot(bench: Bench) -> None:
    """Return when the leader has written one more snapshot than now."""
    bench.write()
    written = _snapshots(bench)
    bench.leader.running_process().wait_until(lambda: _snapshots(bench) > written, 4 * _READY_S)


def _snapshots(bench: Bench) -> int:
    log = bench.leader.running_process().log
    return log.read_text(errors="replace").count("snapshot written")
