"""Fetches the jars of Kafka Streams that a broker's class path does not have."""

from __future__ import annotations

from pathlib import Path

from kwire.jars.maven import resolve
from tools.java import KAFKA_VERSION

#: The release that Kafka Streams of ``KAFKA_VERSION`` names.
_ROCKSDB = "10.1.3"


def jars() -> list[Path]:
    """Return the jars. Raises MavenError."""
    return resolve(
        [f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", f"org.rocksdb:rocksdbjni:{_ROCKSDB}"]
    )
