"""Routes requests that an active controller decides on: to this node's controller while it is
active, to the leader otherwise.

Requests wait until a leader is known. One that certainly did not reach the active controller is
routed again; one that may have is answered with REQUEST_TIMED_OUT. ``ControllerForwarder`` sends
them; nothing here decides. Follows Kafka's ``ForwardingManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.ports.answer_errors import errors_of
from gateway.server.controller.controller_forwarder import (
    ControllerForwarder,
    ForwardFailed,
    NotController,
)
from gateway.server.controller.envelopes import ForwardingRefused
from gateway.server.controller.proposals import refuse
from gateway.server.node_client.errors import UnsupportedByPeer, UpstreamError
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.server.controller.envelopes import ForwardingMetrics
    from gateway.server.controller.proposals import QueuedRequest
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings

#: Maximum number of requests that wait for a leader; more are refused at once.
_WAITING_MAX: Final = 10_000
#: Delay before a request is forwarded again, s.
_RETRY_S: Final = 0.1
#: Interval of the check for a new leader, s.
_CHECK_S: Final = 0.1


class LocalController(Protocol):
    """The controller of this node."""

    @property
    def leads(self) -> bool:
        """True if this node leads the quorum, whether its controller is active yet or not."""

    def take(self, queued: QueuedRequest) -> bool:
        """Decide on a request here, or refuse it; False if the leader has to decide."""


class RequestRouter:
    """:meth:`run` is a task; the other methods return at once."""

    def __init__(
        self,
        local: LocalController,
        leader_address: Callable[[], Address | None],
        settings: ConnectionSettings,
        reports: Reports,
    ) -> None:
        self._local = local
        self._leader_address = leader_address
        self._forwarder = ControllerForwarder(settings)
        self._reports = reports
        self._requests: deque[QueuedRequest] = deque()
        self._nursery: trio.Nursery | None = None
        self._reported: set[tuple[str, str]] = set()  # APIs and errors

    @property
    def forwarding(self) -> ForwardingMetrics:
        """Metrics of forwarded requests."""
        return self._forwarder.measures

    def route(self, queued: QueuedRequest) -> None:
        """Let this node's controller take the request; forward it, or keep it, otherwise."""
        if queued.is_wanted and not self._local.take(queued) and self._add(queued):
            self._forward_waiting()

    def route_waiting(self) -> None:
        """Route the waiting requests anew: this node's controller may take them now."""
        for queued in self._take_waiting():
            self.route(queued)

    def _add(self, queued: QueuedRequest) -> bool:
        """Keep a request until a leader is known; False if it was refused because too many wait."""
        if len(self._requests) >= _WAITING_MAX:
            self._requests = deque(one for one in self._requests if one.is_wanted)
        if len(self._requests) >= _WAITING_MAX:
            why = "Too many requests wait for a controller; ask again later."
            refuse(queued, ErrorCode.NOT_CONTROLLER, why)
            return False
        self._requests.append(queued)
        return True

    def _take_waiting(self) -> list[QueuedRequest]:
        """Remove and return all requests for which a client still waits."""
        requests, self._requests = self._requests, deque()
        return [queued for queued in requests if queued.is_wanted]

    def _forward_waiting(self) -> None:
        """Send the waiting requests to the leader, if another node is known to lead."""
        address = self._leader_address()
        if self._local.leads or address is None or self._nursery is None:
            return
        for queued in self._take_waiting():
            self._nursery.start_soon(self._forward, queued, address)

    async def run(self) -> None:
        """Find a leader for the waiting requests, and follow it with the connections; for ever."""
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    await trio.sleep(_CHECK_S)
                    await self._forwarder.leader_is(self._leader_address())
                    self._forward_waiting()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                await self._forwarder.close()

    async def _forward(self, queued: QueuedRequest, address: Address) -> None:
        try:
            answer = await self._forwarder.ask(
                address, queued.request, queued.version, queued.requester, lambda: queued.is_wanted
            )
        except NotController:
            await self._retry(queued)
        except ForwardFailed as error:
            if queued.is_wanted:
                self._report(queued, error)
                await self._retry(queued)
        except UnsupportedByPeer as error:
            why = f"The controller cannot be asked this: {error}"
            refuse(queued, ErrorCode.UNSUPPORTED_VERSION, why)
        except ForwardingRefused as error:
            self._reports.report(
                "forwarding refused",
                api=queued.request.NAME,
                controller=str(address),
                error=str(error),
            )
            why = f"The controller does not take this from this node: {error}."
            refuse(queued, ErrorCode.UNKNOWN_SERVER_ERROR, why)
        except UpstreamError as error:
            why = (
                "The controller was asked and has not answered, so whether this was done is not "
                f"known: {error}"
            )
            refuse(queued, ErrorCode.REQUEST_TIMED_OUT, why)
        else:
            self._reported.clear()
            if ErrorCode.NOT_CONTROLLER in errors_of(answer):
                await self._retry(queued)
            else:
                queued.pending.complete(answer)

    def _report(self, queued: QueuedRequest, error: ForwardFailed) -> None:
        # Once until a request gets an answer: a broker repeats its heartbeat ten times a second.
        problem = queued.request.NAME, str(error)
        if problem not in self._reported:
            self._reported.add(problem)
            self._reports.report("request not forwarded", api=problem[0], error=problem[1])

    async def _retry(self, queued: QueuedRequest) -> None:
        await trio.sleep(_RETRY_S)
        if queued.is_wanted:
            self.route(queued)
