"""Reads and writes variable-length integers as Kafka's ``ByteUtils`` does: unsigned, zigzag of 32
bits and of 64 bits.

Readers take bytes and a position and give (value, position after it). Kafka drops bits that do not
fit the type; here they are refused, so no length ever turns negative.
"""

from __future__ import annotations

from typing import Final

from kwire.errors import DecodeError, EncodeError

#: Longest forms: 32 bits need five bytes of seven bits, 64 bits need ten.
VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def read_unsigned_varint(data: bytes | bytearray, position: int = 0) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits (``ByteUtils.readUnsignedVarint``).

    Padded forms such as ``80 00`` are read. Raises DecodeError: rule ``truncated``,
    ``varint-length`` (a sixth byte) or ``varint-surplus`` (bits beyond the 32nd).
    """
    return _read(data, position, VARINT_BYTES_MAX, 0x0F)


def read_varint(data: bytes, position: int = 0) -> tuple[int, int]:
    """A zigzag varint of 32 bits (``ByteUtils.readVarint``). Raises as
    :func:`read_unsigned_varint`.
    """
    value, position = _read(data, position, VARINT_BYTES_MAX, 0x0F)
    return value >> 1 ^ -(value & 1), position


def read_varlong(data: bytes, position: int = 0) -> tuple[int, int]:
    """A zigzag varint of 64 bits, ten bytes at most (``ByteUtils.readVarlong``). Raises as
    :func:`read_unsigned_varint`.
    """
    value, position = _read(data, position, VARLONG_BYTES_MAX, 0x01)
    return value >> 1 ^ -(value & 1), position


def read_unsigned_varlong(data: bytes | bytearray, position: int = 0) -> tuple[int, int]:
    """An unsigned varint of at most 64 bits in ten bytes. Raises as
    :func:`read_unsigned_varint`.
    """
    return _read(data, position, VARLONG_BYTES_MAX, 0x01)


def write_unsigned_varint(value: int) -> bytes:
    """The shortest unsigned varint of ``value``, 0 to 2^32 - 1. Raises EncodeError outside that."""
    if not 0 <= value < 1 << 32:
        raise EncodeError(f"{value} is not an unsigned number of 32 bits")
    return _write(value)


def write_varint(value: int) -> bytes:
    """The shortest zigzag varint of ``value``, an int32. Raises EncodeError outside that."""
    if not -(1 << 31) <= value < 1 << 31:
        raise EncodeError(f"{value} is not a signed number of 32 bits")
    return _write(value << 1 ^ value >> 31)


def write_varlong(value: int) -> bytes:
    """The shortest zigzag varint of ``value``, an int64. Raises EncodeError outside that."""
    if not -(1 << 63) <= value < 1 << 63:
        raise EncodeError(f"{value} is not a signed number of 64 bits")
    return _write(value << 1 ^ value >> 63)


def _read(data: bytes | bytearray, start: int, longest: int, last_byte_max: int) -> tuple[int, int]:
    value = shift = 0
    stop = start + longest
    for position in range(start, min(stop, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if position == stop - 1 and byte > last_byte_max:
                raise DecodeError(
                    f"varint with bits beyond what its {longest} bytes may hold",
                    offset=start,
                    rule="varint-surplus",
                )
            return value, position + 1
        shift += 7
    raise _fault(start, stop, len(data))


def _fault(start: int, stop: int, size: int) -> DecodeError:
    if size < stop:
        return DecodeError("the input ends inside a varint", offset=start, rule="truncated")
    return DecodeError(
        f"varint of more than {stop - start} bytes", offset=start, rule="varint-length"
    )


def _write(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes()
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
