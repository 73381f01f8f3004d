"""Holds a connection to one node of a quorum at a time, and maps its errors to those of the raft
core and to Kafka's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.base.address import Address
from gateway.quorum.effects import Failure, FailureKind
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.controller_check import require_controller
from gateway.server.node_client.errors import Refused
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.server.node_client.errors import UpstreamError
    from gateway.server.node_client.settings import ConnectionSettings
    from kwire.message import Message

_KINDS: Final = {
    "unreachable": FailureKind.UNREACHABLE,
    "tls": FailureKind.UNREACHABLE,
    "authentication": FailureKind.UNAUTHORIZED,
    "closed": FailureKind.CLOSED,
    "timeout": FailureKind.TIMEOUT,
    "undecodable": FailureKind.UNDECODABLE,
    "unsupported_version": FailureKind.UNSUPPORTED_VERSION,
}


class Peer:
    """At most one connection, to one address at a time.

    The caller sets ``used`` when it has sent a request; a new connection resets it. The caller may
    repeat a request that fails with ConnectionClosed on a connection that was used before.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.used = False
        self._settings = settings
        self._upstream: Upstream | None = None

    async def at(self, address: Address) -> Upstream:
        """Return the connection to ``address``; one to another address is closed. Raises
        UpstreamError.
        """
        upstream = self._upstream
        if upstream is not None and upstream.is_open and upstream.address == address:
            return upstream
        await self.close()
        self.used = False
        settings = self._settings
        self._upstream = await Upstream.connect(
            address, settings.security, client_id=settings.client_id, timeout_s=settings.timeout_s
        )
        await require_controller(self._upstream, settings.timeout_s)
        return self._upstream

    async def close(self) -> None:
        """Close the connection, if there is one."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.aclose()


def failure(error: UpstreamError) -> Failure:
    """Convert an error into the raft core's event data."""
    kind = FailureKind.REFUSED if isinstance(error, Refused) else _KINDS[error.kind]
    return Failure(kind, str(error))


def error_of(answer: Message) -> str | None:
    """Kafka's name of the first error code in a response of a quorum API, "OTHER" for an unknown
    code, None without an error. The names become labels of a metric, so peers must not choose them.
    """
    topics: Sequence[Any] = (
        getattr(answer, "responses", None) or getattr(answer, "topics", None) or ()
    )
    codes = [partition.error_code for topic in topics for partition in topic.partitions]
    code = next((code for code in (getattr(answer, "error_code", 0), *codes) if code), 0)
    if not code:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return "OTHER"
