"""Changes of the voters (KIP-853)."""

from __future__ import annotations

import math

from gateway.quorum.raft.events import Requested
from gateway.quorum.raft.leading import Office
from gateway.quorum.raft.node import Node
from gateway.quorum.raft.roles import Follower, Leader


class VoterChanges:
    """The part of a node that adds, removes and updates voters."""

    def __init__(self, node: Node, office: Office) -> None:
        self._node = node
        self._office = office

    def on_add(self, asked: Requested) -> None: ...
    def on_remove(self, asked: Requested) -> None: ...
    def on_update(self, asked: Requested) -> None: ...
    def gone(self, number: int) -> None: ...
    def poll(self, leader: Leader) -> None: ...
    def poll_follower(self, role: Follower) -> None: ...
    def committed(self, leader: Leader) -> None: ...
    def left_office(self, leader: Leader) -> None: ...
    def deadline(self, leader: Leader) -> float:
        return math.inf
