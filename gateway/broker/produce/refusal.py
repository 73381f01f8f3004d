"""Defines why a batch of a producer is not appended."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.protocol import ErrorCode


class BatchRefused(Exception):
    """The error of a partition in a Produce response. ``records`` has the number and the fault of
    each record that is at fault (KIP-467); none if the batch as a whole is.
    """

    def __init__(
        self, error: ErrorCode, message: str, records: Sequence[tuple[int, str]] = ()
    ) -> None:
        self.error = error
        self.message = message
        self.records = records
        super().__init__(error, message)
