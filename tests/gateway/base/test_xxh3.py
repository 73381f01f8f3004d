"""XXH3 gives the numbers that hash4j, which Kafka uses, gives."""

from __future__ import annotations

import pytest

from gateway.base.xxh3 import xxh3_64


@pytest.mark.parametrize(
    ("size", "value"),
    [
        (0, 3244421341483603138),
        (1, 16226181191752404715),
        (3, 12180141160879835164),
        (4, 6297312323375345790),
        (8, 12752855198315354378),
        (9, 10000907846553926702),
        (16, 3159599325006435930),
        (17, 7070371635116224842),
        (128, 16813233705924465638),
        (129, 13063484349860316345),
        (240, 4473034316189165092),
        (241, 13654115510048419178),
        (1040, 4637946388692919818),
        (2816, 7575320993163446002),
    ],
)
def test_hash_of_each_length_is_that_of_hash4j(size: int, value: int) -> None:
    data = bytes((7 * at + size) & 0xFF for at in range(size))
    assert xxh3_64(data) == value
