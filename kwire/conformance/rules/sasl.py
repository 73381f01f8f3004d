"""Rules of SASL: the handshake, and requests before the authentication (KIP-43, KIP-152)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.connection import Connection
from kwire.conformance.probe import Probe
from kwire.conformance.requests import small_request
from kwire.conformance.rule import Family, Need
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.protocol import ApiKey, ErrorCode

_APIS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SASL: Final = frozenset({Need.SASL})
_NO_SASL: Final = frozenset({Need.NO_SASL})
_KIP: Final = "KIP-152"
_AUTHENTICATOR: Final = "SaslServerAuthenticator"

FAMILY: Final = Family("sasl", "SASL", apis=_APIS, since="1.0")


def _handshake(probe: Probe, connection: Connection, mechanism: str) -> Any:
    request = SaslHandshakeRequest(mechanism=mechanism)
    return probe.call(request, probe.need(ApiKey.SASL_HANDSHAKE, 1), connection)


def _mechanisms(probe: Probe) -> list[str]:
    return list(_handshake(probe, probe.connect(authenticated=False), "NO-SUCH").mechanisms)


def _authenticate(probe: Probe, connection: Connection, token: bytes) -> Any:
    version = probe.newest(ApiKey.SASL_AUTHENTICATE, at_most=1)
    return probe.call(SaslAuthenticateRequest(auth_bytes=token), version, connection)


@FAMILY.rule(
    "no-sasl-here",
    source=_AUTHENTICATOR,
    section="ILLEGAL_SASL_STATE",
    since="0.10",
    needs=_NO_SASL,
)
def no_sasl_here(probe: Probe) -> None:
    """A listener without SASL answers SaslHandshake with ILLEGAL_SASL_STATE."""
    answer = _handshake(probe, probe.connect(), "PLAIN")
    probe.expect_error(answer.error_code, ErrorCode.ILLEGAL_SASL_STATE)


@FAMILY.rule(
    "no-authenticate-here", source=_AUTHENTICATOR, section="ILLEGAL_SASL_STATE", needs=_NO_SASL
)
def no_authenticate_here(probe: Probe) -> None:
    """A listener without SASL answers SaslAuthenticate with ILLEGAL_SASL_STATE."""
    answer = _authenticate(probe, probe.connect(), b"\0user\0password")
    probe.expect_error(answer.error_code, ErrorCode.ILLEGAL_SASL_STATE)


@FAMILY.rule(
    "versions-before-authentication",
    source="KIP-43",
    section="ApiVersions",
    since="0.10",
    needs=_SASL,
)
def versions_before_authentication(probe: Probe) -> None:
    """ApiVersions is answered before the authentication, with the APIs that are offered later."""
    connection = probe.connect(authenticated=False)
    version = probe.newest(ApiKey.API_VERSIONS, at_most=3)
    answer = probe.call(small_request(ApiKey.API_VERSIONS, version), version, connection)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    found = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    probe.expect(found == probe.session.offered, "before the authentication it names other APIs")


@FAMILY.rule(
    "nothing-before-authentication",
    source=_AUTHENTICATOR,
    section="handleKafkaRequest",
    since="0.10",
    needs=_SASL,
)
def nothing_before_authentication(probe: Probe) -> None:
    """Any other request before the authentication closes the connection."""
    api = ApiKey.METADATA if ApiKey.METADATA in probe.session.offered else ApiKey.DESCRIBE_CLUSTER
    connection = probe.connect(authenticated=False)
    version = probe.newest(api)
    _, data = probe.encode(small_request(api, version), version)
    connection.send_request(data, api, version)
    probe.expect_close(connection, f"{api.title} before the authentication")


@FAMILY.rule(
    "no-authenticate-before-handshake",
    source=_AUTHENTICATOR,
    section="handleKafkaRequest",
    needs=_SASL,
)
def no_authenticate_before_handshake(probe: Probe) -> None:
    """SaslAuthenticate before the handshake closes the connection."""
    connection = probe.connect(authenticated=False)
    version = probe.newest(ApiKey.SASL_AUTHENTICATE, at_most=1)
    request = SaslAuthenticateRequest(auth_bytes=b"\0user\0password")
    _, data = probe.encode(request, version)
    connection.send_request(data, ApiKey.SASL_AUTHENTICATE, version)
    probe.expect_close(connection, "SaslAuthenticate before the handshake")


@FAMILY.rule(
    "unknown-mechanism", source="KIP-43", section="SaslHandshake", since="0.10", needs=_SASL
)
def unknown_mechanism(probe: Probe) -> None:
    """A mechanism that the listener does not have is answered with UNSUPPORTED_SASL_MECHANISM and
    those that it has.
    """
    answer = _handshake(probe, probe.connect(authenticated=False), "NO-SUCH")
    probe.expect_error(answer.error_code, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    probe.expect(bool(answer.mechanisms), "no mechanism is named")


@FAMILY.rule("handshake", source="KIP-43", section="SaslHandshake", since="0.10", needs=_SASL)
def handshake(probe: Probe) -> None:
    """A mechanism that the listener names is accepted."""
    [mechanism, *_] = _mechanisms(probe)
    answer = _handshake(probe, probe.connect(authenticated=False), mechanism)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(mechanism in answer.mechanisms, f"{mechanism} is accepted and not named")


def _refused(probe: Probe, mechanism: str, token: bytes) -> None:
    if mechanism not in _mechanisms(probe):
        probe.not_applicable(f"the listener does not have {mechanism}")
    connection = probe.connect(authenticated=False)
    _handshake(probe, connection, mechanism)
    answer = _authenticate(probe, connection, token)
    probe.expect_error(answer.error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
    probe.expect_close(connection, "a failed authentication")


@FAMILY.rule("wrong-password", source=_KIP, section="SASL_AUTHENTICATION_FAILED", needs=_SASL)
def wrong_password(probe: Probe) -> None:
    """PLAIN with a wrong password is answered with SASL_AUTHENTICATION_FAILED, and the connection
    is closed.
    """
    _refused(probe, "PLAIN", b"\0kwire-conform\0wrong")


@FAMILY.rule("plain-without-password", source="RFC 4616", section="2", needs=_SASL)
def plain_without_password(probe: Probe) -> None:
    """A PLAIN message of fewer than three parts is answered with SASL_AUTHENTICATION_FAILED."""
    _refused(probe, "PLAIN", b"\0kwire-conform")


@FAMILY.rule("scram-rubbish", source="RFC 5802", section="7", needs=_SASL)
def scram_rubbish(probe: Probe) -> None:
    """A first SCRAM message that is none is answered with SASL_AUTHENTICATION_FAILED."""
    _refused(probe, "SCRAM-SHA-256", b"rubbish")


@FAMILY.rule("error-tells-nothing", source=_KIP, section="ErrorMessage", needs=_SASL)
def error_tells_nothing(probe: Probe) -> None:
    """The error message of a failed authentication does not tell whether the user exists."""
    if "PLAIN" not in _mechanisms(probe):
        probe.not_applicable("the listener does not have PLAIN")
    messages = set()
    for user in (b"kwire-conform", b"admin", b"alice"):
        connection = probe.connect(authenticated=False)
        _handshake(probe, connection, "PLAIN")
        answer = _authenticate(probe, connection, b"\0" + user + b"\0wrong-password")
        messages.add((answer.error_message or "").replace(user.decode(), "USER"))
    probe.expect(len(messages) == 1, f"the messages differ: {sorted(messages)}")


@FAMILY.rule("authenticated-works", source=_KIP, section="SaslAuthenticate", needs=_SASL)
def authenticated_works(probe: Probe) -> None:
    """Behind the authentication requests are answered on the same connection."""
    version = probe.newest(ApiKey.API_VERSIONS, at_most=4)
    connection = probe.connect()
    for _ in range(2):
        answer = probe.call(small_request(ApiKey.API_VERSIONS, version), version, connection)
        probe.expect_error(answer.error_code, ErrorCode.NONE)
