"""Damages the metadata log of a node that is killed, at a record that a case names. It starts and
stops nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record
from tools.kafka import Node


class Place(NamedTuple):
    """The offset of a record, and the end of its batch in the log, in bytes."""

    offset: int
    end: int


def place_of(node: Node, topic: str) -> Place | None:
    """The record that made a topic, in the last segment of a node; None if it has none. Raises
    DecodeError where the log ends inside a batch.
    """
    for header, records in read_log_file(_segment(node)):
        for record in [] if header.is_control else records:
            message = decode_metadata_record(record.value or b"")[2]
            if isinstance(message, TopicRecord) and message.name == topic:
                return Place(record.offset, header.end)
    return None


def flip(node: Node, place: Place) -> None:
    """Flip a bit of the batch with a record, as a bad disk does."""
    path = _segment(node)
    data = bytearray(path.read_bytes())
    data[place.end - 1] ^= 1
    path.write_bytes(data)


def cut_off(node: Node, place: Place) -> None:
    """Cut the log off inside the batch with a record, as a host does that loses its power."""
    path = _segment(node)
    path.write_bytes(path.read_bytes()[: place.end - 1])


def _segment(node: Node) -> Path:
    return max(node.metadata_log_dir.glob("*.log"))
