"""Carries requests over connections: on one of them they arrive in order, and nothing after one
that was lost. A process that restarts has none of the connections that it had.
"""

from __future__ import annotations

from typing import Any

from gateway.quorum.effects import FailureKind
from tests.sim.links import Asked, Links


class Connections(Links):
    """Links between brokers, controllers and clients."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.versions[0] = range(1)
        self._arrived: dict[tuple[int, int, int], float] = {}
        self._broken: set[tuple[int, int, int]] = set()
        self._sent_to: dict[tuple[int, int, int], int] = {}

    def _is_lost(self, node: Any, send: Any, target: Any) -> bool:
        connection = node.place, target.place, send.connection
        if connection in self._broken:
            return True
        if not super()._is_lost(node, send, target):
            self._sent_to[node.place, node.incarnation, send.number] = target.incarnation
            return False
        if send.connection:
            self._broken.add(connection)
        return True

    def _arrival(self, node: Any, send: Any, target: Any) -> float:
        found = super()._arrival(node, send, target)
        if send.connection:
            connection = node.place, target.place, send.connection
            found = max(found, self._arrived.get(connection, 0.0) + 1e-6)
            self._arrived[connection] = found
        return found

    def _arrive(self, target: Any, asked: Asked) -> None:
        origin = asked.origin
        known = self._sent_to.pop((origin.place, asked.incarnation, asked.number), None)
        if target.up and known != target.incarnation:
            self._pending(origin, asked.incarnation, asked.number, FailureKind.CLOSED)
            return
        super()._arrive(target, asked)
