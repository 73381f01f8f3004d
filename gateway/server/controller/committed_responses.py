"""Holds the responses of committed proposals until this node's image has their changes.

A client that has its response then reads its own write from this node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.server.controller.proposals import Proposal, answer

if TYPE_CHECKING:
    from gateway.sources.metadata_loader import MetadataLoader


class CommittedResponses:
    """The committed proposals whose responses were not sent yet, in order."""

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader
        self._waiting: deque[Proposal] = deque()

    def add(self, proposals: Iterable[Proposal]) -> None:
        """Send the responses of ``proposals`` when the image has their records."""
        for proposal in proposals:
            assert proposal.end_offset is not None, "only what was appended is committed"
            self._waiting.append(proposal)
        self.send()

    def send(self) -> None:
        """Send the responses whose records are in the image by now.

        An image that has stopped loading is not waited for: the change is committed, and its client
        would time out.
        """
        loader, waiting = self._loader, self._waiting
        while waiting and (
            loader.problem is not None or (waiting[0].end_offset or 0) <= loader.next_offset
        ):
            answer([waiting.popleft()])
