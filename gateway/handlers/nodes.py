"""Finds the nodes that clients can connect to: brokers, and the nodes of this node's own quorum.

It knows no request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.handlers.catalog import controller_image

if TYPE_CHECKING:
    from gateway.handlers.context import Context


class Node(NamedTuple):
    """A node, at its address on the client's listener."""

    host: str
    port: int
    rack: str | None = None


def reachable_nodes(context: Context) -> dict[int, Node]:
    """Return the nodes by id, sorted: this node always, at its configured address; others if they
    have registered a listener with the name of the client's. A node that is a broker is named while
    it is not fenced, another controller always: its registration tells nothing of its life. A
    broker names brokers only.
    """
    gateway, listener = context.gateway, context.peer.listener
    found: dict[int, Node] = {}
    image = controller_image(context)
    if image is not None:
        for node_id, broker in image.brokers.items():
            at = None if broker.fenced else _at(listener, broker.end_points)
            if at is not None:
                found[node_id] = Node(at.host, at.port, broker.rack)
        # Clients of a node of the quorum may use the others; those of a broker use the brokers.
        controllers = {} if gateway.config.is_broker_alone else image.controllers
        for node_id, controller in controllers.items():
            at = _at(listener, controller.end_points)
            if at is not None and node_id not in image.brokers:
                found[node_id] = Node(at.host, at.port)
    found[gateway.node_id] = _this_node(context)
    return dict(sorted(found.items()))


def find_broker(node_id: int, context: Context) -> Node | None:
    """Return a broker that clients of this listener can connect to: this node, or one that is
    registered with such a listener and not fenced.
    """
    listener = context.peer.listener
    if node_id == context.gateway.node_id:
        return _this_node(context)
    image = controller_image(context)
    broker = None if image is None else image.brokers.get(node_id)
    at = None if broker is None or broker.fenced else _at(listener, broker.end_points)
    return None if broker is None or at is None else Node(at.host, at.port, broker.rack)


def _this_node(context: Context) -> Node:
    endpoint = context.gateway.endpoint(context.peer.listener)
    return Node(endpoint.host, endpoint.port, context.gateway.config.broker_rack)


def _at(listener: str, endpoints: Iterable[Any]) -> Any | None:
    return next((one for one in endpoints if one.name == listener), None)
