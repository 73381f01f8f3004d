"""Lists the error codes that the group coordinator returns, as an enum."""

from __future__ import annotations

from kwire.protocol import ErrorCode as Error

__all__ = ["Error"]
