"""Defines the exception of a request that breaks a rule of the controller."""

from __future__ import annotations

from gateway.base.error_text import error_text
from kwire.protocol import ErrorCode


class ApiError(Exception):
    """A request, or an element of one, is refused: the response has ``error`` and ``message``.

    ``message`` is None where Kafka sends no text beside the error. A message that quotes a long
    name is cut.
    """

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        self.error = error
        self.message = error_text(message)
        # The name is for the log of a test that fails; a response has the number.
        super().__init__(error.name, self.message)
