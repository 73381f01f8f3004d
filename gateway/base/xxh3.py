"""Computes the 64-bit XXH3 hash of bytes, without a seed and with its default secret.

Kafka's group coordinator keeps such a hash of the topics that a group subscribes to. It is not
meant for much data: a megabyte takes a fifth of a second.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_PRIME32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dcc"
    "ff7221b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819"
    "ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3eb"
    "c3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f"
    "95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_LANES: Final = struct.Struct("<8Q")
_LONG: Final = struct.Struct("<Q")
_INT: Final = struct.Struct("<I")


def xxh3_64(data: bytes) -> int:
    """The hash of ``data``, without a sign."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 128:
        return _up_to_128(data, size)
    if size <= 240:
        return _up_to_240(data, size)
    return _long(data, size)


def _u64(data: bytes, at: int) -> int:
    number: int = _LONG.unpack_from(data, at)[0]
    return number


def _u32(data: bytes, at: int) -> int:
    number: int = _INT.unpack_from(data, at)[0]
    return number


def _fold(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    """The last step of XXH64, which short inputs use."""
    value = (value ^ value >> 33) * _PRIME64[1] & _MASK
    value = (value ^ value >> 29) * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"))
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        mixed = (_u32(data, size - 4) + (_u32(data, 0) << 32)) & _MASK
        mixed ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        mixed ^= _rotate(mixed, 49) ^ _rotate(mixed, 24)
        mixed = mixed * _PRIME_MX2 & _MASK
        mixed = (mixed ^ (mixed >> 35) + size) * _PRIME_MX2 & _MASK
        return mixed ^ mixed >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix(data: bytes, at: int, secret_at: int) -> int:
    low = _u64(data, at) ^ _u64(_SECRET, secret_at)
    high = _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8)
    return _fold(low, high)


def _up_to_128(data: bytes, size: int) -> int:
    total = size * _PRIME64[0]
    for pair in range((size - 1) // 32, -1, -1):
        total += _mix(data, 16 * pair, 32 * pair)
        total += _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _MASK)


def _up_to_240(data: bytes, size: int) -> int:
    total = size * _PRIME64[0]
    total += sum(_mix(data, 16 * at, 16 * at) for at in range(8))
    total = _avalanche(total & _MASK)
    total += sum(_mix(data, 16 * at, 16 * (at - 8) + 3) for at in range(8, size // 16))
    total += _mix(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [
        _PRIME32[2], _PRIME64[0], _PRIME64[1], _PRIME64[2],
        _PRIME64[3], _PRIME32[1], _PRIME64[4], _PRIME32[0],
    ]  # fmt: skip
    scramble = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for stripe in range((size - 1) // _STRIPE):
        number = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, number * 8)
        if number == _STRIPES_PER_BLOCK - 1:
            for lane, secret in enumerate(scramble):
                value = lanes[lane]
                lanes[lane] = ((value ^ value >> 47 ^ secret) * _PRIME32[0]) & _MASK
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64[0]
    for pair in range(4):
        secret_at = 11 + 16 * pair
        low = lanes[2 * pair] ^ _u64(_SECRET, secret_at)
        total += _fold(low, lanes[2 * pair + 1] ^ _u64(_SECRET, secret_at + 8))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    secrets = _LANES.unpack_from(_SECRET, secret_at)
    for lane in range(8):
        value = values[lane]
        keyed = value ^ secrets[lane]
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK
        lanes[lane ^ 1] = (lanes[lane ^ 1] + value) & _MASK
