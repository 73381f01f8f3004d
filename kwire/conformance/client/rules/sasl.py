"""Rules of SASL: the order of requests, refusals, and sessions that end (KIP-368)."""

from __future__ import annotations

from typing import Final

from kwire.conformance.client.faults import EVER
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.rule import CLIENT, Family, Level
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("client-sasl", "SASL")

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
_APIS: Final = (_AUTHENTICATE, _HANDSHAKE)
_BEFORE: Final = (ApiKey.API_VERSIONS, _HANDSHAKE, _AUTHENTICATE)
_SESSION_MS: Final = 1500
#: Authentications that a client may try in two seconds while each is refused.
_ATTEMPTS_MAX: Final = 60


@FAMILY.rule("first", source="KIP-43", section="SASL handshake", roles=CLIENT, apis=_APIS)
def first(probe: ClientProbe) -> None:
    """A client sends nothing but ApiVersions before it is authenticated, on every connection."""
    probe.prepare(nodes=2)
    probe.state.leader = 2
    probe.start()
    probe.works()
    for link in probe.traffic.links():
        requests = [seen for seen in probe.traffic.all() if seen.link is link]
        apis = [seen.api for seen in requests]
        done = apis.index(_AUTHENTICATE) if _AUTHENTICATE in apis else len(apis)
        early = [api for api in apis[:done] if api not in _BEFORE]
        if early:
            probe.fail(f"{ApiKey(early[0]).title} is sent on a connection before SaslAuthenticate")


@FAMILY.rule("mechanism-refused", source="KIP-43", section="SASL handshake", roles=CLIENT,
    apis=_APIS)  # fmt: skip
def mechanism_refused(probe: ClientProbe) -> None:
    """A client whose mechanism is refused sends no SaslAuthenticate, which would show its
    secret.
    """
    probe.prepare()
    probe.cluster.mechanisms = ("KWIRE-CONFORM",)
    probe.start()
    probe.until(lambda: probe.traffic.all(_HANDSHAKE), "a SaslHandshake request")
    probe.during(2)
    probe.expect(not probe.traffic.all(_AUTHENTICATE), "the client sent SaslAuthenticate")


@FAMILY.rule("refused", source="KIP-152", section="Proposed Changes", since="1.0",
    level=Level.SHOULD, roles=CLIENT, apis=_APIS)  # fmt: skip
def refused(probe: ClientProbe) -> None:
    """A client whose authentication is refused sends no other request on the connection, and tries
    no more than 30 times a second.
    """
    probe.prepare()
    error = ErrorCode.SASL_AUTHENTICATION_FAILED
    fault = probe.fault("refused", _AUTHENTICATE, error=error, times=EVER)
    probe.start()
    probe.happened(fault)
    probe.during(2)
    others = [seen for seen in probe.traffic.all() if seen.api not in _BEFORE]
    probe.expect(not others, "the client sends requests without being authenticated")
    count = len(fault.happened)
    probe.expect(count <= _ATTEMPTS_MAX, f"the client tried {count} times in 2 s")


@FAMILY.rule("session-ends", source="KIP-368", section="Proposed Changes", since="2.2",
    roles=CLIENT, apis=_APIS)  # fmt: skip
def session_ends(probe: ClientProbe) -> None:
    """A client goes on when its SASL session ends: it authenticates again, or connects again after
    the broker closed the connection.
    """
    _ended(probe)


@FAMILY.rule("authenticates-again", source="KIP-368", section="Proposed Changes", since="2.2",
    level=Level.SHOULD, roles=CLIENT, apis=_APIS)  # fmt: skip
def authenticates_again(probe: ClientProbe) -> None:
    """A client authenticates again on the same connection before its SASL session ends, so that no
    broker has to close the connection.
    """
    _ended(probe)
    late = [seen for seen in probe.traffic.all() if seen.fault]
    probe.expect(not late, "the client sent a request after the end of its session")
    again = any(
        sum(seen.link is link and seen.api == _AUTHENTICATE for seen in probe.traffic.all()) > 1
        for link in probe.traffic.links()
    )
    probe.expect(again, "no connection was authenticated a second time")


def _ended(probe: ClientProbe) -> None:
    probe.uses(_AUTHENTICATE, 1)
    probe.prepare()
    probe.state.session_ms = _SESSION_MS
    probe.start()
    probe.until(lambda: probe.traffic.all(probe.data_api), f"a {probe.data_api.title}")
    probe.during(2.5 * _SESSION_MS / 1000)
    if probe.running.status == 0:
        probe.not_applicable("the program ended before its session did")
    last = probe.traffic.all(probe.data_api)[-1]
    probe.request_after(last, probe.data_api, "a request after the end of the session")
    probe.works(repeats=True)
