"""Every error of the codec. The class says which side is at fault: the peer, whose bytes do not
follow the protocol, or the caller.
"""

from __future__ import annotations


class WireError(Exception):
    """Base class of everything that the codec raises on purpose."""


class DecodeError(WireError):
    """Bytes from outside do not follow the protocol: the peer is at fault, and the connection
    should be closed.

    Attributes: ``reason`` (sentence), ``path`` (field path such as ``Topics[3].Name``, or ""),
    ``offset`` (byte position in the input where the offending field starts, or -1 when unknown),
    ``rule`` (short name of the rule broken).
    """

    def __init__(self, reason: str, *, path: str = "", offset: int = -1, rule: str = "") -> None:
        self.reason = reason
        self.path = path
        self.offset = offset
        self.rule = rule
        super().__init__(reason, path, offset, rule)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        at = f" (at byte {self.offset})" if self.offset >= 0 else ""
        return f"{where}{self.reason}{at}"


class EncodeError(WireError):
    """A message cannot be written at this version: the caller is at fault. ``path`` names the
    field.
    """

    def __init__(self, reason: str, *, path: str = "") -> None:
        self.reason = reason
        self.path = path
        super().__init__(reason, path)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class UnknownApi(WireError):
    """No message has that api key, record type or name."""


class UnsupportedVersion(WireError):
    """The message exists, but not at the version asked for."""
