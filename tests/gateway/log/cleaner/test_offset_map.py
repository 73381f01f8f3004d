"""The map of keys to offsets: any key, in bounded memory."""

from __future__ import annotations

from gateway.log.cleaner.offset_map import ENTRY_BYTES, OffsetMap


def test_newest_offset_of_short_and_long_keys_is_found() -> None:
    keys = [b"", b"a", b"k" * 15, b"k" * 16, b"k" * 17, b"k" * 1000]
    one = OffsetMap(1 << 20)
    for offset, key in enumerate([*keys, *keys]):
        one.put(key, offset)
    assert [one.get(key) for key in keys] == list(range(len(keys), 2 * len(keys)))
    assert one.get(b"other") == -1


def test_map_is_full_at_its_memory() -> None:
    one = OffsetMap(2 * ENTRY_BYTES)
    for offset, (key, is_full) in enumerate([(b"a", False), (b"a", False), (b"b", True)]):
        one.put(key, offset)
        assert one.is_full is is_full
