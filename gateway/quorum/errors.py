"""The error codes that nodes of a quorum answer each other with, and how a sentence names one."""

from __future__ import annotations

from kwire.protocol import ErrorCode

__all__ = ["ErrorCode", "error_name"]


def error_name(code: int) -> str:
    """``NOT_LEADER_OR_FOLLOWER (6)``, or the number alone for codes that Kafka does not have."""
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error code {code}"
