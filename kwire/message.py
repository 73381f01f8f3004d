"""Provides the base of every generated message: encode, decode and the JSON form at a version.

The classes themselves are generated; their readers and writers are flat functions, found here by
version. ``kwire.structs`` has the part that the structs inside a message share with it; this module
exports its names too, so that generated code has one import.
"""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Self

from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.structs import FieldInfo, Struct, bare, frozen_default, generated_class

__all__ = ["FieldInfo", "Message", "Struct", "bare", "frozen_default", "generated_class"]

#: Errors that generated readers raise on bad bytes; ``_WRITE_FAULTS``: writers on bad values.
_READ_FAULTS = (DecodeError, struct.error, IndexError, UnicodeDecodeError)
_SHORT_WAY_FAULTS = (*_READ_FAULTS, KeyError)
_NO_BUDGET = sys.maxsize

#: Above this many bytes the garbage collector is paused while a message is decoded.
_COLLECTOR_PAUSE_BYTES = 32 * 1024

_WRITE_FAULTS = (
    EncodeError,
    struct.error,
    TypeError,
    AttributeError,
    ValueError,
    IndexError,
    OverflowError,
)


class Message(Struct):
    """A whole message, which has versions and can be encoded on its own."""

    __slots__ = ()
    TYPE: ClassVar[
        str
    ]  #: request, response, header, metadata, data, coordinator-key or coordinator-value
    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[range]
    FLEXIBLE_VERSIONS: ClassVar[range]
    DEPRECATED_VERSIONS: ClassVar[range]
    LATEST_VERSION_UNSTABLE: ClassVar[bool]
    LISTENERS: ClassVar[tuple[str, ...]]
    #: (first version, version of the header from there on); empty where the schema names none.
    HEADER_VERSIONS: ClassVar[tuple[tuple[int, int], ...]] = ()
    _DECODERS: ClassVar[dict[int, Callable[[Any, int, int], tuple[Any, int]]]]
    _ENCODERS: ClassVar[dict[int, Callable[[Any, Callable[[Any], None]], None]]]

    def encode(self, version: int) -> bytes:
        """The bytes of the message at ``version``, as Java writes them.

        Raises EncodeError (``path`` names the field: out of range, wrong type, null, or set
        although the version has no place for it) and UnsupportedVersion.
        """
        try:
            return b"".join(self.encode_parts(version))
        except TypeError as error:
            raise self._write_fault(version, error) from None

    def encode_parts(self, version: int, parts: list[Any] | None = None) -> list[Any]:
        """As :meth:`encode`, unjoined: ``records`` are passed through as they are and need only a
        length.

        So a caller can send them from a file. ``parts``: the list to append them to, empty; a new
        one by default. Raises as :meth:`encode`.
        """
        encoder = self._ENCODERS.get(version)
        if encoder is None:
            raise unsupported(type(self), version)
        if parts is None:
            parts = []
        try:
            encoder(self, parts.append)
        except _WRITE_FAULTS as error:
            raise self._write_fault(version, error) from None
        return parts

    def _write_fault(self, version: int, error: Exception) -> EncodeError:
        # Imported at the first fault, because the import takes a millisecond of a command's start.
        from kwire.diagnose import explain_encode

        return explain_encode(self, version, error, flexible=version in self.FLEXIBLE_VERSIONS)

    @classmethod
    def decode(
        cls, data: Any, version: int, *, allow_trailing: bool = False, budget: int | None = None
    ) -> Self:
        """The message that ``data`` (bytes-like) holds at ``version``.

        ``budget`` bounds the number of array elements and unknown tagged fields in all. Raises
        DecodeError, with field path and offset, for anything that does not follow the protocol,
        bytes left over included unless ``allow_trailing``; UnsupportedVersion.
        """
        message: Self
        if data.__class__ is not bytes:
            data = bytes(data)
        # The fast path for nearly every call. Any fault falls through to the slow path, which
        # finds the field and the offset.
        if budget is None and len(data) <= _COLLECTOR_PAUSE_BYTES:
            try:
                message, end = cls._DECODERS[version](data, 0, _NO_BUDGET)
                if end == len(data):
                    return message
            except _SHORT_WAY_FAULTS:
                pass
        message, end = cls.decode_from(data, version, budget=budget)
        if end != len(data) and not allow_trailing:
            left = len(data) - end
            raise DecodeError(
                f"{left} byte{'s' * (left > 1)} left over behind {cls.NAME}",
                offset=end,
                rule="trailing-bytes",
            )
        return message

    @classmethod
    def decode_from(
        cls, data: bytes | bytearray, version: int, offset: int = 0, *, budget: int | None = None
    ) -> tuple[Self, int]:
        """As :meth:`decode`, from ``offset`` of ``data``: (message, position after it). Fields of
        bytes are parts of ``data``, and of its type; records are views of it.
        """
        decoder = cls._DECODERS.get(version)
        if decoder is None:
            raise unsupported(cls, version)
        allowed = _NO_BUDGET if budget is None else budget
        # Decoding makes objects by the thousand and not one cycle: the collector only costs, a
        # third of a large message.
        pause = len(data) - offset > _COLLECTOR_PAUSE_BYTES and gc.isenabled()
        if pause:
            gc.disable()
        try:
            message, end = decoder(data, offset, allowed)
            if end <= len(data):
                return message, end
            error: Exception = DecodeError("the message is longer than its bytes", rule="truncated")
        except _READ_FAULTS as caught:
            error = caught
        finally:
            if pause:
                gc.enable()
        from kwire.diagnose import explain_decode

        try:
            flexible = version in cls.FLEXIBLE_VERSIONS
            raise explain_decode(
                cls, bytes(data), version, offset, allowed, error, flexible=flexible
            ) from None
        finally:
            # its traceback holds this frame: together they and every caller's frame would be a
            # reference cycle
            del error

    def to_json(self, version: int) -> dict[str, Any]:
        """The form that Kafka's JsonConverter writes, as Python values: bytes in base64, tagged
        defaults left out.

        Raises EncodeError for a value the version cannot carry, UnsupportedVersion.
        """
        if version not in self.VERSIONS:
            raise unsupported(type(self), version)
        from kwire.jsonform import to_json

        return to_json(self, version)

    @classmethod
    def from_json(cls, value: Any, version: int) -> Self:
        """Read the form of :meth:`to_json`. Raises DecodeError naming the member,
        UnsupportedVersion.
        """
        if version not in cls.VERSIONS:
            raise unsupported(cls, version)
        from kwire.jsonform import from_json

        message = from_json(cls, value, version)
        assert isinstance(message, cls)
        return message


def unsupported(cls: type[Message], version: int) -> UnsupportedVersion:
    """The error for a version that ``cls`` does not have."""
    low, high = cls.VERSIONS[0], cls.VERSIONS[-1]
    return UnsupportedVersion(f"{cls.NAME} has versions {low} to {high}, not {version}")
