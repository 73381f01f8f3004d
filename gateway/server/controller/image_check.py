"""Tells the quorum's core whether this node knows the whole log, and the controller whether it may
decide.

A decision on an image that lacks a committed record could contradict it. The loader knows what is
missing (``gateway.sources.metadata_loader``), and the core what follows for elections
(``gateway.quorum.events.ImageLacks``). A controller of Kafka ends in this case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.quorum.events import ImageLacks
from gateway.server.controller.proposals import QueuedRequest, refuse
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.sources.metadata_loader import MetadataLoader


class ImageCheck:
    """Compares what the image lacks with what the core was told."""

    def __init__(self, loader: MetadataLoader, driver: RaftDriver) -> None:
        self.lacks: str | None = None  #: as the core was told; None: the image is whole
        self._loader = loader
        self._driver = driver

    def has_changed(self) -> bool:
        """Look at the image, and tell the core, ahead of all other events, if the answer is
        another one.
        """
        loader = self._loader
        lacks = loader.lacks if loader.problem is None else str(loader.problem)
        if lacks == self.lacks:
            return False
        self.lacks = lacks
        self._driver.submit_first(ImageLacks(lacks))
        return True

    def refuses(self, queued: QueuedRequest) -> bool:
        """Refuse a request that no node may decide on: this one must not, and no other one leads.
        False, and nothing is done, otherwise.
        """
        raft = self._driver.raft
        if self.lacks is None or raft.leader_id not in (-1, raft.node_id):
            return False
        why = f"No controller is active, and this node must not be: {self.lacks}."
        refuse(queued, ErrorCode.NOT_CONTROLLER, why)
        return True
