"""On which nodes replicas can be: the registered brokers, or the nodes of the quorum while there
are none.

Knows no request.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.placement import UsableNode
from kwire.cluster import Image
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.uuid import ZERO_UUID, Uuid

#: ``DirectoryId``: a replica whose directory its broker will tell, and one of a broker that has
#: told none yet.
UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
MIGRATING: Final = ZERO_UUID
#: A directory that is there no more, whichever it was.
LOST: Final = Uuid(bytes(15) + b"\x02")


class Nodes:
    """The nodes of ``image`` that partitions may be placed on; ``serving`` where no broker is
    registered.
    """

    def __init__(self, image: Image, serving: tuple[int, ...]) -> None:
        self._brokers = image.brokers
        self._serving = serving

    def usable(self) -> list[UsableNode]:
        """For placement: those that are not about to leave. Who has left is fenced, and may come
        back.
        """
        if not self._brokers:
            return [UsableNode(node_id) for node_id in self._serving]
        return [
            UsableNode(node_id, broker.rack, broker.fenced)
            for node_id, broker in self._brokers.items()
            if (broker.fenced or not broker.in_controlled_shutdown) and _has_room(broker)
        ]

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._brokers if self._brokers else node_id in self._serving

    def is_active(self, node_id: int) -> bool:
        """Can it be in an ISR: registered, not fenced, not about to leave
        (``ClusterControlManager.isActive``)?
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return not self._brokers and node_id in self._serving
        return not broker.fenced and not broker.in_controlled_shutdown

    def has_directory(self, node_id: int, directory: Uuid) -> bool:
        """Can a replica of that node be used that is in ``directory`` (``DirectoryId.isOnline``)?

        One whose directory nobody knows can, and any of a node that tells no directories.
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return not self._brokers and node_id in self._serving
        if directory in (UNASSIGNED, MIGRATING):
            return True
        return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)

    def default_directory(self, node_id: int) -> Uuid:
        """Where a new replica on that node is: known if it has one directory
        (``ClusterControlManager.defaultDir``).
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return UNASSIGNED
        if not broker.log_dirs:
            return MIGRATING
        return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def _has_room(broker: RegisterBrokerRecord) -> bool:
    """Does it have a directory that takes new replicas (KIP-1066)?"""
    cordoned = broker.cordoned_log_dirs
    return not broker.log_dirs or not cordoned or not set(broker.log_dirs) <= set(cordoned)
