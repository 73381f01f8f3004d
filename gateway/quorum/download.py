"""One snapshot on its way, chunk by chunk (KIP-630). Knows where it stands, not who sends it nor
where it is written.
"""

from __future__ import annotations

from typing import Final

from gateway.quorum.effects import SnapshotChunk
from gateway.quorum.response_checks import InvalidResponse
from gateway.snapshot_id import SnapshotId
from kwire.messages.fetch_snapshot_response import PartitionSnapshot

#: Answers in a row without a byte before the snapshot is given up.
_EMPTY_MAX: Final = 3


class Download:
    """The bytes of ``id`` up to ``position``; ``size`` is None until the first answer told it."""

    __slots__ = ("_empty", "id", "interrupted", "position", "size")

    def __init__(self, id: SnapshotId) -> None:
        self.id = id
        self.position = 0
        self.size: int | None = None
        #: the leader was lost on the way: it must point to this snapshot again before we go on
        self.interrupted = False
        self._empty = 0

    @property
    def complete(self) -> bool:
        """Everything is here: asking for more, at position = size, is an error to Kafka."""
        return self.position == self.size

    def take(self, partition: PartitionSnapshot) -> SnapshotChunk | None:
        """The chunk of an answer without error, None for one without bytes.

        Raises InvalidResponse when it is not the chunk that comes next, when the size changed, or
        after several empty ones.
        """
        got = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if got != self.id or partition.position != self.position:
            raise InvalidResponse(
                f"bytes of snapshot {got} at {partition.position} where {self.id} at {self.position} was asked for"
            )
        data = partition.unaligned_records or b""
        size = partition.size
        if size < 1 or size != (self.size or size) or self.position + len(data) > size:
            raise InvalidResponse(
                f"{len(data)} bytes at {self.position} of snapshot {self.id} of {size} bytes, before said to be {self.size}"
            )
        if not data:
            self._empty += 1
            if self._empty >= _EMPTY_MAX:
                raise InvalidResponse(
                    f"{self._empty} answers without a byte of snapshot {self.id} at {self.position} of {size}"
                )
            return None
        self._empty = 0
        self.size = size
        chunk = SnapshotChunk(self.position, data, size)
        self.position += len(data)
        return chunk
