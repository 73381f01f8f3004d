"""Ranges of hosts in ACLs: what one contains, and that many are found as quickly as one."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.acls import ALLOW, DENY, LITERAL
from gateway.security.cidr import CidrPatterns, Network, parse_cidr
from tests.gateway.security.test_standard_authorizer import authorizer


def containing(address: str, *patterns: str) -> list[str]:
    found = CidrPatterns()
    for pattern in patterns:
        found.add(pattern)
    return sorted(found.containing(ipaddress.ip_address(address)))


# The results of Kafka 4.4.0's CidrUtils.isInRange for each.
@pytest.mark.parametrize(
    ("address", "pattern", "inside"),
    [
        ("10.0.0.0", "10.0.0.0/8", True),
        ("10.255.255.255", "10.1.2.3/8", True),
        ("11.0.0.0", "10.0.0.0/8", False),
        ("10.0.0.1", "10.0.0.1/32", True),
        ("10.0.0.2", "10.0.0.1/32", False),
        ("1.2.3.4", "0.0.0.0/0", True),
        ("0.0.0.0", "0.0.0.0/0", False),
        ("fd00::1", "fd00::/8", True),
        ("fe00::1", "fd00::/8", False),
        ("::1", "0.0.0.0/0", False),
        ("10.0.0.1", "::/0", False),
        ("2001:db8::1", "[2001:db8::]/32", True),
        ("2001:db8::1", "02001:0db8::/32", True),
    ],
)
def test_range_contains_the_addresses_that_kafka_finds(
    address: str, pattern: str, inside: bool
) -> None:
    assert containing(address, pattern) == ([pattern] if inside else [])


def test_hosts_that_are_no_ranges_contain_nothing() -> None:
    assert (
        containing("10.0.0.1", "*", "10.0.0.1", "10.0.0.0/33", "10.0.0/8", "nonsense/8", "fd00::/x")
        == []
    )


def test_pattern_added_twice_is_there_until_both_are_removed() -> None:
    patterns = CidrPatterns()
    address = ipaddress.ip_address("10.1.1.1")
    for _ in range(2):
        patterns.add("10.0.0.0/8")
    patterns.add("10.9.9.9/8")
    patterns.remove("10.0.0.0/8")
    assert sorted(patterns.containing(address)) == ["10.0.0.0/8", "10.9.9.9/8"]
    patterns.remove("10.0.0.0/8")
    patterns.remove("10.9.9.9/8")
    assert list(patterns.containing(address)) == []
    assert vars(patterns) == vars(CidrPatterns())


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_network_is_that_of_the_standard_library(address: int, prefix: int) -> None:
    text = f"{ipaddress.IPv4Address(address)}/{prefix}"
    assert parse_cidr(text) == Network(
        32, prefix, int(ipaddress.ip_network(text, strict=False).network_address)
    )


@given(st.text(alphabet="0123456789abcdef:./[]%+-x\u0660 ", max_size=40))
def test_any_text_is_a_network_or_a_value_error(text: str) -> None:
    try:
        network = parse_cidr(text)
    except ValueError:
        return
    assert network.bits in (32, 128) and 0 <= network.prefix <= network.bits


def test_authorizer_allows_and_denies_by_range() -> None:
    rows = [
        ("TOPIC", "a", LITERAL, "User:ann", "10.0.0.0/8", "READ", ALLOW),
        ("TOPIC", "a", LITERAL, "User:ann", "10.6.6.0/24", "READ", DENY),
        ("TOPIC", "a", LITERAL, "User:ann", "fd00::/8", "READ", ALLOW),
    ]
    who = authorizer(*rows)
    hosts = ["10.1.1.1", "10.6.6.6", "11.0.0.1", "::ffff:10.1.1.1", "fd12::1", "host.example"]
    assert [who.allows("User:ann", host, "READ", "TOPIC", "a") for host in hosts] == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
