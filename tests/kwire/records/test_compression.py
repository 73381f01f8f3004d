"""Compressed data of any client: the limit holds whatever sizes it claims, and every refusal is a
DecodeError with a rule.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import DecodeError, EncodeError
from kwire.records import DECOMPRESSED_BYTES_MAX, Compression, compress, decode_batch, decompress
from kwire.records.compression import ZSTD_WINDOW_LOG_MAX
from tests.kwire.records.raw import raw_batch, raw_record
from tests.kwire.records.test_decode import peak_memory

CODECS = [codec for codec in Compression if codec != Compression.NONE]
TEXT = b"".join(b"record %d of some text; " % (n * n) for n in range(2000))
MIB = 1024 * 1024


def rule_of(codec: Compression, data: bytes, limit: int = MIB) -> str:
    with pytest.raises(DecodeError) as caught:
        decompress(codec, data, limit)
    return caught.value.rule


@given(st.sampled_from(Compression), st.binary(max_size=200), st.integers(0, 400))
def test_round_trip(codec: Compression, data: bytes, times: int) -> None:
    data *= times
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    for limit in (len(TEXT) - 1, 1, 0):
        assert rule_of(codec, packed, limit) == "decompressed-size"
    assert decompress(codec, compress(codec, b""), 0) == b""


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_than_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    assert rule_of(codec, bomb) == "decompressed-size"
    # The decoder reads nothing behind the limit: the rest may be missing.
    assert rule_of(codec, bomb[: len(bomb) // 2]) == "decompressed-size"
    assert peak_memory(lambda: rule_of(codec, bomb)) < 3 * MIB + len(bomb)
    payload = raw_batch(bomb, 1000, attributes=codec)
    with pytest.raises(DecodeError, match="decompresses to more than 1048576 bytes"):
        decode_batch(payload, limit=MIB)


@pytest.mark.parametrize("codec", CODECS)
def test_the_default_limit(codec: Compression) -> None:
    with pytest.raises(DecodeError, match=str(DECOMPRESSED_BYTES_MAX)):
        decode_batch(
            raw_batch(compress(codec, bytes(DECOMPRESSED_BYTES_MAX + 1)), 1, attributes=codec)
        )


@pytest.mark.parametrize("codec", CODECS)
def test_only_one_layer_is_opened(codec: Compression) -> None:
    inner = compress(codec, raw_record() * 3)
    with pytest.raises(DecodeError) as caught:
        decode_batch(raw_batch(compress(codec, inner), 3, attributes=codec))
    assert caught.value.rule != "decompressed-size"


@pytest.mark.parametrize("codec", CODECS)
def test_cut_at_every_length_and_followed_by_more(codec: Compression) -> None:
    packed = compress(codec, TEXT[:300])
    for cut in range(len(packed)):
        if codec == Compression.SNAPPY and cut == 16:
            continue  # the header alone is a stream of no chunks
        assert rule_of(codec, packed[:cut]) in (
            "compressed-data",
            "snappy-chunk-length",
            "compressed-trailing",
        )
    for extra in (b"\0", b"abc", packed):
        assert rule_of(codec, packed + extra) in ("compressed-trailing", "snappy-chunk-length")


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@settings(max_examples=300)
def test_any_damage_is_read_or_refused_within_the_limit(
    codec: Compression, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, TEXT[:500] + bytes(range(256))))
    for at in data.draw(st.lists(st.integers(0, len(packed) - 1), min_size=1, max_size=4)):
        packed[at] = data.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, bytes(packed), 2000)) <= 2000
    except DecodeError as error:
        assert error.rule


@given(st.sampled_from(CODECS), st.binary(max_size=64))
@settings(max_examples=500)
def test_noise_is_refused_or_short(codec: Compression, noise: bytes) -> None:
    heads = {
        Compression.GZIP: b"\x1f\x8b\x08\0\0\0\0\0\0\0",
        Compression.LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
        Compression.SNAPPY: b"\x82SNAPPY\0\0\0\0\1\0\0\0\1",
    }
    for data in (noise, heads[codec] + noise):
        try:
            assert len(decompress(codec, data, 5000)) <= 5000
        except DecodeError as error:
            assert error.rule


# --- checksums
# ----------------------------------------------------------------------


def test_checksum_of_gzip() -> None:
    packed = bytearray(compress(Compression.GZIP, TEXT))
    packed[-5] ^= 1
    assert rule_of(Compression.GZIP, bytes(packed)) == "compressed-data"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"content_checksum": True}, "lz4-content-checksum"),
        ({"block_checksum": True}, "compressed-data"),
    ],
)
def test_checksums_of_lz4(options: dict[str, bool], rule: str) -> None:
    packed = bytearray(
        lz4.frame.compress(TEXT[:100], block_linked=False, store_size=False, **options)
    )
    assert decompress(Compression.LZ4, bytes(packed)) == TEXT[:100]
    packed[-1 if "content_checksum" in options else -5] ^= 1
    assert rule_of(Compression.LZ4, bytes(packed)) == rule


def test_checksum_of_the_lz4_header() -> None:
    packed = bytearray(compress(Compression.LZ4, TEXT))
    packed[6] ^= 1
    assert rule_of(Compression.LZ4, bytes(packed)) == "compressed-data"
    assert decompress(Compression.LZ4, bytes(packed), magic=0) == TEXT


def test_a_wrong_header_sum_is_mended_for_every_header_of_format_0() -> None:
    for block_size in (4, 5, 6, 7):
        for store_size in (False, True):
            packed = bytearray(
                lz4.frame.compress(
                    TEXT, block_linked=False, store_size=store_size, block_size=block_size
                )
            )
            packed[14 if store_size else 6] ^= 0x55
            assert decompress(Compression.LZ4, bytes(packed), magic=0) == TEXT


# --- what the formats allow and Kafka does not
# ----------------------------------------------------------------------


def test_lz4_content_size_that_lies() -> None:
    packed = bytearray(lz4.frame.compress(TEXT, block_linked=False, store_size=True))
    packed[6:14] = struct.pack("<Q", len(TEXT) + 1)
    assert rule_of(Compression.LZ4, bytes(packed)) == "compressed-data"  # the header sum covers it
    packed[6:14] = struct.pack("<Q", 2**63)
    with pytest.raises(DecodeError) as caught:
        decompress(Compression.LZ4, bytes(packed), MIB, magic=0)
    assert caught.value.rule == "lz4-content-size"


def test_lz4_blocks_that_depend_on_one_another() -> None:
    assert (
        rule_of(Compression.LZ4, lz4.frame.compress(TEXT * 5, block_linked=True))
        == "lz4-frame-flags"
    )


@pytest.mark.parametrize("flags", [0x61, 0x62, 0x20, 0xA0, 0xE0])
def test_lz4_versions_and_dictionaries(flags: int) -> None:
    packed = bytearray(compress(Compression.LZ4, TEXT))
    packed[4] = flags
    assert rule_of(Compression.LZ4, bytes(packed)) == "lz4-frame-flags"


def test_gzip_of_two_members_and_bare_deflate() -> None:
    packed = compress(Compression.GZIP, TEXT)
    assert rule_of(Compression.GZIP, packed + packed) == "compressed-trailing"
    assert rule_of(Compression.GZIP, zlib.compress(TEXT)) == "compressed-data"


def test_zstd_dictionary_is_refused() -> None:
    frame = (
        bytes.fromhex("28b52ffd")
        + bytes([0x23])
        + struct.pack("<IB", 77, 5)
        + bytes.fromhex("290000")
        + b"hello"
    )
    assert rule_of(Compression.ZSTD, frame) == "compressed-data"


@pytest.mark.parametrize(
    ("window_log", "taken"),
    [(ZSTD_WINDOW_LOG_MAX, True), (ZSTD_WINDOW_LOG_MAX + 1, False), (31, False), (41, False)],
)
def test_zstd_windows(window_log: int, taken: bool) -> None:
    frame = zstd_frame(window_log, b"hello")
    if taken:
        assert decompress(Compression.ZSTD, frame) == b"hello"
    else:
        assert rule_of(Compression.ZSTD, frame) == "compressed-data"


def test_the_largest_zstd_window_takes_no_memory_until_it_is_filled() -> None:
    program = (
        "import resource, sys\n"
        "from kwire.records import Compression, decompress\n"
        "used = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "frame = bytes.fromhex(sys.argv[1])\n"
        "decompress(Compression.ZSTD, bytes.fromhex('28b52ffd2000010000'))\n"
        "before = used()\n"
        "assert decompress(Compression.ZSTD, frame) == b'hello'\n"
        "print(used() - before)\n"
    )
    frame = zstd_frame(ZSTD_WINDOW_LOG_MAX, b"hello")
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program, frame.hex()],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
    )
    assert int(done.stdout) < 8 * 1024, "KiB"


def zstd_frame(window_log: int, data: bytes) -> bytes:
    """A frame of one raw block that declares a window and no size."""
    return (
        bytes.fromhex("28b52ffd00")
        + bytes([window_log - 10 << 3])
        + (len(data) << 3 | 1).to_bytes(3, "little")
        + data
    )


# --- snappy: the chunks of CVE-2023-34455
# ----------------------------------------------------------------------


def xerial(*chunks: tuple[int, bytes], version: int = 1) -> bytes:
    head = b"\x82SNAPPY\0" + struct.pack(">ii", version, 1)
    return head + b"".join(struct.pack(">i", length) + block for length, block in chunks)


def test_snappy_raw_and_in_chunks_of_any_size() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw) == TEXT
    assert decompress(Compression.SNAPPY, xerial((len(raw), raw))) == TEXT
    assert decompress(Compression.SNAPPY, xerial(*[(len(raw), raw)] * 3)) == TEXT * 3
    assert decompress(Compression.SNAPPY, xerial()) == b""


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 2**31 - 1, 100])
def test_snappy_chunk_lengths(length: int) -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"hello"))
    data = xerial((length, raw))
    assert rule_of(Compression.SNAPPY, data) == "snappy-chunk-length"
    assert peak_memory(lambda: rule_of(Compression.SNAPPY, data)) < 50_000


@pytest.mark.parametrize(
    "claim", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\x07"]
)
def test_snappy_blocks_that_claim_more_than_they_can_hold(claim: bytes) -> None:
    for data in (claim + b"\0a", xerial((len(claim) + 2, claim + b"\0a"))):
        assert rule_of(Compression.SNAPPY, data) == "decompressed-size"
        assert peak_memory(partial(rule_of, Compression.SNAPPY, data, 2**40)) < 50_000
        assert rule_of(Compression.SNAPPY, data, 2**40) == "compressed-data"


def test_snappy_versions_are_not_looked_at_and_a_header_may_not_be_cut() -> None:
    assert decompress(Compression.SNAPPY, xerial(version=-5)) == b""
    assert rule_of(Compression.SNAPPY, xerial()[:12]) == "compressed-data"
    assert rule_of(Compression.SNAPPY, xerial() + b"\0\0\0") == "compressed-trailing"


def test_snappy_is_written_as_snappy_java_writes_it() -> None:
    packed = compress(Compression.SNAPPY, bytes(range(256)) * 300)
    assert packed[:16] == xerial()
    (first,) = struct.unpack_from(">i", packed, 16)
    assert len(bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first]))) == 32 * 1024


def test_libraries_are_imported_when_first_used() -> None:
    program = (
        "import sys, kwire.records as records\n"
        "used = {'cramjam', 'lz4', 'lz4.frame', 'backports.zstd', 'compression.zstd'}\n"
        "assert not used & set(sys.modules), used & set(sys.modules)\n"
        "records.compress(records.Compression.LZ4, b'x')\n"
        "assert used & set(sys.modules) == {'lz4', 'lz4.frame'}\n"
    )
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


def test_levels_that_do_not_exist() -> None:
    with pytest.raises(EncodeError, match="gzip at level 17"):
        compress(Compression.GZIP, b"", 17)
