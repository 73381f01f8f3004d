"""Addresses: valid ones keep their text, invalid ones are refused."""

from __future__ import annotations

import pytest

from gateway.base.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ctl1:9093", Address("ctl1", 9093)),
        ("127.0.0.1:1", Address("127.0.0.1", 1)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_parsed_address_has_its_text(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "ctl1", "ctl1:0", "ctl1:65536", "1@ctl1:9093", "::1:9093", "[::1]", "a b:1", "http://a:1"],
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text)


def test_default_port_is_used_without_a_port() -> None:
    assert parse_address("ctl1", 9092) == Address("ctl1", 9092)
    assert parse_address("ctl1:1", 9092) == Address("ctl1", 1)


def test_port_0_is_accepted_for_listeners_only() -> None:
    assert parse_address("[fe80::1%eth0]:0", least_port=0) == Address("fe80::1%eth0", 0)
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address("ctl1", least_port=0)
