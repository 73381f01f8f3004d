"""Rules of versions that a server does not offer, for every API."""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.connection import PeerClosed
from kwire.conformance.outcome import ProbeTimeout
from kwire.conformance.probe import Probe, request_of
from kwire.conformance.requests import small_request
from kwire.conformance.rule import Family, Role, Rule
from kwire.conformance.session import codec_versions
from kwire.errors import UnsupportedVersion
from kwire.header import request_header_version
from kwire.messages.request_header import RequestHeader
from kwire.protocol import ApiKey

FAMILY: Final = Family("versions", "Versions that a server does not offer")


def above_highest(api: ApiKey, probe: Probe) -> None:
    """Send a request one version above the highest."""
    version = probe.session.offered[api][1] + 1
    known = request_of(api).VERSIONS
    header = RequestHeader(
        request_api_key=api, request_api_version=version, correlation_id=61, client_id="kwire"
    )
    data = header.encode(request_header_version(api, version))
    data += small_request(api, known[-1]).encode(known[-1])
    _refuses_version(probe, api, version, data)


def below_lowest(api: ApiKey, probe: Probe) -> None:
    """Send a request one version below the lowest."""
    version = probe.session.offered[api][0] - 1
    if version < 0:
        probe.not_applicable(f"{api.title} is offered from version 0 on")
    header = RequestHeader(
        request_api_key=api, request_api_version=version, correlation_id=61, client_id="kwire"
    )
    data = header.encode(request_header_version(api, version)) + _body(api, version)
    _refuses_version(probe, api, version, data)


def _body(api: ApiKey, version: int) -> bytes:
    try:
        return small_request(api, version).encode(version)
    except UnsupportedVersion:
        return bytes(32)


def _refuses_version(probe: Probe, api: ApiKey, version: int, data: bytes) -> None:
    connection = probe.connect()
    connection.send_request(data, api, version, "this version is not offered")
    try:
        received = connection.receive(probe.close_s)
    except PeerClosed:
        return
    except ProbeTimeout:
        probe.fail(f"{api.title} v{version} has neither an answer nor a closed connection")
    code = b"\0\x23"  # UNSUPPORTED_VERSION, in the first fields of a body
    probe.expect(
        code in received[4:16], f"{api.title} v{version} is answered, although it is not offered"
    )


def _add_versions() -> None:
    for api in ApiKey:
        roles = frozenset(Role(name) for name in api.listeners)
        if not codec_versions(api) or api is ApiKey.API_VERSIONS:
            continue
        for name, check, says in (
            ("above-highest", above_highest, "one version above the highest that is offered"),
            ("below-lowest", below_lowest, "one version below the lowest that is offered"),
        ):
            FAMILY.add(
                Rule(
                    id=f"versions.{api.title}.{name}",
                    says=f"A {api.title} request {says} closes the connection or is answered with "
                    "UNSUPPORTED_VERSION.",
                    check=functools.partial(check, api),
                    source="SocketServer.Processor",
                    section="processCompletedReceives: InvalidRequestException",
                    since="2.4",
                    roles=roles,
                    apis=(api,),
                )
            )


_add_versions()
