"""Gives out producer ids from blocks that the controller allocates (``RPCProducerIdManager``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.lifecycle import BrokerLifecycle
    from gateway.server.quorum.own_requests import OwnRequests

_OnDone = Callable[[int | ErrorCode], None]


class ProducerIdManager:
    """``gateway.ports.replicas.ProducerIds``; :meth:`run` is the task."""

    def __init__(self, node_id: int, lifecycle: BrokerLifecycle, requests: OwnRequests) -> None:
        self._node_id = node_id
        self._lifecycle = lifecycle
        self._requests = requests
        self._left = range(0)
        self._waiting: deque[_OnDone] = deque()
        self._wake = trio.Event()

    def allocate(self, on_done: _OnDone) -> None:
        """As in ``ProducerIds``: at once while the block lasts."""
        if self._left and not self._waiting:
            self._give(on_done)
            return
        self._waiting.append(on_done)
        self._wake.set()

    def _give(self, on_done: _OnDone) -> None:
        first, self._left = self._left[0], self._left[1:]
        on_done(first)

    async def run(self) -> None:
        """Ask for a block whenever producers wait for one, for ever."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._waiting:
                error = await self._take_block()
                while self._waiting and (self._left or error):
                    on_done = self._waiting.popleft()
                    if error:
                        on_done(error)
                    else:
                        self._give(on_done)

    async def _take_block(self) -> ErrorCode | None:
        """Ask for the next block; return the error for the producers that wait."""
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._lifecycle.epoch
        )
        response = await self._requests.send(request, 0)
        if response is None or response.error_code:
            # Retriable, as in Kafka: the client asks again.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        first = response.producer_id_start
        self._left = range(first, first + response.producer_id_len)
        return None
