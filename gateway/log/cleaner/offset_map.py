"""Maps the keys of a log to the offset of the newest record that has each, in bounded memory.

A long key is kept as a digest of 16 bytes. It has to resist a client that chooses its keys: two
keys of one digest would be one key. Source: ``SkimpyOffsetMap``, which takes MD5 and a fixed table.
"""

from __future__ import annotations

import hashlib
from typing import Final

#: The memory of an entry: a digest, an offset, and their share of the table.
ENTRY_BYTES: Final = 224
_DIGEST_BYTES: Final = 16


class OffsetMap:
    """``latest_offset`` is the end of what was mapped, inclusive; -1 before anything was."""

    def __init__(self, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._entries_max = memory_bytes // ENTRY_BYTES
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        """Whether a record more may be too much: its key may be new."""
        return len(self._offsets) >= self._entries_max

    def put(self, key: bytes, offset: int) -> None:
        """Note a record; they come in the order of their offsets."""
        self._offsets[_short(key)] = offset

    def get(self, key: bytes) -> int:
        """Return the offset of the newest record with this key, -1 without one."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    # Shorter than a digest, so that none is taken for one.
    if len(key) < _DIGEST_BYTES:
        return key
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()
