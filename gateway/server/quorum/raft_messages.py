"""Sends the messages of a raft core: requests to other nodes, and responses to requests of peers.

The core names each request by a number, and reads no file: the bytes of log and snapshots are
filled in here, when a response leaves. The driver decides when a message may be sent.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from gateway.log.files.errors import LogError
from gateway.quorum.effects import Reply, Send
from gateway.quorum.events import Answered, Cancelled, Failed
from gateway.server.node_client.errors import UpstreamError
from gateway.server.node_client.peer import error_of, failure
from gateway.server.quorum.raft_bytes import fill, refuse
from gateway.server.quorum.raft_links import RaftLinks
from kwire.messages.fetch_request import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    import trio

    from gateway.server.node_client.settings import ConnectionSettings
    from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics
    from gateway.server.quorum.raft_event_queue import RaftEventQueue
    from gateway.sources.quorum_log import QuorumLog
    from kwire.message import Message


class RaftMessages:
    """Requests in both directions. Their outcomes are added to ``events``."""

    def __init__(
        self,
        log: QuorumLog,
        settings: ConnectionSettings,
        measures: RaftDriverMetrics,
        events: RaftEventQueue,
        read_failed: Callable[[Exception], None],
    ) -> None:
        """``read_failed`` raises SourceStopped, or returns if the peer is to be refused."""
        self._log = log
        self._links = RaftLinks(settings)
        self._measures = measures
        self._events = events
        self._read_failed = read_failed
        self._numbers = itertools.count(1)
        self._callbacks: dict[int, Callable[[Message], None]] = {}

    def number(self) -> int:
        """A unique number for a request or a proposal."""
        return next(self._numbers)

    def received(self, number: int, on_response: Callable[[Message], None]) -> None:
        """Register a request for the core. ``on_response`` gets its response."""
        self._callbacks[number] = on_response

    def cancel(self, number: int) -> None:
        """The connection of the peer is closed: tell the core to forget the request."""
        if self._callbacks.pop(number, None) is not None:
            self._events.add(Cancelled(number))

    def transmit(self, message: Send | Reply, nursery: trio.Nursery) -> None:
        """Send a request in ``nursery``, or complete one with its response. The effects that
        ``message`` depends on are durable. Raises SourceStopped if the log cannot be read.
        """
        if isinstance(message, Send):
            nursery.start_soon(self._send, message)
            return
        on_response = self._callbacks.pop(message.number, None)
        if on_response is None:  # cancelled while the response was held
            return
        if message.read is not None:
            try:
                fill(message, self._log)
            except (OSError, LogError) as error:
                self._read_failed(error)
                refuse(message)
        on_response(message.message)

    async def close(self) -> None:
        """Close all connections to other nodes."""
        await self._links.close()

    async def _send(self, send: Send) -> None:
        try:
            version, response = await self._links.ask(send)
        except UpstreamError as error:
            self._measures.request_errors[error.kind] += 1
            self._measures.problem = str(error)
            self._events.add(Failed(send.number, failure(error)))
        else:
            # An error code is an answer, too: the core decides what it means. Here it is counted.
            code = error_of(response)
            if code is not None:
                self._measures.request_errors[code] += 1
            elif send.api_key == FetchRequest.API_KEY:
                self._measures.fetches += 1
            self._events.add(Answered(send.number, response, version))
