"""Starts a Kafka quorum and a gateway that observes it, reads the logs of both, and compares
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.records import decode_metadata_record
from tests.interop.clients import missing
from tests.interop.reading import Record
from tests.interop.truth import Batch, split
from tests.waiting import until
from tools import java
from tools.admin import Admin
from tools.consume import EARLIEST, LATEST, fetch, offset
from tools.kafka import Cluster, Node
from tools.wire_client import WireClient

#: Elections within two seconds, not so eager that a machine with few cores holds them for nothing.
QUICK_ELECTIONS = {
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "1000",
}
_TOPIC_ALREADY_EXISTS = 36


def need_kafka(version: str = java.KAFKA_VERSION) -> None:
    """Skip or fail unless that release of Kafka can run here."""
    try:
        java.java()
        java.class_path(version)
    except java.JavaError as error:
        missing(f"Kafka {version} cannot run: {error}")


def observing(cluster: Cluster, data_dir: Path, *more: str) -> list[str]:
    """Arguments of ``kwire serve`` that make it an observer of the cluster."""
    return [
        "--source",
        "quorum",
        "--bootstrap-controller",
        cluster.controllers,
        "--data-dir",
        str(data_dir),
        *more,
    ]


def make_topics(cluster: Cluster, names: Sequence[str], partitions: int = 4) -> None:
    """Create topics in one request, because each start of Kafka's tool takes a second."""
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
    ]
    with Admin(cluster.bootstrap.split(",")) as admin:
        admin.send(
            CreateTopicsRequest(topics=topics, timeout_ms=30_000), accept={_TOPIC_ALREADY_EXISTS}
        )


def files_of(node: Node, below: int | None = None) -> list[Batch]:
    """The batches in the node's segment files, which may be growing; those before offset
    ``below``.
    """
    segments = sorted(node.metadata_log_dir.glob("*.log"))
    return clipped(
        (batch for one in segments for batch in split(one.read_bytes(), growing=True)), below
    )


def clipped(batches: Iterable[Batch], below: int | None, start: int = 0) -> list[Batch]:
    """Batches from ``start`` on that end below ``below``."""
    return [
        batch
        for batch in batches
        if batch.last_offset >= start and (below is None or batch.last_offset < below)
    ]


def offsets_of(address: str) -> tuple[int, int]:
    """Start and end offset of the topic for a consumer of the server at ``address``."""
    with WireClient(address) as client:
        return offset(client, EARLIEST), offset(client, LATEST)


def fetched_from(address: str, start: int, end: int) -> list[Batch]:
    """The batches from ``start`` to ``end``, as raw Fetch responses of the server."""
    with WireClient(address) as client:
        return [batch for data in fetch(client, start, end) for batch in split(data, growing=True)]


def wait_for_end(address: str, end: int) -> None:
    """Return when consumers of the server at ``address`` can read up to ``end``."""
    until(lambda: offsets_of(address)[1], f"{address} comes to {end}", lambda seen: seen >= end)


def wait_for_segments(node: Node, end: int) -> list[Batch]:
    """The node's batches below ``end``, once its files hold them all."""
    until(lambda: files_of(node)[-1].last_offset >= end - 1, f"node {node.node_id} comes to {end}")
    return clipped(files_of(node), end)


def first_unequal(seen: Sequence[Batch], expected: Sequence[Batch]) -> str:
    """A description of the first difference of two logs; empty when all batches have the same
    bytes.
    """
    for one, other in zip(seen, expected, strict=False):
        if one.data != other.data:
            return (
                f"batch {one.base_offset}-{one.last_offset} of epoch {one.epoch} "
                f"instead of {other.base_offset}-{other.last_offset} of epoch {other.epoch}"
            )
    return "" if len(seen) == len(expected) else f"{len(seen)} batches instead of {len(expected)}"


def records_of(batches: Iterable[Batch]) -> list[Record]:
    """The records of these batches that a consumer must get."""
    return [record for batch in batches if not batch.control for record in batch.records()]


def types_of(records: Iterable[Record]) -> set[str]:
    """Names of the metadata records."""
    return {decode_metadata_record(record.value or b"")[2].NAME for record in records}
