"""Rules of what a server takes although no schema has it: bytes behind the body of a request.

librdkafka's Metadata request from version 9 on has such bytes, so that clients depend on it.
"""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.connection import PeerClosed
from kwire.conformance.probe import Probe
from kwire.conformance.requests import CHANGING, small_request
from kwire.conformance.rule import Changes, Family, Level, Need, Role, Rule
from kwire.conformance.session import codec_versions
from kwire.protocol import ApiKey

FAMILY: Final = Family("tolerance", "What a server takes although no schema has it")

_BEHIND: Final = b"\0\0\0"
_SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def bytes_behind(api: ApiKey, probe: Probe) -> None:
    """Send the small request of the newest version with three bytes behind it."""
    version = probe.newest(api, at_most=codec_versions(api)[-1])
    connection = probe.connect()
    number, data = probe.encode(small_request(api, version), version)
    connection.send_request(data + _BEHIND, api, version, "three bytes behind the body")
    try:
        received = connection.receive()
    except PeerClosed:
        probe.fail(f"{api.title} v{version} with three bytes behind its body is not answered")
    probe.decode(received, api, version, number)


def _add_all() -> None:
    for api in ApiKey:
        if not codec_versions(api):
            continue
        FAMILY.add(
            Rule(
                id=f"tolerance.{api.title}.bytes-behind",
                says=f"Bytes behind the body of a {api.title} request are ignored.",
                check=functools.partial(bytes_behind, api),
                source="AbstractRequest",
                section="parseRequest",
                # The bytes that clients are known to send are those behind Metadata.
                level=Level.MUST if api is ApiKey.METADATA else Level.SHOULD,
                roles=frozenset(Role(name) for name in api.listeners) or frozenset(Role),
                apis=(api,),
                changes=Changes.CLUSTER if api in CHANGING else Changes.NOTHING,
                needs=frozenset({Need.NO_SASL}) if api in _SASL else frozenset(),
            )
        )


_add_all()
