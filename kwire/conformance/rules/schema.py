"""Rules that the message schemas give for every API and version.

A small valid request is answered in the form of its version; a request that ends early closes the
connection; unknown tagged fields are ignored (KIP-482).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from kwire.conformance.probe import Probe, api_of
from kwire.conformance.requests import CHANGING, small_request
from kwire.conformance.rule import Changes, Family, Need, Role, Rule
from kwire.conformance.session import codec_versions
from kwire.header import request_header_version
from kwire.message import Message, Struct
from kwire.messages.request_header import RequestHeader
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("schema", "Every API and version, by its schema")

#: A tag that no schema has.
_UNKNOWN_TAG: Final = 9999
_ERROR_CODES: Final = frozenset(int(code) for code in ErrorCode)
#: On a connection that is authenticated these two are answered by closing it.
_SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def answered(api: ApiKey, version: int, probe: Probe) -> None:
    """Send the small request, and check every byte of the answer."""
    request = small_request(api, version)
    connection = probe.connect()
    number, data = probe.encode(request, version)
    connection.send_request(data, api, version)
    answer = probe.receive(connection, api, version, number)
    received = connection.round_trips[0].received or b""
    body = answer.encode(version)
    probe.expect(
        received.endswith(body) and len(received) - len(body) in (4, 5),
        "the answer decodes, but its encoding is not the shortest: encoded again it has "
        f"{len(body)} bytes behind the header of {len(received)} in all",
    )
    for place, code in error_codes(answer, version):
        probe.expect(code in _ERROR_CODES, f"{place} is {code}, which is no error code of Kafka")


def truncated(api: ApiKey, version: int, probe: Probe) -> None:
    """Send the small request without its last byte."""
    connection = probe.connect()
    _, data = probe.encode(small_request(api, version), version)
    connection.send_request(data[:-1], api, version, "its last byte is missing")
    probe.expect_close(connection, "a request without its last byte")


def unknown_tags(api: ApiKey, version: int, probe: Probe) -> None:
    """Send the small request with an unknown tagged field in header and body."""
    request = small_request(api, version).copy(unknown_tags=[(_UNKNOWN_TAG, b"kwire")])
    header = RequestHeader(
        request_api_key=api,
        request_api_version=version,
        correlation_id=11,
        client_id="kwire-conform",
        unknown_tags=[(_UNKNOWN_TAG, b"kwire")],
    )
    data = header.encode(request_header_version(api, version)) + request.encode(version)
    connection = probe.connect()
    connection.send_request(data, api, version, f"tagged field {_UNKNOWN_TAG} is unknown")
    probe.receive(connection, api, version, 11)


def error_codes(value: Struct, version: int, path: str = "") -> Iterator[tuple[str, int]]:
    """Return (path, value) of every error code in a message."""
    for field in value.fields():
        if not field.at(version):
            continue
        one: Any = getattr(value, field.attr)
        where = f"{path}.{field.name}" if path else field.name
        if field.is_struct:
            for index, part in enumerate(one or ()) if field.array else [(None, one)]:
                if part is not None:
                    yield from error_codes(
                        part, version, where if index is None else f"{where}[{index}]"
                    )
        elif field.name == "ErrorCode":
            yield where, one


def _roles(api: ApiKey) -> frozenset[Role]:
    return frozenset(Role(name) for name in api.listeners) or frozenset(Role)


def _add(
    name: str, says: str, check: Any, request: Message, version: int, source: str, section: str
) -> None:
    api = api_of(request)
    FAMILY.add(
        Rule(
            id=f"schema.{api.title}.v{version}.{name}",
            says=says,
            check=functools.partial(check, api, version),
            source=source,
            section=section,
            since="2.4" if version in request.FLEXIBLE_VERSIONS else "0.8",
            roles=_roles(api),
            apis=(api,),
            version=version,
            changes=(
                Changes.CLUSTER if api in CHANGING and name != "truncated" else Changes.NOTHING
            ),
            needs=frozenset({Need.NO_SASL}) if api in _SASL else frozenset(),
        )
    )


def _add_all() -> None:
    for api in ApiKey:
        for version in codec_versions(api):
            about = f"{api.title} v{version}"
            schema = f"{api.title}Request.json, {api.title}Response.json"
            request = small_request(api, version)
            _add(
                "answered",
                f"A small valid {about} request is answered with its correlation id, in the header "
                "and body of that version, without a byte left over, in the shortest encoding, and "
                "with error codes of Kafka's list.",
                answered, request, version, schema, f"version {version}",
            )  # fmt: skip
            _add(
                "truncated",
                f"A {about} request without its last byte closes the connection.",
                truncated, request, version, "RequestContext", "parseRequest",
            )  # fmt: skip
            if version in request.FLEXIBLE_VERSIONS:
                _add(
                    "unknown-tags",
                    f"Unknown tagged fields in header and body of a {about} request are ignored.",
                    unknown_tags, request, version, "KIP-482", "Tagged Fields",
                )  # fmt: skip


_add_all()
