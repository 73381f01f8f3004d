"""Names error codes in error texts; the codes themselves are in ``kwire.protocol``."""

from __future__ import annotations

from kwire.protocol import ErrorCode

__all__ = ["ErrorCode", "error_name"]


def error_name(code: int) -> str:
    """Return ``NOT_LEADER_OR_FOLLOWER (6)``, or ``error code 999`` for a code that Kafka lacks."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error code {code}"
