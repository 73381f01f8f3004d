"""Reads and writes ``partition.metadata``: the topic id of a partition's directory
(``PartitionMetadataFile``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular
from kwire.uuid import Uuid

FILE_NAME: Final = "partition.metadata"
_BYTES_MAX: Final = 4096
_LINES: Final = re.compile(r"version: *(\S+)\n+topic_id: *(\S+)\s*", re.ASCII)


def read_topic_id(path: Path) -> Uuid:
    """Return the topic id. Raises OSError, and DecodeError with the file as ``path``."""
    data = read_regular(path, _BYTES_MAX)
    try:
        return parse_topic_id(data)
    except DecodeError as error:
        raise DecodeError(error.reason, path=str(path)) from None


def parse_topic_id(data: bytes) -> Uuid:
    """Parse the file's bytes; version 0 is the only one. Raises DecodeError."""
    # Both line ends: ``BufferedReader.readLine`` of Kafka takes them.
    match = _LINES.fullmatch(data.decode("ascii", "replace").replace("\r\n", "\n"))
    if match is None:
        raise DecodeError("not the two lines 'version: 0' and 'topic_id: ID'")
    # Kafka takes a later version, too (``PartitionMetadataReadBuffer.read``). None is known, nor
    # what it would hold.
    if match[1] != "0":
        raise DecodeError(f"version {match[1]} is not 0")
    try:
        return Uuid.parse(match[2])
    except ValueError as error:
        raise DecodeError(str(error)) from None


def format_topic_id(topic_id: Uuid) -> bytes:
    """Return the file's bytes, which end without a newline, as Kafka's do."""
    # The tests compare it with a file of Kafka byte for byte.
    return f"version: 0\ntopic_id: {topic_id}".encode("ascii")
