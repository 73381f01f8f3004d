"""HOST:PORT as users write it."""

from __future__ import annotations

import click
import pytest

from gateway.base.address import Address
from gateway.cli.address import parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("kafka-1.example", ("kafka-1.example", 9092)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("[::1]:19092", ("::1", 19092)),
        ("[fe80::1]", ("fe80::1", 9092)),
    ],
)
def test_host_and_port_are_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert parse_address(str(Address(*address))) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":9092",
        "a:b",
        "a:0",
        "a:65536",
        "a:1:2",
        "::1",
        "a b:1",
        "a:1,b:2",
        "http://a:1",
        "[]:1",
    ],
)
def test_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        parse_address(text)
