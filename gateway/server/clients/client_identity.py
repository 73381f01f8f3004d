"""Knows the client of one connection: address, principal, software, and whether it is proven.

A client is proven when it has authenticated or, at a listener without SASL, has sent a valid
request. Before that its requests are small and few. The log lines of a connection are written here,
because every one of them names the client. It does not read requests: ``dispatch`` does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kwire.header import API_VERSIONS

if TYPE_CHECKING:
    from gateway.handlers.context import Peer
    from gateway.security.sasl_session import SaslSession
    from gateway.server.clients.dispatch import InFlightRequest, Refusal
    from gateway.server.clients.server_context import ServerContext

#: Most requests of a client that is not proven: the longest exchange of SCRAM takes four.
UNPROVEN_REQUESTS_MAX: Final = 20


class ClientIdentity:
    """The client of one connection. ``sasl`` is None where its listener has no SASL.

    ``peer`` is replaced when an authentication changes the principal.
    """

    __slots__ = ("_server_context", "_unproven_requests", "is_proven", "peer", "sasl", "software")

    def __init__(self, peer: Peer, server_context: ServerContext, sasl: SaslSession | None) -> None:
        self.peer = peer
        self.sasl = sasl
        self.software: str | None = None
        self.is_proven = False
        self._unproven_requests = 0
        self._server_context = server_context

    @property
    def has_failed(self) -> bool:
        """Whether the client failed to authenticate."""
        return self.sasl is not None and self.sasl.has_failed

    @property
    def is_unproven_for_too_long(self) -> bool:
        """Whether the client sent ``UNPROVEN_REQUESTS_MAX`` requests and is not proven."""
        return not self.is_proven and self._unproven_requests >= UNPROVEN_REQUESTS_MAX

    def frame_limit(self) -> int:
        """Bytes that the next request may have, after the first one."""
        config = self._server_context.config
        if self.sasl is not None and not self.sasl.is_open:
            return config.sasl_server_max_receive_size
        return config.socket_request_max_bytes if self.is_proven else config.first_request_max_bytes

    def learn(self, in_flight: InFlightRequest, answer: object) -> bool:
        """Take the principal and the software from a handled request.

        Return True if this request proves the client.
        """
        proves = not self.is_proven and self._is_proof(in_flight, answer)
        if proves:
            self.is_proven = True
        elif not self.is_proven:
            self._unproven_requests += 1
        if self.sasl is not None:
            self._take_principal(self.sasl, in_flight)
        if in_flight.software is not None:
            self.name_software(in_flight.software)
        return proves

    def name_software(self, software: str | None) -> None:
        """Count the connection as one of this software; None when it closes."""
        counter = self._server_context.counts.software
        if self.software is not None:
            counter[self.software] -= 1
            # Clients choose these names: a name without connections would stay for ever.
            if not counter[self.software]:
                del counter[self.software]
        self.software = software
        if software is not None:
            counter[software] += 1

    def fields(self) -> dict[str, Any]:
        """The fields of a log event that identify the connection."""
        peer = self.peer
        return {
            "connection": peer.connection,
            "listener": peer.listener,
            "peer": f"{peer.host}:{peer.port}",
            "principal": peer.principal,
        }

    def report(self, event: str, **fields: Any) -> None:
        """Report an event of ``gateway.server.logging.log_events`` about this connection."""
        self._server_context.reports.report(
            event, **{**self.fields(), "software": self.software, **fields}
        )

    def report_refusal(self, refusal: Refusal) -> None:
        """Report a request that is not served, once for each software and API."""
        fields = refusal.fields
        key = (self.software, refusal.rule, fields.get("api"), fields.get("api_key"))
        self._server_context.reports.report_once(
            "unsupported request",
            key,
            **{**self.fields(), **fields, "software": self.software, "error": refusal.rule},
        )

    def report_bug(self, error: BaseException, request: dict[str, Any]) -> None:
        """Report an exception that no code expected; ``request``: fields of the one in flight."""
        self._server_context.reports.bug("internal error", error, **self.fields(), **request)

    def _is_proof(self, in_flight: InFlightRequest, answer: object) -> bool:
        if self.sasl is not None:
            return self.sasl.is_open
        # An ApiVersions request of an unknown version is answered with an error: it proves nothing.
        return in_flight.api_key != API_VERSIONS or not getattr(answer, "error_code", 0)

    def _take_principal(self, session: SaslSession, in_flight: InFlightRequest) -> None:
        """Take over the principal, and whether a delegation token proved it.

        A renewed authentication (KIP-368) keeps the principal, but may go from a password to a
        token of the same owner.
        """
        if session.is_open:
            proved = session.principal or self.peer.principal, session.token_authenticated
            if proved != (self.peer.principal, self.peer.token_authenticated):
                self.peer = replace(self.peer, principal=proved[0], token_authenticated=proved[1])
        elif session.has_failed:
            self.report("authentication failed", error=(in_flight.notes or {}).get("failed"))
