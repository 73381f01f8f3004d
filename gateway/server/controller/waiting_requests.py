"""Holds requests for which no controller is active here, and forwards them to the leader.

Requests wait until a leader is known: this node, which decides them itself, or another one, to
which ``ControllerForwarder`` sends them. One that certainly did not reach the active controller is
forwarded again; one that may have is answered with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

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
    from gateway.server.controller.proposals import QueuedRequest
    from gateway.server.logging.logs import Reports

#: Maximum number of requests that wait for a leader; more are refused at once.
_WAITING_MAX: Final = 10_000
#: Delay before a request is forwarded again, s.
_RETRY_S: Final = 0.1


class WaitingRequests:
    """``route`` gets a request that has to be decided or forwarded once more."""

    def __init__(
        self,
        forwarder: ControllerForwarder,
        reports: Reports,
        route: Callable[[QueuedRequest], None],
    ) -> None:
        self._forwarder = forwarder
        self._reports = reports
        self._route = route
        self._requests: deque[QueuedRequest] = deque()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, queued: QueuedRequest) -> bool:
        """Keep a request until a leader is known; False if it was refused because too many wait."""
        if len(self._requests) >= _WAITING_MAX:
            self._requests = deque(one for one in self._requests if one.is_wanted)
        if len(self._requests) >= _WAITING_MAX:
            why = "Too many requests wait for a controller; ask again later."
            refuse(queued, ErrorCode.NOT_CONTROLLER, why)
            return False
        self._requests.append(queued)
        return True

    def take(self) -> list[QueuedRequest]:
        """Remove and return all requests for which a client still waits."""
        requests, self._requests = self._requests, deque()
        return [queued for queued in requests if queued.is_wanted]

    def forward(self, address: Address, nursery: trio.Nursery) -> None:
        """Send all of them to the leader at ``address``."""
        for queued in self.take():
            nursery.start_soon(self._forward, queued, address)

    async def _forward(self, queued: QueuedRequest, address: Address) -> None:
        try:
            answer = await self._forwarder.ask(
                address, queued.request, queued.version, queued.requester, lambda: queued.is_wanted
            )
        except NotController:
            await self._retry(queued)
        except ForwardFailed as error:
            if queued.is_wanted:
                self._reports.report(
                    "request not forwarded", api=queued.request.NAME, error=str(error)
                )
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
            if ErrorCode.NOT_CONTROLLER in errors_of(answer):
                await self._retry(queued)
            else:
                queued.pending.complete(answer)

    async def _retry(self, queued: QueuedRequest) -> None:
        await trio.sleep(_RETRY_S)
        if queued.is_wanted:
            self._route(queued)
