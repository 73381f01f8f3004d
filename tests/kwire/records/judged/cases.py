"""Batches that went wrong on the way: built right, then bent in the records, in the compressed
bytes, or in both.

Checksums are made right afterwards, so that what lies behind them is reached.
"""

from __future__ import annotations

import random

import cramjam
import lz4.frame

from kwire.records import Compression, compress
from kwire.varint import write_varint
from tests.kwire.records.raw import raw_batch, raw_record, sized
from tests.kwire.records.test_legacy import framed, message


class Cases:
    """An endless row of batches, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self) -> bytes:
        """A batch of any format."""
        codec = self.random.choice(list(Compression))
        return self.batch(codec) if self.chance(0.7) else self.legacy(codec)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def batch(self, codec: Compression) -> bytes:
        """Format 2."""
        count = self.random.choice([0] + [1, 2, 3, 4] * 8)
        payload = self.records(count)
        if self.chance(0.3):
            payload = self.bent(payload)
        if self.chance(0.05):
            count = self.random.choice([0, count + 1, -1, max(0, count - 1)])
        if codec:
            payload = self.packed(codec, payload)
            if self.chance(0.05):
                payload += self.packed(codec, self.records(1))
        if self.chance(0.5):
            payload = self.bent(payload)
        bits = self.random.choice([0, 0, 0, 0x08, 0x10, 0x40, 0x80])
        return raw_batch(
            payload,
            count,
            attributes=codec | bits,
            base_offset=self.random.choice([0, 100, 1 << 40]),
            base_timestamp=self.random.choice([0, -1, 1_700_000_000_000]),
            max_timestamp=77,
        )

    def legacy(self, codec: Compression) -> bytes:
        """Formats 0 and 1, plain or as a wrapper."""
        magic = self.random.randrange(2)
        count = self.random.randrange(1, 4)
        inner = b"".join(
            self.message(magic if self.chance(0.97) else 1 - magic, n) for n in range(count)
        )
        if codec == Compression.NONE:
            first = message(value=b"plain", magic=magic, offset=5)
            return framed(self.bent(first[16:]), 5) + inner
        if codec == Compression.ZSTD and self.chance(0.9):
            codec = Compression.LZ4
        if self.chance(0.2):
            inner = self.bent(inner)
        value = self.packed(codec, inner)
        if self.chance(0.5):
            value = self.bent(value)
        offset = self.random.choice([0, count - 1, count + 5, count + 5, count + 5])
        return message(
            value=value,
            magic=magic,
            offset=offset,
            attributes=codec | self.random.choice([0, 0, 0x08, 0x10]),
        )

    def message(self, magic: int, offset: int) -> bytes:
        key, value = (
            self.random.choice([None, b"k"]),
            self.random.choice([None, b"v" * self.random.randrange(30)]),
        )
        return message(
            key, value, magic=magic, offset=offset, timestamp=self.random.choice([-1, 5, 9])
        )

    def records(self, count: int) -> bytes:
        return b"".join(self.record(n) for n in range(count))

    def record(self, offset: int) -> bytes:
        headers = b"\0"
        if self.chance(0.3):
            headers = write_varint(1) + sized(b"key") + sized(self.random.choice([None, b"vv"]))
        return raw_record(
            key=self.random.choice([None, b"k", b"k" * 80]),
            value=self.random.choice([None, b"", b"val" * self.random.randrange(60)]),
            offset=offset,
            timestamp=self.random.choice([0, 5, -3, 1 << 40, 10_000]),
            headers=headers,
        )

    def packed(self, codec: Compression, payload: bytes) -> bytes:
        """Compressed in one of the codec's forms, which are more than Kafka writes."""
        if codec == Compression.LZ4:
            packed: bytes = lz4.frame.compress(
                payload,
                block_linked=self.chance(0.1),
                store_size=self.chance(0.3),
                content_checksum=self.chance(0.3),
                block_checksum=self.chance(0.3),
                block_size=self.random.choice([4, 5, 7]),
            )
            return packed
        if codec == Compression.SNAPPY and self.chance(0.4):
            return bytes(cramjam.snappy.compress_raw(payload))
        return compress(codec, payload)

    def bent(self, data: bytes) -> bytes:
        """Up to three changes: a bit, a byte, a cut, an insertion, bytes behind the end."""
        out = bytearray(data)
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            at = self.random.randrange(len(out)) if out else 0
            change = self.random.randrange(6)
            if not out or change == 0:
                out += self.random.choice([b"\0", b"\1", self.random.randbytes(3), bytes(out)])
            elif change == 1:
                out[at] ^= 1 << self.random.randrange(8)
            elif change == 2:
                out[at] = self.random.choice([0, 1, 2, 127, 128, 255, self.random.randrange(256)])
            elif change == 3:
                del out[at : at + self.random.choice([1, 1, 2, 4, 8])]
            elif change == 4:
                out[at:at] = self.random.randbytes(self.random.choice([1, 1, 2, 4]))
            else:
                del out[at:]
        return bytes(out)
