"""Kafka's uuids."""

from __future__ import annotations

import pytest

from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid


def test_text_form() -> None:
    assert str(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID == bytes(15) + b"\x01"
    assert repr(METADATA_TOPIC_ID) == "Uuid('AAAAAAAAAAAAAAAAAAAAAQ')"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "ü" * 22, "A" * 40])
def test_bad_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kafka uuid"):
        Uuid.parse(text)
