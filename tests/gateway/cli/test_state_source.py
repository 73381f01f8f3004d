"""Offsets, times and sources as users write them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gateway.cli.state_source import parse_at, parse_source
from kwire.metadata_log.at import At, time_text


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0", At(offset=0)),
        ("999999999999", At(offset=999999999999)),
        ("1795231092379", At(time_ms=1795231092379)),
        ("2026-11-21T03:18:12.379Z", At(time_ms=1795231092379)),
        ("2026-11-21T03:18:12.379", At(time_ms=1795231092379)),
        ("2026-11-21T05:18:12.379+02:00", At(time_ms=1795231092379)),
        ("2026-11-21", At(time_ms=1795219200000)),
    ],
)
def test_offsets_and_times(text: str, at: At) -> None:
    assert parse_at(text) == at


def test_every_millisecond_of_a_time_is_read_as_written() -> None:
    for ms in range(1000):
        assert parse_at(f"2026-11-21T03:18:12.{ms:03d}Z").time_ms == 1795231092000 + ms


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5", "9" * 30, "2026-13-01"])
def test_text_that_is_neither_offset_nor_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_at(text)


def test_a_source_is_a_path_or_a_server_with_or_without_an_end(tmp_path: Path) -> None:
    there = str(tmp_path)
    assert parse_source(there) == (tmp_path, At())
    assert parse_source(f"{there}@12") == (tmp_path, At(offset=12))
    assert parse_source("kafka1:9092") == (("kafka1", 9092), At())
    assert parse_source("[::1]:9092@2026-11-21T00:00:00Z") == (
        ("::1", 9092),
        At(time_ms=1795219200000),
    )
    odd = tmp_path / "backup@12"
    odd.mkdir()
    assert parse_source(str(odd)) == (odd, At())
    assert parse_source(f"{odd}@3") == (odd, At(offset=3))


@pytest.mark.parametrize(
    "text", ["", "nowhere", "no/where:9092", "nowhere@3", "@3", "host:9092@never"]
)
def test_text_that_is_neither_path_nor_server_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_source(text)


def test_times_in_text() -> None:
    assert time_text(1795231092379) == "2026-11-21T03:18:12.379Z"
    assert time_text(2**62) == f"{2**62} ms"
