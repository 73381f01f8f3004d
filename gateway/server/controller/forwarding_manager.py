"""Sends requests to the active controller from a node that is none (``ForwardingManager``).

A client's request goes in an Envelope, and one of this node itself without. ``request_router`` has
the waiting and the repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.server.controller.proposals import QueuedRequest
from gateway.server.controller.request_router import RequestRouter

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.base.address import Address
    from gateway.ports.pending_response import PendingResponse
    from gateway.ports.services import Requester
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings
    from kwire.message import Message


class ForwardingManager:
    """``gateway.ports.services.Controllers`` with one connection to the active controller.
    :meth:`run` is the task.
    """

    #: Of ``LocalController``: there is none at this node.
    leads = False
    is_active = False

    def __init__(
        self,
        leader_address: Callable[[], Address | None],
        settings: ConnectionSettings,
        reports: Reports,
    ) -> None:
        self.router = RequestRouter(self, leader_address, settings, reports)

    def submit(
        self, request: Message, version: int, requester: Requester, pending: PendingResponse
    ) -> None:
        """Forward ``request``; its response completes ``pending``."""
        self.router.route(QueuedRequest(request, version, requester, pending))

    def take(self, queued: QueuedRequest) -> bool:
        """See ``LocalController``."""
        return False

    async def run(self) -> None:
        """Forward requests, for ever."""
        await self.router.run()
