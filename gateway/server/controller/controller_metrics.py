"""Collects the metrics of the controller: figures of the decisions that this node made as leader.

Follows Kafka's ``QuorumControllerMetrics``. Does not import Prometheus. Counts of the cluster are
those of ``gateway.server.management.cluster_facts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.server.scheduling.duration_stats import DurationStats
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.controller.controller import Controller
    from kwire.message import Message


class ControllerMeasures:
    """Figures of this node's controllers since the start of the process."""

    def __init__(self) -> None:
        self.started = 0  #: decisions on requests, and periodic tasks
        self.timed_out = 0  #: requests whose records were committed after their client gave up
        self.heartbeats_timed_out = 0  #: those of brokers among them
        self.processing = DurationStats()  #: of decisions, s
        self.new_controllers = 0  #: changes of the leader that this node has seen
        self._seen = (-1, -1)

    def decided(self, seconds: float) -> None:
        """A decision, or the periodic tasks that were due, took ``seconds`` of processing, slices
        together.
        """
        self.started += 1
        self.processing.add(seconds)

    def too_late(self, requests: Iterable[Message]) -> None:
        """Count requests whose records were committed after they were answered with
        REQUEST_TIMED_OUT.
        """
        for request in requests:
            self.timed_out += 1
            self.heartbeats_timed_out += isinstance(request, BrokerHeartbeatRequest)

    def leader_is(self, epoch: int, leader_id: int) -> None:
        """Note the current leader; -1: none is known."""
        if leader_id >= 0 and (epoch, leader_id) != self._seen:
            self._seen = epoch, leader_id
            self.new_controllers += 1


class ControllerFacts:
    """Metrics of one node. ``controller`` returns the active controller if it is this node's."""

    def __init__(self, controller: Callable[[], Controller | None]) -> None:
        self.measures: Final = ControllerMeasures()
        self._controller = controller

    @property
    def is_active(self) -> bool:
        """True if this node is the active controller."""
        return self._controller() is not None
