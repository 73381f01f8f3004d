"""Provides functions for generated code: prebound packers, long varints, tag sections, and the
refusals.

The refusals raise DecodeError or EncodeError without saying where; ``kwire.diagnose`` finds the
field afterwards, so that the fast path carries no field paths.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from kwire.errors import DecodeError, EncodeError

#: Longest string in bytes, both ways: Kafka keeps string lengths in a short.
STRING_BYTES_MAX: Final = 32767
#: Rows that :func:`row_reader` reads at once, and how many formats of different counts it keeps: at
#: most some 16 KiB each.
_ROWS_MAX: Final = 128
_ROW_COUNTS_KEPT: Final = 32


@functools.cache
def _struct(code: str) -> struct.Struct:
    return struct.Struct(code)


def unpacker(code: str) -> Callable[..., tuple[Any, ...]]:
    """``unpack_from`` of a format; equal formats share one Struct."""
    return _struct(code).unpack_from


def packer(code: str) -> Callable[..., bytes]:
    """``pack`` of a format."""
    return _struct(code).pack


def row_reader(code: str) -> Callable[[bytes, int, int], Iterator[Any]]:
    """``read(d, p, n)``: the values of ``n`` rows of a format, one after the other.

    One unpack of many rows takes half the time of a tuple for each. The formats for the counts seen
    last are kept.
    """
    order, row = code[:1], code[1:]
    size = struct.calcsize(code)

    @functools.lru_cache(_ROW_COUNTS_KEPT)
    def unpack(n: int) -> Callable[..., tuple[Any, ...]]:
        return struct.Struct(order + row * n).unpack_from

    def read(d: bytes, p: int, n: int) -> Iterator[Any]:
        if n <= _ROWS_MAX:
            return iter(unpack(n)(d, p))
        values: list[Any] = []
        for done in range(0, n, _ROWS_MAX):
            values += unpack(min(n - done, _ROWS_MAX))(d, p + done * size)
        return iter(values)

    return read


@functools.cache
def array_unpackers(code: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    """``unpack_from`` for 0 to 63 numbers of one type."""
    return tuple(struct.Struct(f">{n}{code}").unpack_from for n in range(64))


@functools.cache
def array_packers(code: str) -> tuple[Callable[..., bytes], ...]:
    """``pack`` for 0 to 63 numbers of one type."""
    return tuple(struct.Struct(f">{n}{code}").pack for n in range(64))


def numbers(
    d: bytes, p: int, n: int, b: int, code: str, nullable: bool
) -> tuple[list[Any] | None, int, int]:
    """A long, null or bad array of numbers whose count ``n`` has been read: (list, position,
    elements still allowed).
    """
    if n < 0 and nullable:
        return None, p, b
    size = n * struct.calcsize(">" + code)
    if n < 0 or n > b or size > len(d) - p:
        too_many(n, b)
    return list(struct.unpack_from(f">{n}{code}", d, p)), p + size, b - n


def compact_numbers(
    d: bytes, p: int, n: int, b: int, code: str, nullable: bool
) -> tuple[list[Any] | None, int, int]:
    """As :func:`numbers`; ``n`` is the first byte of the compact count."""
    if n > 127:
        n, p = more_varint(d, p, n)
    return numbers(d, p, n - 1, b, code, nullable)


def over_budget() -> NoReturn:
    """More elements than the caller allowed, noticed at the end."""
    raise DecodeError("more elements than this call allows", rule="element-budget")


def pack_numbers(values: Sequence[Any], code: str) -> bytes:
    """Many numbers of one type."""
    return struct.pack(f">{len(values)}{code}", *values)


# --- reading
# --------------------------------------------------------------------


def more_varint(d: bytes, p: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte had its high bit set: (value, position after
    it).

    Five bytes and 31 bits at most. Kafka drops surplus bits and reads larger numbers as negative,
    which turns a length into null or a wrong number; no writer makes such a varint.
    """
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = d[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, p
    byte = d[p]
    if byte > 7:
        raise DecodeError("unsigned varint of more than 31 bits", rule="varint-range")
    return value | byte << 28, p + 1


def string_length(d: bytes, p: int, first: int) -> tuple[int, int]:
    """As :func:`more_varint`, for a compact string length (one more than the bytes)."""
    n, p = more_varint(d, p, first)
    if n > STRING_BYTES_MAX + 1:
        raise DecodeError(
            f"string of {n - 1} bytes, {STRING_BYTES_MAX} is the most", rule="string-length"
        )
    return n, p


def read_varint(d: bytes, p: int) -> tuple[int, int]:
    """A whole unsigned varint: (value, position after it)."""
    n = d[p]
    return (n, p + 1) if n < 128 else more_varint(d, p + 1, n)


def read_tag(d: bytes, p: int) -> tuple[int, int, int]:
    """Number and size of a tagged field, and the position of its value, which lies inside ``d``."""
    tag, p = read_varint(d, p)
    size, p = read_varint(d, p)
    if size > len(d) - p:
        raise DecodeError(
            f"tagged field {tag} of {size} bytes, {max(0, len(d) - p)} are left", rule="tag-size"
        )
    return tag, size, p


def read_unknown_tags(
    d: bytes, p: int, n: int, b: int, foreign: tuple[int, ...] = ()
) -> tuple[list[tuple[int, bytes]], int, int]:
    """A tag section without known tags: ([(tag, bytes)], position, elements still allowed). ``n``
    is its first byte.
    """
    if n > 127:
        n, p = more_varint(d, p, n)
    if n > b or n * 2 > len(d) - p:
        too_many(n, b)
    found = []
    for _ in range(n):
        tag, size, p = read_tag(d, p)
        if tag in foreign:
            tag_of_other_version(tag)
        found.append((tag, d[p : p + size]))
        p += size
    return found, p, b - n


def null() -> NoReturn:
    """A null where none is allowed."""
    raise DecodeError("null where null is not allowed", rule="null")


def too_many(n: int, budget: int) -> NoReturn:
    """A count that the bytes left, or the caller's budget, cannot hold."""
    if n < 0:
        null()
    if budget < 0:  # arrays of numbers lower the budget without a comparison
        over_budget()
    if n > budget:
        raise DecodeError(
            f"{n} elements, more than the {budget} that this call still allows",
            rule="element-budget",
        )
    raise DecodeError(f"{n} elements do not fit into the bytes that are left", rule="truncated")


def tag_of_other_version(tag: int) -> NoReturn:
    """A tag that this struct knows, but not at this version: Kafka refuses it, too."""
    raise DecodeError(f"tag {tag} is not valid at this version", rule="tag-of-other-version")


def tag_size(tag: int, size: int) -> NoReturn:
    """A known tag whose value does not take its declared size. Kafka does not check this; kwire
    does.
    """
    raise DecodeError(
        f"the value of tag {tag} does not take the {size} bytes declared for it", rule="tag-size"
    )


# --- writing
# --------------------------------------------------------------------


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_VARINTS: Final = tuple(_varint(n) for n in range(4096))


def varint(n: int) -> bytes:
    """An unsigned varint."""
    return _VARINTS[n] if n < 4096 else _varint(n)


def string_varint(n: int) -> bytes:
    """The compact length of a string (one more than its bytes)."""
    if n > STRING_BYTES_MAX + 1:
        raise EncodeError(f"string of {n - 1} bytes, {STRING_BYTES_MAX} is the most")
    return varint(n)


def as_bytes(value: Any) -> Any:
    """A bytes-like value for a ``bytes`` field; refuses objects that have a length and are not
    bytes.
    """
    if isinstance(value, bytes | bytearray):
        return value
    if isinstance(value, memoryview):
        return value.cast("B") if value.format != "B" or value.ndim != 1 else value
    raise EncodeError(f"bytes expected, not {type(value).__name__}")


def unknown_tags(tags: Iterable[tuple[int, bytes]]) -> bytes:
    """A tag section of unknown tags only."""
    return tag_section([], tags)


def tag_section(known: list[tuple[int, bytes]], unknown: Iterable[tuple[int, bytes]]) -> bytes:
    """A whole tag section, tags ascending. Raises EncodeError where Kafka's writer would (order,
    duplicates, range).
    """
    last = -1
    merged = known
    for tag, data in unknown:
        if not last < tag < 0x7FFFFFFF:
            raise EncodeError(
                f"unknown tagged field {tag} after {last}: tags ascend, up to 0x7ffffffe"
            )
        last = tag
        merged.append((tag, data))
    merged.sort(key=_tag_number)
    parts = [varint(len(merged))]
    last = -1
    for tag, data in merged:
        if tag == last:
            raise EncodeError(f"tagged field {tag} stands there twice")
        last = tag
        parts += (varint(tag), varint(len(data)), data)
    return b"".join(parts)


def _tag_number(item: tuple[int, bytes]) -> int:
    return item[0]


def lost(field: str) -> NoReturn:
    """A value in a field that this version cannot carry and that is not ignorable."""
    raise EncodeError(f"{field} is set, but this version has no place for it")


def bad_uuid() -> NoReturn:
    """Not 16 bytes."""
    raise EncodeError("a uuid has 16 bytes")
