"""Measures how far the copy of a gateway is behind the quorum that it observes: the metadata that
would be missing if every controller and broker were lost at that moment.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tools.admin import Admin
from tools.consistency_checker.watch import leader_end
from tools.consume import LATEST, offset
from tools.gateway_process import Gateway, gateway
from tools.kafka import Cluster, kafka
from tools.wire_client import WireClient

_PAUSE_S: Final = 0.002
_PARTITIONS: Final = 10


@dataclass(frozen=True)
class Lag:
    """The records that a copy lacked when each write was acknowledged, and for how long."""

    records: Sequence[int]
    seconds: Sequence[float]

    def as_json(self) -> dict[str, float]:
        """Return the figures of the report."""
        return {
            "writes": len(self.seconds),
            "recordsBehindMedian": statistics.median(self.records),
            "recordsBehindMost": max(self.records),
            "secondsBehindMedian": round(statistics.median(self.seconds), 4),
            "secondsBehindMost": round(max(self.seconds), 4),
        }


def measure(version: str, writes: int) -> Lag:
    """Create topics, one after the other, and look after each at the quorum and at the gateway.
    Raises JavaError, ProcessError, AdminError.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kwire-drill-") as scratch,
        kafka(version=version, brokers=1, controllers=3) as cluster,
        gateway(*observing(cluster, Path(scratch) / "gateway")) as server,
        Admin(cluster.bootstrap.split(",")) as admin,
        WireClient(server.bootstrap) as reader,
    ):
        records, seconds = [], []
        for number in range(writes):
            topic = CreatableTopic(
                name=f"topic-{number}", num_partitions=_PARTITIONS, replication_factor=1
            )
            admin.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            acknowledged = time.monotonic()
            has = offset(reader, LATEST)
            committed = leader_end(cluster.wait_for_leader())
            records.append(max(committed - has, 0))
            while has < committed:
                time.sleep(_PAUSE_S)
                has = offset(reader, LATEST)
            seconds.append(time.monotonic() - acknowledged)
        return Lag(records, seconds)


def observing(cluster: Cluster, data_dir: Path) -> list[str]:
    """Arguments of ``kwire serve`` that make it an observer of the cluster."""
    where = ["--bootstrap-controller", cluster.controllers, "--data-dir", str(data_dir)]
    return ["--source", "quorum", *where]


def served(server: Gateway) -> int:
    """The offset up to which the gateway serves its copy. Raises OSError, ConsumeError."""
    with WireClient(server.bootstrap) as client:
        return offset(client, LATEST)
