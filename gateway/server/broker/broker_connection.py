"""Keeps one connection to another broker of the cluster, at the address that the image has for it
(``NetworkClient`` of a broker's threads). It does not know the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.base.address import Address
from gateway.base.sizes import MIB
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import UpstreamError

if TYPE_CHECKING:
    from gateway.server.node_client.settings import ConnectionSettings
    from kwire.cluster import Image
    from kwire.message import Message

_RESPONSE_MAX: Final = 64 * MIB
#: A response may have one for each partition of the leader.
_ELEMENTS_MAX: Final = 300_000


class InterBrokerSettings(NamedTuple):
    """The name of the brokers' listener (``inter.broker.listener.name``), and how to connect to it,
    or why that is not possible.
    """

    listener: str
    connection: ConnectionSettings | str


class BrokerConnection:
    """Owns the connection to broker ``broker_id``. The caller sends one request at a time.

    ``address`` returns where the broker is now, None while it is not registered.
    """

    def __init__(
        self,
        broker_id: int,
        address: Callable[[], Address | None],
        settings: InterBrokerSettings,
        *,
        response_max_bytes: int = _RESPONSE_MAX,
    ) -> None:
        self._broker_id = broker_id
        self._address = address
        self._settings = settings
        self._response_max_bytes = response_max_bytes
        self._upstream: Upstream | None = None

    async def call(self, request: Message, versions: range, *, more_s: float = 0.0) -> Any:
        """Send a request in the newest of ``versions`` that the broker has, and return its
        response. Connects first where that is needed. ``more_s``: how long the broker may wait, in
        addition to the timeout of the connection. Raises UpstreamError, and the connection is
        closed.
        """
        connection = self._settings.connection
        if isinstance(connection, str):
            raise UpstreamError(f"broker {self._broker_id}", connection)
        try:
            upstream = await self._connected(connection)
            assert request.API_KEY is not None, "it is a request"
            version = upstream.common_version(request.API_KEY, versions)
            return await upstream.call(request, version, timeout_s=connection.timeout_s + more_s)
        except UpstreamError:
            await self.close()
            raise

    async def _connected(self, connection: ConnectionSettings) -> Upstream:
        address, upstream = self._address(), self._upstream
        if address is None:
            raise UpstreamError(
                f"broker {self._broker_id}",
                f"it is not registered with a listener {self._settings.listener}",
                "inter.broker.listener.name has to name a listener that every broker has",
            )
        if upstream is None or not upstream.is_open or upstream.address != address:
            await self.close()
            upstream = self._upstream = await Upstream.connect(
                address,
                connection.security,
                client_id=connection.client_id,
                timeout_s=connection.timeout_s,
                response_max_bytes=self._response_max_bytes,
                response_max_elements=_ELEMENTS_MAX,
            )
        return upstream

    async def close(self) -> None:
        """Close the connection, if there is one."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.aclose()


def broker_address(broker_id: int, listener: str, image: Image | None) -> Address | None:
    """Return the address of a broker's listener; None if it has none of this name."""
    broker = None if image is None else image.brokers.get(broker_id)
    for one in () if broker is None else broker.end_points:
        if one.name == listener:
            return Address(one.host, one.port)
    return None
