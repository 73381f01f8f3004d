"""Compresses and decompresses with Kafka's five types, never beyond the output limit that the
caller gives. It does not know records.

No other file imports the compression libraries, and each is imported when it is first used
(docs/decisions/0002-compression-libraries.md). It accepts what Kafka's readers accept, except for
data that ``DecodeError.rule`` names a reason against.
"""

from __future__ import annotations

import functools
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

from kwire.errors import DecodeError, EncodeError
from kwire.records.record import Compression

#: Most bytes that one batch may decompress to where the caller names no limit: four times KRaft's
#: largest batch.
DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024
#: Largest window a zstd frame may ask for, as a power of two: 128 MiB as in Kafka's reader, so that
#: no level is shut out. The window is address space only: its pages are touched as output is made,
#: which the limit bounds.
ZSTD_WINDOW_LOG_MAX: Final = 27
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
#: No snappy element is shorter than three bytes for 64 bytes of output: a chunk cannot hold more.
_SNAPPY_RATIO_MAX: Final = 22
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES_MAX: Final = 15
_INT: Final = struct.Struct(">i")


def decompress(
    codec: Compression, data: bytes, limit: int = DECOMPRESSED_BYTES_MAX, *, magic: int = 2
) -> bytes:
    """The decompressed bytes of ``data``, ``limit`` at most. ``magic`` is the batch format: frames
    of format 0 have a wrong header sum.

    Memory stays within a small multiple of ``limit``. Raises DecodeError: rule
    ``decompressed-size`` for more output than ``limit``, ``compressed-data`` for anything the
    format does not allow, ``compressed-trailing`` for bytes behind the end, and those of
    docs/strictness-records.md.
    """
    if codec == Compression.NONE:
        return data
    if codec == Compression.SNAPPY:
        return _snappy_decompress(data, limit)
    if codec == Compression.LZ4:
        data = _checked_lz4(data, fix_header_sum=magic == 0)
    return _pump(codec, data, limit)


def compress(codec: Compression, data: bytes, level: int | None = None) -> bytes:
    """``data`` compressed in the framing that Kafka's clients write; ``level`` None is the
    library's default.

    The bytes need not equal Java's: they depend on the library. Raises EncodeError for a level that
    the codec does not have.
    """
    try:
        return _COMPRESSORS[codec](data, level)
    except (ValueError, TypeError, zlib.error, OverflowError) as error:
        raise EncodeError(
            f"cannot compress with {codec.name.lower()} at level {level}: {error}"
        ) from None


def _pump(codec: Compression, data: bytes, limit: int) -> bytes:
    """The output of the stream, at most one byte more than ``limit``. No bytes may follow the
    stream.
    """
    name = codec.name.lower()
    stream, fault = _STREAMS[codec]()
    try:
        out: bytes = stream.decompress(data, limit + 1)
    except (fault, EOFError) as error:
        raise DecodeError(f"cannot decompress {name}: {error}", rule=_rule(str(error))) from None
    if len(out) > limit:
        del out  # the traceback of the error would keep it
        raise _too_big(limit)
    if not stream.eof:
        raise DecodeError(f"the {name} data ends early", rule="compressed-data")
    if stream.unused_data:
        raise DecodeError(
            f"{len(stream.unused_data)} bytes left over behind the {name} data",
            rule="compressed-trailing",
        )
    return out


def _too_big(limit: int) -> DecodeError:
    return DecodeError(f"decompresses to more than {limit} bytes", rule="decompressed-size")


def _rule(fault: str) -> str:
    """The rule for a library's error about data that Kafka accepts."""
    if "contentChecksum" in fault:
        return "lz4-content-checksum"
    return "lz4-content-size" if "frameSize_wrong" in fault else "compressed-data"


# --- gzip
# --------------------------------------------------------------------


def _open_gzip() -> tuple[Any, type[Exception]]:
    return zlib.decompressobj(wbits=31), zlib.error


def _gzip(data: bytes, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, wbits=31)


# --- zstd
# --------------------------------------------------------------------


@functools.cache
def _zstd_module() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _open_zstd() -> tuple[Any, type[Exception]]:
    zstd = _zstd_module()
    options = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG_MAX}
    return zstd.ZstdDecompressor(options=options), zstd.ZstdError


def _zstd(data: bytes, level: int | None) -> bytes:
    packed: bytes = _zstd_module().compress(data, level)
    return packed


# --- lz4
# --------------------------------------------------------------------


def _open_lz4() -> tuple[Any, type[Exception]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor(), RuntimeError


def _lz4(data: bytes, level: int | None) -> bytes:
    import lz4.frame

    packed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _checked_lz4(data: bytes, *, fix_header_sum: bool) -> bytes:
    """Refuse frames that ``Lz4BlockInputStream`` does not read; give format 0's frames the header
    sum the library wants.
    """
    head = data[:_LZ4_HEADER_BYTES_MAX]
    if head[:4] != _LZ4_MAGIC or len(head) < 7:
        raise DecodeError("not an lz4 frame", rule="compressed-data")
    flags = head[4]
    if flags & 0xE0 != 0x60:
        raise DecodeError(
            f"lz4 frame with flags {flags:02x}: version 1 with independent blocks is needed",
            rule="lz4-frame-flags",
        )
    if flags & 0x03:
        raise DecodeError(
            f"lz4 frame with flags {flags:02x}: dictionaries are not supported",
            rule="lz4-frame-flags",
        )
    if not fix_header_sum:
        return data
    at = 14 if flags & 0x08 else 6
    return data[:at] + bytes([_short_xxh32(head[4:at]) >> 8 & 0xFF]) + data[at + 1 :]


def _short_xxh32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, which a frame descriptor always is."""
    mask = 0xFFFFFFFF
    mixed = 374761393 + len(data) & mask
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = mixed + word * 3266489917 & mask
        mixed = (mixed << 17 | mixed >> 15) * 668265263 & mask
    for byte in data[whole:]:
        mixed = mixed + byte * 374761393 & mask
        mixed = (mixed << 11 | mixed >> 21) * 2654435761 & mask
    mixed = (mixed ^ mixed >> 15) * 2246822519 & mask
    mixed = (mixed ^ mixed >> 13) * 3266489917 & mask
    return mixed ^ mixed >> 16


# --- snappy
# --------------------------------------------------------------------


def _snappy_decompress(data: bytes, limit: int) -> bytes:
    """The framing of snappy-java ("xerial": chunks with an int32 length), or one raw block. Every
    length is checked before it is used.
    """
    if data[:8] != _XERIAL_MAGIC:
        return _snappy_block(data, limit)
    if len(data) < _XERIAL_HEADER.size:
        raise DecodeError("the snappy header is cut", rule="compressed-data")
    out: list[bytes] = []
    at, size = _XERIAL_HEADER.size, 0
    while at < len(data):
        at += 4
        if at > len(data):
            raise DecodeError(
                "bytes left over behind the last snappy chunk", rule="compressed-trailing"
            )
        (length,) = _INT.unpack_from(data, at - 4)
        if not 0 < length <= len(data) - at:
            raise DecodeError(
                f"snappy chunk of {length} bytes, {len(data) - at} are left",
                rule="snappy-chunk-length",
            )
        out.append(_snappy_block(data[at : at + length], limit, size))
        size += len(out[-1])
        at += length
    return b"".join(out)


def _snappy_block(block: bytes, limit: int, before: int = 0) -> bytes:
    """One raw block: a varint with the size of its output, then the elements. ``before`` bytes of
    the limit are used up.
    """
    import cramjam

    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > limit - before:
            raise _too_big(limit)
        if claimed > len(block) * _SNAPPY_RATIO_MAX:
            raise DecodeError(
                f"{len(block)} bytes of snappy cannot hold {claimed}", rule="compressed-data"
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecodeError(f"cannot decompress snappy: {error}", rule="compressed-data") from None


def _snappy(data: bytes, level: int | None) -> bytes:
    import cramjam

    if level is not None:
        raise ValueError("snappy has no levels")
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


_STREAMS: Final[dict[Compression, Callable[[], tuple[Any, type[Exception]]]]] = {
    Compression.GZIP: _open_gzip,
    Compression.LZ4: _open_lz4,
    Compression.ZSTD: _open_zstd,
}
_COMPRESSORS: Final[dict[Compression, Callable[[bytes, int | None], bytes]]] = {
    Compression.NONE: lambda data, level: data,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
