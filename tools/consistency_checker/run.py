"""Runs writers, watchers and readers against a cluster while faults are injected, and gives the
checker their history.

It works on kwire's quorum and on real Kafka controllers, whose logs are read from their files
because no API serves them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.consistency_checker.checker import Minimum, Violation, check
from tools.consistency_checker.history import History, LogRead, Outcome, SeenBatch
from tools.consistency_checker.journal import Journal, read_journal
from tools.consistency_checker.reading import ReadError, Tail, fetch_all, read_files, wait_for_end
from tools.consistency_checker.watch import Watch, leader_end
from tools.consistency_checker.writers import (
    BEFORE_ANYTHING,
    CONFIG,
    NOT_CONTROLLER,
    TOPIC,
    Writers,
)
from tools.kafka import Cluster
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster

_SETTLED_S = 60


@dataclass
class Run:
    """A cluster under load. ``recoveries``: seconds from each fault to the next acknowledged
    append.
    """

    cluster: Cluster
    writers: Writers
    watch: Watch
    journal: Path
    tails: list[Tail]
    began: float = field(default_factory=time.monotonic)
    recoveries: list[float] = field(default_factory=list)
    harms: dict[str, int] = field(default_factory=dict)

    def fault_began(self, kind: str) -> None:
        """Count one fault."""
        self.harms[kind] = self.harms.get(kind, 0) + 1

    def recovered(self, since: float, appends: int) -> None:
        """Wait until ``appends`` are acknowledged; note how long the first one took. Raises
        AdminError.
        """
        self.writers.wait_for(1)
        self.recoveries.append(time.monotonic() - since)
        if appends > 1:
            self.writers.wait_for(appends - 1)


@dataclass
class Result:
    """The verdict of the checker on a run, and the size of the run."""

    violations: list[Violation]
    facts: dict[str, Any]


@contextlib.contextmanager
def under_load(cluster: Cluster, journal: Path, *, per_second: float = 1000) -> Iterator[Run]:
    """Run writers, watchers and readers until the block ends. Raises the exception that ended a
    writer.
    """
    own = isinstance(cluster, OwnCluster)
    # A follower of kwire forwards requests, and answers NOT_CONTROLLER only to those that it never
    # forwarded.
    definite = BEFORE_ANYTHING | {NOT_CONTROLLER} if own else BEFORE_ANYTHING
    # Topics need brokers, and a quorum of Kafka's controllers alone has none.
    kinds = (CONFIG, CONFIG, TOPIC) if own else (CONFIG, CONFIG, CONFIG)
    tails = [Tail(node.node_id, node.broker_address) for node in cluster.nodes] if own else []
    with contextlib.ExitStack() as stack:
        book = stack.enter_context(Journal(journal))
        watch = stack.enter_context(Watch(cluster))
        for tail in tails:
            stack.enter_context(tail)
        writers = Writers(
            addresses(cluster), book, kinds=kinds, definite=definite, per_second=per_second
        )
        yield Run(cluster, stack.enter_context(writers), watch, journal, tails)


def addresses(cluster: Cluster) -> Mapping[int, str]:
    """Return the addresses for appends: the clients' listeners of kwire's nodes, or Kafka's
    controllers themselves.
    """
    if isinstance(cluster, OwnCluster):
        return {node.node_id: node.broker_address for node in cluster.nodes}
    return {node.node_id: node.controller_address for node in _controllers(cluster)}


def judge(run: Run, minimum: Minimum) -> Result:
    """Read every node's log up to what is committed now, and check the history. After the load,
    with all nodes up.

    Raises ReadError when a node does not reach that end, ProcessError while there is no leader.
    """
    nodes = _controllers(run.cluster)
    history = History(
        [node.node_id for node in nodes], read_journal(run.journal), leaders=run.watch.seen
    )
    end = leader_end(run.cluster.wait_for_leader())
    if isinstance(run.cluster, OwnCluster):
        history.reads += [tail.read() for tail in run.tails]
        for node in nodes:
            wait_for_end(node.broker_address, end, _SETTLED_S)
            history.reads.append(
                LogRead(node.node_id, fetch_all(node.broker_address, end), final=True)
            )
    for node in nodes:
        history.reads.append(
            LogRead(
                node.node_id, _whole_files(node, end), final=not isinstance(run.cluster, OwnCluster)
            )
        )
    return Result(check(history, minimum), _facts(run, history))


def _whole_files(node: Node, end: int) -> list[SeenBatch]:
    deadline = time.monotonic() + _SETTLED_S
    while True:
        batches = read_files(node.metadata_log_dir, end)
        if batches and batches[-1].last_offset == end - 1:
            return batches
        if time.monotonic() > deadline:
            last = batches[-1].last_offset if batches else None
            raise ReadError(
                f"the files of node {node.node_id} end at {last}, and {end - 1} is committed"
            )
        time.sleep(0.1)


def _facts(run: Run, history: History) -> dict[str, Any]:
    counts = {outcome.value: 0 for outcome in Outcome}
    for attempt in history.attempts:
        counts[attempt.outcome.value] += 1
    log = next(read for read in history.reads if read.final).batches
    times = sorted(run.recoveries)
    return {
        "seconds": round(time.monotonic() - run.began, 1),
        **counts,
        "harms": run.harms,
        "epochs": len({batch.epoch for batch in log}),
        "offsets": log[-1].last_offset + 1,
        "batches_read": sum(len(read.batches) for read in history.reads),
        "leader_answers": sum(one.asked is not None for one in history.leaders),
        "recovery_s_median": round(times[len(times) // 2], 3) if times else None,
        "recovery_s_max": round(times[-1], 3) if times else None,
    }


def _controllers(cluster: Cluster) -> list[Node]:
    return [node for node in cluster.nodes if node.is_controller()]
