"""Parses host patterns of ACLs in CIDR notation (``10.0.0.0/8``), and finds those that contain an
address. Pure.

Source: ``CidrUtils`` of Kafka 4.4 and the ``SubnetUtils`` it uses, error texts included. It knows
no ACL.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.base.java.text import parse_integer

_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
#: Leading zeros of a group of hexadecimal digits: Java accepts any number, Python four digits.
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9A-Fa-f.])0+(?=[0-9A-Fa-f]+(?::|$))")
_NAMED_SCOPE: Final = re.compile(r"%(?![0-9]+\]?\Z)")
_IPV6_CHARS_MAX: Final = 256


class Network(NamedTuple):
    """The addresses whose first ``prefix`` of ``bits`` bits equal those of ``address``; its other
    bits are zero.
    """

    bits: int
    prefix: int
    address: int


def parse_cidr(pattern: str) -> Network:
    """Return the network of a pattern. Raises ValueError with Kafka's text."""
    return _parse_ipv6(pattern) if ":" in pattern else _parse_ipv4(pattern)


def _parse_ipv4(pattern: str) -> Network:
    found = _IPV4.fullmatch(pattern)
    if found is None:
        raise ValueError(f"Could not parse [{pattern}]")
    *octets, prefix = map(int, found.groups())
    for value, highest in (*((octet, 255) for octet in octets), (prefix, 32)):
        if value > highest:
            raise ValueError(f"Value [{value}] not in range [0,{highest}]")
    return _network(32, prefix, int.from_bytes(bytes(octets)))


def _parse_ipv6(pattern: str) -> Network:
    address, _, prefix_text = pattern.partition("/")
    try:
        prefix = parse_integer(prefix_text, 32)
    except ValueError:
        raise ValueError(f"Could not parse [{pattern}] - invalid prefix length") from None
    if not 0 <= prefix <= 128:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    # Java resolves the name of an interface, so the result would depend on the machine.
    if _NAMED_SCOPE.search(address):
        raise ValueError(f"Could not parse [{address}]")
    text = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        found = ipaddress.IPv6Address(
            _LEADING_ZEROS.sub("", text) if len(text) <= _IPV6_CHARS_MAX else ""
        )
    except ValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if found.ipv4_mapped is not None:  # Java reads it as an IPv4 address
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    return _network(128, prefix, int(found))


def _network(bits: int, prefix: int, address: int) -> Network:
    return Network(bits, prefix, address >> (bits - prefix) << (bits - prefix))


class CidrPatterns:
    """Many patterns. The time of a search grows with the number of different prefix lengths
    only.
    """

    def __init__(self) -> None:
        # How often each pattern of a network was added.
        self._patterns: dict[Network, dict[str, int]] = {}
        # How many networks have these (bits, prefix).
        self._lengths: dict[tuple[int, int], int] = {}

    def add(self, host: str) -> None:
        """Add the host of an ACL. A host that is no valid pattern is ignored: it matches no
        range.
        """
        network = _range(host)
        if network is None:
            return
        patterns = self._patterns.get(network)
        if patterns is None:
            patterns = self._patterns[network] = {}
            length = network[:2]
            self._lengths[length] = self._lengths.get(length, 0) + 1
        patterns[host] = patterns.get(host, 0) + 1

    def remove(self, host: str) -> None:
        """Undo one :meth:`add` of the same host."""
        network = _range(host)
        if network is None:
            return
        patterns = self._patterns[network]
        patterns[host] -= 1
        if not patterns[host]:
            del patterns[host]
        if not patterns:
            del self._patterns[network]
            length = network[:2]
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def containing(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterator[str]:
        """Yield the patterns whose range contains the address. As in Kafka, none contains
        0.0.0.0.
        """
        number, bits = int(address), address.max_prefixlen
        if bits == 32 and not number:
            return
        for length_bits, prefix in self._lengths:
            if length_bits == bits:
                yield from self._patterns.get(_network(bits, prefix, number), ())


def _range(host: str) -> Network | None:
    if "/" not in host:
        return None
    try:
        return parse_cidr(host)
    except ValueError:
        return None
