"""Reads a log for consumers of committed records (``isolation.level=read_committed``): nothing from
the last stable offset on, and the aborted transactions that they have to leave out.

Unlike Kafka, which takes the next entry of the offset index for the end of a read, it names no
transaction behind the records that it returns. Source: ``LocalLog.read``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.ports.services import AbortedTransaction, Read
from gateway.sources import log_reader
from gateway.sources.committed_view import up_to_high_watermark

if TYPE_CHECKING:
    from gateway.log.reading.log_view import LogView
    from gateway.sources.producer_log import ProducerLog


def read_committed(
    view: LogView, stable: int, producers: ProducerLog, offset: int, max_bytes: int
) -> tuple[Read, Sequence[AbortedTransaction]]:
    """Return what ``Partition.read_committed`` does, of a log whose last stable offset is
    ``stable``. Raises OffsetOutOfRange, OSError.
    """
    if stable <= offset <= view.end_offset:
        return log_reader.read(view, view.end_offset, 0), ()
    found = log_reader.read(up_to_high_watermark(view, stable), offset, max_bytes)
    if not producers.has_aborted:
        return found, ()
    end = log_reader.end_of_read(view, offset, found.size)
    aborted = producers.aborted(offset, end)
    return found, [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted]


def bytes_committed(view: LogView, stable: int, offset: int, limit: int) -> int:
    """Return the bytes that such a read would give, counted no further than ``limit``."""
    return log_reader.bytes_available(up_to_high_watermark(view, stable), offset, limit)
