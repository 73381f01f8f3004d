"""Names the leader of a partition to a client of Fetch whose leader epoch is old (KIP-951).

Source: ``KafkaApis.handleFetchRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.catalog import controller_image
from gateway.handlers.nodes import find_broker
from kwire.messages.fetch_response import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.handlers.fetch_sessions import FetchedPartition
    from kwire.messages.fetch_response import FetchResponse, PartitionData

#: The first version whose response names the leader.
_NAMES_LEADER: Final = 16


def name_leader(
    one: FetchedPartition,
    leader_epoch: int,
    data: PartitionData,
    response: FetchResponse,
    context: Context,
) -> None:
    """Have ``data``, of a partition that this node leads or follows, name the leader, and
    ``response`` the address of its broker.
    """
    if context.version < _NAMES_LEADER:
        return
    image = controller_image(context)
    record = None if image is None else image.partitions.get(one.topic_id, {}).get(one.partition)
    # This node leads what is not in the image: its metadata log, audit and views.
    leader_id = context.gateway.node_id if record is None else record.leader
    data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    known, at = response.node_endpoints, find_broker(leader_id, context)
    if at is not None and all(other.node_id != leader_id for other in known):
        known.append(NodeEndpoint(node_id=leader_id, host=at.host, port=at.port, rack=at.rack))
