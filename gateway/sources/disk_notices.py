"""Says when the disk begins to refuse batches, and when it takes them again: two events, however
many batches are refused in between.

A full disk refuses each batch by itself, and the broker goes on: it serves what it has, and takes
records again when there is space. Kafka takes the whole directory offline instead, until it is
started again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.sources.partition_append import Outcome

REFUSED: Final = "records refused"
TAKEN: Final = "records taken again"
#: No two refusals are reported within so many seconds: on a disk that is nearly full every other
#: batch may still fit.
_PAUSE_S: Final = 60.0


class DiskNotices:
    """The outcomes of all appends of a broker. ``report`` is called with the name of an event, and
    what the disk said. ``now`` is in s.
    """

    def __init__(self, report: Callable[[str, str], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._reported_at = -math.inf
        self._is_refusing = False

    def note(self, outcome: Outcome) -> None:
        """A batch was written or refused."""
        if isinstance(outcome, Appended):
            if self._is_refusing:
                self._is_refusing = False
                self._report(TAKEN, "")
        elif outcome.error is ErrorCode.KAFKA_STORAGE_ERROR and not self._is_refusing:
            now = self._now()
            if now - self._reported_at >= _PAUSE_S:
                self._is_refusing, self._reported_at = True, now
                self._report(REFUSED, outcome.message)
