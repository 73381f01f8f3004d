"""Names the leader of a partition to a client of Fetch whose leader epoch is old (KIP-951), and
to a follower whose log was compared with the leader's.

Source: ``KafkaApis.handleFetchRequest``; :func:`tell_compared` has no counterpart in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.catalog import controller_image
from gateway.handlers.nodes import find_broker
from kwire.messages.fetch_response import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.handlers.fetch_sessions import FetchedPartition
    from gateway.ports.services import Partition
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


def tell_compared(
    one: FetchedPartition, log: Partition, data: PartitionData, context: Context
) -> None:
    """Have ``data`` name this leader where a follower is to hear that its records are the leader's:
    the leader has deleted all of them, and the follower does not know that they were compared
    before. Kafka names the leader in answers with an error alone, and reads this in no other.
    """
    has_records = one.last_fetched_epoch >= 0
    if one.is_compared and has_records and one.fetch_offset == log.log_start_offset:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=context.gateway.node_id, leader_epoch=log.leader_epoch
        )
