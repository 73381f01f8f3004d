"""Helpers of the tests of kwire's own quorum: the verdict of the loss checker with its figures,
and reading the nodes' files.
"""

from __future__ import annotations

from pathlib import Path

from kwire.messages.topic_record import TopicRecord
from kwire.records import decode_metadata_record
from tests.interop.conftest import FIGURES
from tests.interop.quorum import files_of, records_of
from tests.interop.reading import Record
from tools import java, java_tools
from tools.consistency_checker.run import Result
from tools.kafka_files import Node


def passed(what: str, result: Result) -> None:
    """No rule is broken; the figures go to the end of the test run."""
    FIGURES.append(f"{what}: {result.facts}")
    assert result.violations == []


def in_files(node: Node, end: int) -> list[Record]:
    """The records for consumers in the node's segments below offset ``end``."""
    return [record for record in records_of(files_of(node, end)) if record.offset < end]


def topics_in(records: list[Record]) -> set[str]:
    """Names of the topics that were created."""
    found = (decode_metadata_record(record.value or b"")[2] for record in records)
    return {record.name for record in found if isinstance(record, TopicRecord)}


def first_segment(node: Node) -> Path:
    """The file that the node's metadata log begins with, unless it begins with a snapshot."""
    return node.metadata_log_dir / f"{0:020d}.log"


def dump(node: Node) -> list[str]:
    """The output of kafka-dump-log for the node's first segment, with valid CRCs."""
    arguments = ["--files", str(first_segment(node)), "--cluster-metadata-decoder"]
    lines = java_tools.run_tool(java.DUMP_LOG_SEGMENTS, arguments).splitlines()
    assert all("isvalid: true" in line for line in lines if line.startswith("baseOffset:"))
    return lines


def create_by_java(bootstrap: str, topic: str) -> None:
    """kafka-topics creates a topic of two partitions, and lists it."""
    where = ["--bootstrap-server", bootstrap]
    java_tools.run_tool(
        java.TOPICS,
        [*where, "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1"],
    )
    assert topic in java_tools.run_tool(java.TOPICS, [*where, "--list"]).split()
