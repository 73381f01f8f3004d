"""Tells which nodes can have replicas: registered brokers, or the quorum's nodes if there are none.

Follows ``ClusterControlManager`` and ``DirectoryId``. It knows no request.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.placement import UsableNode
from kwire.cluster import Image
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.uuid import ZERO_UUID, Uuid

#: ``DirectoryId.UNASSIGNED``: the broker will report the directory of the replica.
UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
#: ``DirectoryId.MIGRATING``: the broker has registered no directories yet.
MIGRATING: Final = ZERO_UUID
#: ``DirectoryId.LOST``: the directory of the replica is offline; which one it was is unknown.
LOST: Final = Uuid(bytes(15) + b"\x02")


class Nodes:
    """The brokers of ``image``; the nodes ``serving`` if none is registered."""

    def __init__(self, image: Image, serving: tuple[int, ...]) -> None:
        self._brokers = image.brokers
        self._serving = serving

    def usable(self) -> list[UsableNode]:
        """Return the nodes for placement: not in controlled shutdown, and with a directory that
        takes replicas (``ClusterControlManager.usableBrokers``).
        """
        if not self._brokers:
            # No brokers: the nodes of the quorum serve the topics themselves.
            return [UsableNode(node_id) for node_id in self._serving]
        return [
            UsableNode(node_id, broker.rack, broker.fenced)
            for node_id, broker in self._brokers.items()
            # A fenced broker is in no controlled shutdown any more (BrokerHeartbeatManager.touch),
            # and may return. The placer takes it last.
            if (broker.fenced or not broker.in_controlled_shutdown) and _has_room(broker)
        ]

    def __contains__(self, node_id: object) -> bool:
        # Fenced brokers too: a manual assignment may name one that is restarting.
        return node_id in self._brokers if self._brokers else node_id in self._serving

    def is_active(self, node_id: int) -> bool:
        """Whether the node can be in an ISR: registered, not fenced, not in controlled shutdown
        (``ClusterControlManager.isActive``).
        """
        broker = self._brokers.get(node_id)
        # Without brokers the quorum's nodes hold the topics, and each of them counts as active.
        if broker is None:
            return not self._brokers and node_id in self._serving
        return not broker.fenced and not broker.in_controlled_shutdown

    def has_directory(self, node_id: int, directory: Uuid) -> bool:
        """Whether a replica in ``directory`` of the node is usable (``DirectoryId.isOnline``).

        It is if the directory is not known, or if the node has registered no directories.
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return not self._brokers and node_id in self._serving
        if directory in (UNASSIGNED, MIGRATING):
            return True
        # A broker without KIP-858 has registered no directories, and all of its replicas are
        # online.
        return directory != LOST and (not broker.log_dirs or directory in broker.log_dirs)

    def default_directory(self, node_id: int) -> Uuid:
        """Return the directory of a new replica on the node: its only one, else unknown
        (``ClusterControlManager.defaultDir``).
        """
        broker = self._brokers.get(node_id)
        if broker is None:
            return UNASSIGNED
        if not broker.log_dirs:
            return MIGRATING
        # With several the broker chooses, and reports it by AssignReplicasToDirs (KIP-858).
        return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def _has_room(broker: RegisterBrokerRecord) -> bool:
    """Whether the broker has a directory that is not cordoned, for new replicas (KIP-1066)."""
    cordoned = broker.cordoned_log_dirs
    return not broker.log_dirs or not cordoned or not set(broker.log_dirs) <= set(cordoned)
