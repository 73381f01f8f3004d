"""The error codes that the group coordinator answers with."""

from __future__ import annotations

from kwire.protocol import ErrorCode as Error

__all__ = ["Error"]
