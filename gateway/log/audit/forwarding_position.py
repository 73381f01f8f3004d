"""Keeps how far the entries of a node's audit log are in the audit topic, in a file beside them.

The file is written before a batch is sent, and says what is in it. A node that has crashed since
sends the same batch with the same sequence numbers, and the leader of the topic knows it from that
(KIP-98). It does not know who leads (``gateway.server.broker.audit_forwarder``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from gateway.base.sizes import KIB
from gateway.log.files.disk import Disk, doing
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular
from kwire.uuid import Uuid

FILE_NAME: Final = "forwarded"
#: Sequence numbers are 31 bits, and 0 follows the largest (``DefaultRecordBatch``).
_SEQUENCES: Final = 1 << 31
_BYTES_MAX: Final = KIB
_NUMBERS: Final = ("offset", "end_offset", "producer_id", "producer_epoch", "sequence")


class ForwardingPosition(NamedTuple):
    """``offset`` is that of the first entry which may be missing in the topic ``topic_id``, and
    ``sequence`` its sequence number. The entries from there up to ``end_offset`` were sent as one
    batch, whose outcome is not known; both are equal if there is none. ``producer_id`` is -1 before
    the first batch.
    """

    topic_id: Uuid
    offset: int
    end_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = 0

    @classmethod
    def at(cls, topic_id: Uuid, offset: int) -> ForwardingPosition:
        """Return the position at which a new producer begins."""
        return cls(topic_id, offset, offset)

    def with_producer(self, producer_id: int) -> ForwardingPosition:
        """Return the position from which a new producer goes on."""
        return self._replace(producer_id=producer_id, producer_epoch=0, sequence=0)

    def sent(self, count: int, end_offset: int) -> ForwardingPosition:
        """Return the position when the topic has ``count`` entries more, those up to
        ``end_offset``.
        """
        sequence = (self.sequence + count) % _SEQUENCES
        return self._replace(offset=end_offset, end_offset=end_offset, sequence=sequence)


class ForwardingFile:
    """The file in ``directory``. Blocking."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / FILE_NAME
        self._disk = disk

    def read(self) -> ForwardingPosition | None:
        """Return the position; None without a file. Raises DiskFailed, and DecodeError if the file
        is damaged.
        """
        with doing("read", self._path):
            try:
                # One byte more than allowed shows that the file is larger.
                data = read_regular(self._path, _BYTES_MAX + 1)
            except FileNotFoundError:
                return None
        return parse_position(data)

    def write(self, position: ForwardingPosition) -> None:
        """Write the position durably. Raises DiskFailed."""
        values = {"topic_id": str(position.topic_id)} | {
            name: getattr(position, name) for name in _NUMBERS
        }
        self._disk.replace(self._path, json.dumps(values).encode() + b"\n")


def parse_position(data: bytes) -> ForwardingPosition:
    """Parse the file's bytes. Raises DecodeError."""
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no position")
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None
    if not isinstance(values, dict) or not isinstance(values.get("topic_id"), str):
        raise DecodeError("not an object with a topic_id")
    # ``type`` and not ``isinstance``: True is an int.
    numbers = [values[name] for name in _NUMBERS if type(values.get(name)) is int]
    if len(numbers) != len(_NUMBERS):
        raise DecodeError(f"not an integer among {', '.join(_NUMBERS)}")
    offset, end_offset, producer_id, producer_epoch, sequence = numbers
    if not 0 <= offset <= end_offset or producer_id < -1 or not 0 <= sequence < _SEQUENCES:
        raise DecodeError("a number is out of range")
    try:
        topic_id = Uuid.parse(values["topic_id"])
    except ValueError as error:
        raise DecodeError(f"topic_id: {error}") from None
    return ForwardingPosition(topic_id, offset, end_offset, producer_id, producer_epoch, sequence)
