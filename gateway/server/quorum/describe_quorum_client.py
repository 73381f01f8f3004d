"""Sends DescribeQuorum to the quorum's leader for clients: one request at a time, whose response
goes to all clients that wait.

It has a connection of its own, because a Fetch may wait for half a second on the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.base.error_text import error_with_code
from gateway.quorum.requests import DESCRIBE_QUORUM_VERSIONS, describe_quorum
from gateway.server.node_client.errors import ConnectionClosed, UpstreamError
from gateway.server.node_client.peer import Peer
from gateway.server.node_client.settings import ConnectionSettings
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.base.address import Address
    from gateway.server.logging.logs import Reports
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse

    OnResponse = Callable[[DescribeQuorumResponse | str], None]

#: Maximum number of requests that wait for a response; more are refused at once.
_WAITING_MAX: Final = 10_000


class DescribeQuorumClient:
    """Implements ``describe`` of ``gateway.ports.services.Quorum``; :meth:`run` is the task.

    ``leader`` returns the address of the leader, or None while no leader is known.
    """

    def __init__(
        self,
        leader: Callable[[], Address | None],
        settings: ConnectionSettings,
        timeout_s: float,
        reports: Reports,
    ) -> None:
        self._leader = leader
        self._settings = settings
        self._timeout_s = timeout_s
        self._reports = reports
        self._waiting: list[OnResponse] = []
        self._requested = trio.Event()

    def describe(self, on_response: OnResponse) -> None:
        """Send DescribeQuorum to the leader. ``on_response`` is called once, with the response or
        with the reason why there is none.
        """
        if len(self._waiting) >= _WAITING_MAX:
            on_response("too many wait for an answer of the leader; ask again later")
            return
        self._waiting.append(on_response)
        self._requested.set()

    async def run(self) -> None:
        """Send a request whenever clients wait for one, for ever."""
        peer = Peer(self._settings)
        try:
            while True:
                await self._requested.wait()
                self._requested = trio.Event()
                waiting, self._waiting = self._waiting, []
                response = await self._response(peer)
                for on_response in waiting:
                    self._deliver(on_response, response)
        finally:
            with trio.CancelScope(shield=True):
                await peer.close()

    async def _response(self, peer: Peer) -> DescribeQuorumResponse | str:
        address = self._leader()
        if address is None:
            return "no leader of the quorum is known at the moment; ask again"
        try:
            response = await self._send(peer, address)
        except UpstreamError as error:
            return str(error)
        except Exception as error:  # a bug: the clients get an error, later ones a new connection
            self._reports.bug("quorum description failed", error)
            await peer.close()
            return "this server could not ask the quorum's leader; its log says why"
        return _refusal(response, address) or response

    async def _send(self, peer: Peer, address: Address) -> DescribeQuorumResponse:
        """Send one request. Raises UpstreamError.

        The peer may have closed an idle connection (``connections.max.idle.ms``): the request is
        then sent once more over a new one.
        """
        while True:
            upstream, used = await peer.at(address), peer.used
            peer.used = True
            version = upstream.common_version(
                DescribeQuorumRequest.API_KEY, DESCRIBE_QUORUM_VERSIONS
            )
            try:
                response: DescribeQuorumResponse = await upstream.call(
                    describe_quorum(), version, timeout_s=self._timeout_s
                )
                return response
            except ConnectionClosed:
                if not used:
                    raise

    def _deliver(self, on_response: OnResponse, response: DescribeQuorumResponse | str) -> None:
        try:
            on_response(response)
        except Exception as error:  # a bug of one handler must not fail the other clients
            self._reports.bug("quorum response not delivered", error)


def _refusal(response: DescribeQuorumResponse, address: Address) -> str:
    """The reason why the response cannot be passed on; empty if it can."""
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return (
            f"{address} does not let this gateway describe the quorum: allow its principal to "
            "Describe the cluster"
        )
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    codes = [
        code for code in (response.error_code, *(one.error_code for one in partitions)) if code
    ]
    if codes or not partitions:
        said = error_with_code(codes[0]) if codes else "nothing"
        return f"{address} answered with {said}; ask again"
    return ""
