"""Finds the follower that a consumer is to fetch from in place of the leader: one in the client's
rack, by ``replica.selector.class`` (KIP-392).

Source: ``ReplicaManager.findPreferredReadReplica``, ``RackAwareReplicaSelector``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.replica.replica_selector import most_caught_up
from gateway.config.values import RACK_AWARE
from gateway.handlers.catalog import controller_image
from gateway.handlers.nodes import find_broker

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Partition

#: No other replica is preferred.
NONE: Final = -1
#: The first version of Fetch in which a client names its rack, and may fetch from a follower.
_RACK_ID: Final = 11


def preferred_replica(log: Partition, offset: int, rack: str | None, context: Context) -> int:
    """Return the broker id of the follower that a consumer in ``rack``, of :func:`rack_of`, is to
    fetch from; NONE if that is this node. Its broker is alive, and has a listener of the name of
    the client's.
    """
    if not rack or rack == context.gateway.config.broker_rack:
        return NONE
    found = most_caught_up(
        one
        for one in log.read_replicas(offset)
        if (node := find_broker(one.broker_id, context)) is not None and node.rack == rack
    )
    return NONE if found is None else found


def rack_of(rack: str, context: Context) -> str | None:
    """Return ``rack`` if consumers in it may be sent to a follower, else an empty text; None if
    this version of Fetch has no racks. The text is that of a broker's registration: a Fetch that
    waits keeps none of its client's.
    """
    if context.version < _RACK_ID:
        return None
    image = controller_image(context)
    if not rack or image is None or context.gateway.config.replica_selector_class != RACK_AWARE:
        return ""
    racks = (broker.rack for broker in image.brokers.values())
    return next((one for one in racks if one == rack), None) or ""
