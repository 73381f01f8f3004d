"""Which nodes clients can be sent to, and where: brokers, and the nodes of our own quorum. It knows
no request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.handlers.catalog import own_image

if TYPE_CHECKING:
    from gateway.handlers.context import Context


class Node(NamedTuple):
    """A node, at the address for clients of the same listener as the one that asks."""

    host: str
    port: int
    rack: str | None = None


def reachable_nodes(context: Context) -> dict[int, Node]:
    """By id, sorted: this node always, as it knows itself; others that registered a listener of the
    same name.
    """
    gateway, listener = context.gateway, context.peer.listener
    endpoint = gateway.endpoint(listener)
    found: dict[int, Node] = {}
    image = own_image(context)
    if image is not None:
        for node_id, broker in image.brokers.items():
            at = None if broker.fenced else _at(listener, broker.end_points)
            if at is not None:
                found[node_id] = Node(at.host, at.port, broker.rack)
        for node_id, controller in image.controllers.items():
            at = _at(listener, controller.end_points)
            if at is not None:
                found[node_id] = Node(at.host, at.port)
    found[gateway.node_id] = Node(endpoint.host, endpoint.port)
    return dict(sorted(found.items()))


def _at(listener: str, endpoints: Iterable[Any]) -> Any | None:
    return next((one for one in endpoints if one.name == listener), None)
